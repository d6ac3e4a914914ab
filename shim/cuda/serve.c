/* SPDX-License-Identifier: Apache-2.0
 * What the agent asks of the CUDA thread, and what that does after a restart. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "shim/cuda/drain.h"
#include "shim/cuda/idle.h"
#include "shim/cuda/thread.h"
#include "shim/inside/rank.h"

#define MS 1000000ll
#define LOOK_MS 1000         /* between looks whether the link is still there */
#define RESUME_LOOK_MS 20    /* while drained: and whether this is a restored process */
#define CONNECT_AGAIN_NS (50 * MS)
#define CONNECT_TIMES 200    /* after a restart: the agent was there a moment ago */

static int say(const struct gck_cuda_keeper *k, uint32_t type, uint64_t seq,
	       const struct gck_error *err)
{
	struct gck_link_mpi m = {.type = type, .seq = seq, .value = err ? (uint32_t)err->code : 0};

	return gck_inside_link_send(&k->link, &m, err ? err->text : NULL,
				    err ? strlen(err->text) + 1 : 0);
}

int gck_cuda_serve_hello(struct gck_cuda_keeper *k)
{
	struct gck_link_cuda_hello h = {
		.version = GCK_LINK_VERSION, .restored = k->away,
		.state = (uint64_t)(uintptr_t)&gck_cuda_state,
	};

	if (gck_inside_link_send(&k->link, &(struct gck_link_mpi){.type = GCK_LINK_CUDA_HELLO}, &h,
				 sizeof h))
		return -1;
	return k->lost.code ? say(k, GCK_LINK_CUDA_RESUMED, k->seq, &k->lost) : 0;
}

/* ---- able ----------------------------------------------------------------------------------- */

static void tell_item(void *arg, const char *object, const char *reason, const char *remedy)
{
	const struct gck_cuda_keeper *k = arg;
	const char *parts[] = {object, reason, remedy};
	char text[1024];
	size_t at = 0;

	for (int i = 0; i < 3; i++) {
		int n = snprintf(text + at, 340, "%s", parts[i]);

		at += (n < 340 ? (size_t)n : 339) + 1;
	}
	gck_inside_link_send(&k->link, &(struct gck_link_mpi){.type = GCK_LINK_CUDA_ITEM}, text, at);
}

static int look(struct gck_cuda_keeper *k)
{
	gck_cuda_able(tell_item, k);
	return say(k, GCK_LINK_CUDA_LOOKED, 0, NULL);
}

/* ---- drain and resume ----------------------------------------------------------------------- */

/* The rank waits at the gate for ever, and every agent is told why. */
static void lose(struct gck_cuda_keeper *k, const struct gck_error *err)
{
	k->away = true;
	k->lost = *err;
	fprintf(stderr, "gpuckpt: the GPU was not brought back: %s\n", err->text);
}

/* An image that is taken from here on is told first that it cannot be. */
static void resume(struct gck_cuda_keeper *k, bool restored)
{
	struct gck_error err = {0};

	__atomic_store_n(&gck_cuda_state.drained_for, 0, __ATOMIC_SEQ_CST);
	if (gck_cuda_resume(restored, &err)) {
		lose(k, &err);
		say(k, GCK_LINK_CUDA_RESUMED, k->seq, &err);
		return;
	}
	k->away = false;
	say(k, GCK_LINK_CUDA_RESUMED, k->seq, NULL);
	k->seq = 0;
	gck_cuda_release();
}

/* The old link's number means nothing here. */
static void connect_anew(struct gck_cuda_keeper *k)
{
	struct timespec pause = {0, CONNECT_AGAIN_NS};

	k->link.fd = gck_cuda_state.link_fd = -1;
	for (int i = 0; i < CONNECT_TIMES; i++) {
		if (gck_inside_link_connect(&k->link, gck_inside_agent(), NULL) == 0) {
			gck_cuda_state.link_fd = k->link.fd;
			gck_cuda_serve_hello(k);
			return;
		}
		nanosleep(&pause, NULL);
	}
}

/* CUDA is brought back without a link, too: the agent may be on its way up again. */
static void come_back(struct gck_cuda_keeper *k)
{
	k->restarts = gck_inside_restarts();
	k->away = true;
	connect_anew(k);
	resume(k, true);
}

/* Until the agent says RESUME, is gone, or has been silent for its lease. */
static void wait_resume(struct gck_cuda_keeper *k)
{
	for (;;) {
		struct gck_inside_message m = {.data = NULL};
		int rc = gck_inside_link_receive(&k->link, &m, RESUME_LOOK_MS);

		gck_inside_link_drop(&m);
		if (gck_inside_restarts() != k->restarts) {
			come_back(k);
			return;
		}
		if (rc > 0)
			k->heard_ns = gck_cuda_now_ns();
		if (rc < 0 || (rc > 0 && m.head.type == GCK_LINK_CUDA_RESUME) ||
		    gck_cuda_now_ns() - k->heard_ns > k->lease_ns)
			break;
	}
	resume(k, false);
}

static int not_drained(struct gck_cuda_keeper *k, uint64_t seq, bool lost, const struct gck_error *err)
{
	int failed;

	if (lost) {
		k->seq = seq;
		lose(k, err);
		return say(k, GCK_LINK_CUDA_RESUMED, seq, err);
	}
	failed = say(k, GCK_LINK_CUDA_DRAINED, seq, err);
	gck_cuda_release();
	return failed;
}

static int drain(struct gck_cuda_keeper *k, const struct gck_inside_message *m)
{
	struct gck_link_cuda_drain d;
	struct gck_error err = {0};
	bool lost;

	if (m->head.total != sizeof d)
		return -1;
	if (k->lost.code)
		return say(k, GCK_LINK_CUDA_RESUMED, m->head.seq, &k->lost);
	memcpy(&d, m->data, sizeof d);
	if (gck_cuda_drain(gck_cuda_now_ns() + d.limit_ms * MS, &lost, &err))
		return not_drained(k, m->head.seq, lost, &err);
	k->seq = m->head.seq;
	k->lease_ns = d.lease_ms * MS;
	k->heard_ns = gck_cuda_now_ns();
	__atomic_store_n(&gck_cuda_state.drained_for, k->seq, __ATOMIC_SEQ_CST);
	if (say(k, GCK_LINK_CUDA_DRAINED, k->seq, NULL))
		resume(k, false);
	else
		wait_resume(k);
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

static int obey(struct gck_cuda_keeper *k, const struct gck_inside_message *m)
{
	switch (m->head.type) {
	case GCK_LINK_CUDA_DRAIN:
		return drain(k, m);
	case GCK_LINK_CUDA_LOOK:
		return look(k);
	case GCK_LINK_CUDA_RESUME: /* it runs already */
	case GCK_LINK_CUDA_HOLD:
		return 0;
	default:
		return -1;
	}
}

void gck_cuda_serve(struct gck_cuda_keeper *k)
{
	int rc = 0;

	while (rc == 0 && gck_inside_link_is_ours(&k->link)) {
		struct gck_inside_message m;

		rc = gck_inside_link_receive(&k->link, &m, LOOK_MS);
		if (rc > 0) {
			rc = obey(k, &m);
			gck_inside_link_drop(&m);
		}
	}
}

/* SPDX-License-Identifier: Apache-2.0
 * The CUDA thread's requests from the agent, and what it does after a restart. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/cuda/gate/backlog.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/engine/engine.h"
#include "shim/cuda/participants/drain.h"
#include "shim/cuda/participants/late_kernel.h"
#include "shim/cuda/points/rewrite.h"
#include "shim/cuda/snapshot/device_copy.h"
#include "shim/cuda/snapshot/snapshot.h"
#include "shim/cuda/thread/node_reclaim.h"
#include "shim/cuda/thread/thread.h"
#include "shim/cuda/transfer/transfer.h"
#include "shim/inside/rank.h"

#define MS 1000000ll
#define LOOK_MS 1000         /* between checks that the link is still there */
#define LOOK_QUEUE_MS 50     /* between looks at what the program has queued */
#define ABLE_QUEUE_MS 500    /* `able` waits for its end; less than the agent waits for `able` */
#define RESUME_LOOK_MS 20    /* while drained: and that this is no restored process */
#define CONNECT_AGAIN_NS (50 * MS)
#define CONNECT_TIMES 200    /* after a restart, when the agent was there a moment ago */

static int say(const struct gck_cuda_thread *k, uint32_t type, uint64_t seq,
	       const struct gck_error *err)
{
	struct gck_thread_msg m = {.type = type, .seq = seq, .value = err ? (uint32_t)err->code : 0,
				 .round = type == GCK_LINK_CUDA_DRAINED && !err &&
					  gck_cuda_snapshot_is_on_device()};

	return gck_inside_link_send(&k->link, &m, err ? err->text : NULL,
				    err ? strlen(err->text) + 1 : 0);
}

int gck_cuda_serve_hello(struct gck_cuda_thread *k)
{
	struct gck_link_cuda_hello h = {
		.version = GCK_LINK_VERSION, .restored = k->away, .data_missing = k->data_missing,
		.pid = (uint32_t)getpid(), .state = (uint64_t)(uintptr_t)&gck_cuda_state,
	};

	if (gck_inside_link_send(&k->link, &(struct gck_thread_msg){.type = GCK_LINK_CUDA_HELLO},
				 &h, sizeof h))
		return -1;
	return k->lost.code ? say(k, GCK_LINK_CUDA_RESUMED, k->seq, &k->lost) : 0;
}

/* ---- able ----------------------------------------------------------------------------------- */

static void send_item(const struct gck_cuda_thread *k, const char *object, const char *reason,
		      const char *remedy, bool refuses)
{
	const char *parts[] = {object, reason, remedy};
	char text[1024];
	size_t at = 0;

	for (int i = 0; i < 3; i++) {
		int n = snprintf(text + at, 340, "%s", parts[i]);

		at += (n < 340 ? (size_t)n : 339) + 1;
	}
	gck_inside_link_send(&k->link, &(struct gck_thread_msg){.type = GCK_LINK_CUDA_OBSTACLE,
								.round = !refuses},
			     text, at);
}

static void tell_item(void *arg, const char *object, const char *reason, const char *remedy)
{
	send_item(arg, object, reason, remedy, true);
}

/* No obstacle, unless it does not end in time. */
static void tell_kernel(void *arg, const char *name, unsigned seconds, unsigned behind)
{
	char object[320], reason[320], before[96] = "";

	if (behind)
		snprintf(before, sizeof before, ", nor perhaps %u before it in its stream", behind);
	snprintf(object, sizeof object, "kernel %s", name);
	snprintf(reason, sizeof reason,
		 "it was launched at least %u s ago and is not done%s; without points, a "
		 "checkpoint waits for its end within timeout=",
		 seconds, before);
	send_item(arg, object, reason,
		  "compile it with gckcc (doc/kernels.md), or give timeout= more", false);
}

static void tell_no_points(void *arg, const char *object, const char *why)
{
	char reason[320];

	snprintf(reason, sizeof reason, "it has no points: %s", why);
	send_item(arg, object, reason,
		  "doc/kernels.md has what is refused; or leave it out of kernels=", false);
}

/* No obstacle. */
static void tell_in_image(void *arg, const char *object, const char *reason, const char *remedy)
{
	char text[320];

	(void)remedy;
	snprintf(text, sizeof text,
		 "%s, so the driver is in the image: a checkpoint stops the rank longer, and a "
		 "restart needs the same driver version and type of GPU", reason);
	send_item(arg, object, text, "nothing needs to be done", false);
}

/* queued_ms: for so long what was queued was not done. */
static int end_look(struct gck_cuda_thread *k, uint32_t queued_ms)
{
	k->looks_until_ns = 0;
	return gck_inside_link_send(&k->link,
				    &(struct gck_thread_msg){.type = GCK_LINK_CUDA_OBSTACLES_END,
							   .round = queued_ms},
				    NULL, 0);
}

/* The queue of a preparation is watched already, and its checkpoint tells what becomes of it. */
static int look(struct gck_cuda_thread *k)
{
	gck_cuda_able(tell_item, k);
	gck_cuda_engine_tell(tell_in_image, k);
	gck_cuda_without_points_tell(tell_no_points, k);
	if (!k->lost.code)
		gck_cuda_late_kernels_tell(tell_kernel, k);
	if (k->prepare_seq || k->lost.code)
		return end_look(k, 0);
	gck_cuda_backlog_begin();
	k->looks_until_ns = gck_cuda_now_ns() + ABLE_QUEUE_MS * MS;
	return 0;
}

/* End the look under way once it is known whether the queue reaches further. */
static int tend_look(struct gck_cuda_thread *k)
{
	bool seen;

	if (!k->looks_until_ns)
		return 0;
	if (gck_cuda_queue_done(k->looks_until_ns, &seen))
		return end_look(k, 0);
	return gck_cuda_now_ns() < k->looks_until_ns ? 0 : end_look(k, ABLE_QUEUE_MS);
}

/* A checkpoint begins: it watches the queue itself. */
static int interrupt_look(struct gck_cuda_thread *k)
{
	return k->looks_until_ns ? end_look(k, 0) : 0;
}

/* ---- drain and resume ----------------------------------------------------------------------- */

static const char *of_task(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "?";
}

/* The rank waits at the gate for ever, and every agent is told why. The user is told here, since
 * Slurm may end the step before the agent can tell. */
static void lose(struct gck_cuda_thread *k, const struct gck_error *err)
{
	k->away = true;
	k->lost = *err;
	fprintf(stderr, "gpuckpt: rank %s on %s: its GPU was not brought back: %s\n",
		of_task("SLURM_PROCID"), of_task("SLURMD_NODENAME"), err->text);
}

/* An agent that takes an image from here on learns first that it cannot. m: the order, with the
 * descriptors over which device copies are read, if at all; or NULL. */
static void resume(struct gck_cuda_thread *k, gck_cuda_source_fn *source,
		   struct gck_inside_message *m)
{
	struct gck_error err = {0};

	__atomic_store_n(&gck_cuda_state.drained_for, 0, __ATOMIC_SEQ_CST);
	if (gck_cuda_resume(source, k, &err)) {
		lose(k, &err);
		say(k, GCK_LINK_CUDA_RESUMED, k->seq, &err);
		return;
	}
	k->away = false;
	if (k->gave)
		gck_cuda_device_copy_end(ENOMEM, GCK_CUDA_RECLAIMED_BY_RANK);
	k->gave = false;
	say(k, GCK_LINK_CUDA_RESUMED, k->seq, NULL);
	k->seq = 0;
	if (m && m->nfds == GCK_LINK_DATA_FDS) {
		gck_cuda_data_serve(m->fds);
		m->nfds = 0;
	} else {
		gck_cuda_device_copy_end(ECANCELED, "it has no reader");
	}
	gck_cuda_release();
}

/* The old link's number is invalid in this process. */
static void connect_once_more(struct gck_cuda_thread *k)
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

/* Connect until it succeeds. */
static void connect_again(struct gck_cuda_thread *k)
{
	gck_cuda_state.link_fd = -1;
	gck_inside_link_close(&k->link);
	while (!gck_inside_link_is_ours(&k->link))
		connect_once_more(k);
}

/* The agent answers HELLO with a source of data. If the agent died, another one follows. */
static int source(void *arg, bool again, int fds[2], struct gck_error *err)
{
	struct gck_cuda_thread *k = arg;

	if (again && gck_cuda_serve_hello(k))
		connect_again(k);
	for (;;) {
		struct gck_inside_message m = {.data = NULL};
		int rc = gck_inside_link_receive(&k->link, &m, LOOK_MS);
		bool fill = rc > 0 && m.head.type == GCK_LINK_CUDA_RESTORE;

		if (rc < 0 || !gck_inside_link_is_ours(&k->link)) {
			connect_again(k);
			continue;
		}
		if (rc > 0 && m.head.type == GCK_LINK_CUDA_YIELD)
			/* this rank has nothing to give */
			gck_cuda_node_reclaim_serve(&k->link, &m, false);
		if (fill && m.nfds == GCK_LINK_DATA_FDS) {
			memcpy(fds, m.fds, sizeof m.fds);
			m.nfds = 0;
		} else if (fill) {
			gck_fail(err, m.head.value ? (int)m.head.value : EPROTO,
				 "the agent has no device data: "
				 "%.*s",
				 (int)m.head.total, (const char *)m.data);
		}
		gck_inside_link_drop(&m);
		if (fill)
			return err->code ? -1 : 0;
	}
}

/* Bring CUDA back even without a link: the agent may be starting again. */
static void come_back(struct gck_cuda_thread *k)
{
	k->restarts = gck_inside_restarts();
	k->away = true;
	k->data_missing = gck_cuda_snapshot_is_on_device();
	connect_once_more(k);
	resume(k, source, NULL);
	k->data_missing = false;
}

/* Wait until the agent says RESUME, is gone, or was silent for longer than its lease. */
static void wait_resume(struct gck_cuda_thread *k)
{
	struct gck_inside_message m = {.data = NULL};

	for (;;) {
		int rc = gck_inside_link_receive(&k->link, &m, RESUME_LOOK_MS);

		if (gck_inside_restarts() != k->restarts) {
			gck_inside_link_drop(&m);
			come_back(k);
			return;
		}
		if (rc > 0)
			k->heard_ns = gck_cuda_now_ns();
		if (rc > 0 && m.head.type == GCK_LINK_CUDA_YIELD)
			k->gave |= gck_cuda_node_reclaim_serve(&k->link, &m, true);
		if (rc < 0 || (rc > 0 && m.head.type == GCK_LINK_CUDA_RESUME) ||
		    gck_cuda_now_ns() - k->heard_ns > k->watchdog_ns)
			break;
		gck_inside_link_drop(&m);
	}
	resume(k, NULL, &m);
	gck_inside_link_drop(&m);
}

/* Tell the agent at once, before the gate opens. */
static void fails(void *arg, const struct gck_error *why)
{
	struct gck_cuda_thread *k = arg;

	say(k, GCK_LINK_CUDA_DRAINED, k->drain_seq, why);
	k->drain_seq = 0;
}

static int not_drained(struct gck_cuda_thread *k, uint64_t seq, bool lost,
		       const struct gck_error *err)
{
	int failed;

	if (lost) {
		k->seq = seq;
		lose(k, err);
		return say(k, GCK_LINK_CUDA_RESUMED, seq, err);
	}
	failed = k->drain_seq ? say(k, GCK_LINK_CUDA_DRAINED, seq, err) : 0;
	gck_cuda_device_copy_end(ECANCELED, "the checkpoint was given up");
	gck_cuda_release();
	return failed;
}

static int drain(struct gck_cuda_thread *k, const struct gck_inside_message *m)
{
	struct gck_link_cuda_drain d;
	struct gck_error err = {0};
	bool lost;

	if (m->head.total != sizeof d)
		return -1;
	if (k->lost.code)
		return say(k, GCK_LINK_CUDA_RESUMED, m->head.seq, &k->lost);
	memcpy(&d, m->data, sizeof d);
	gck_cuda_data_end();
	k->prepare_seq = 0;
	k->drain_seq = m->head.seq;
	if (gck_cuda_drain(&d, fails, k, &lost, &err))
		return not_drained(k, m->head.seq, lost, &err);
	k->seq = m->head.seq;
	k->watchdog_ns = d.watchdog_ms * MS;
	k->heard_ns = gck_cuda_now_ns();
	__atomic_store_n(&gck_cuda_state.drained_for, k->seq, __ATOMIC_SEQ_CST);
	if (say(k, GCK_LINK_CUDA_DRAINED, k->seq, NULL))
		resume(k, NULL, NULL);
	else
		wait_resume(k);
	return 0;
}

static int prepare_drain(struct gck_cuda_thread *k, const struct gck_inside_message *m)
{
	struct gck_link_cuda_drain d;

	if (m->head.total != sizeof d)
		return -1;
	memcpy(&d, m->data, sizeof d);
	if (k->lost.code)
		return say(k, GCK_LINK_CUDA_PREPARED, m->head.seq, NULL);
	gck_cuda_prepare(&d);
	k->prepare_seq = m->head.seq;
	return 0;
}

/* Answer the preparation under way once it is over. */
static int tend_preparation(struct gck_cuda_thread *k)
{
	uint64_t seq = k->prepare_seq;
	struct gck_error why;
	bool over, done;

	if (!seq)
		return 0;
	done = gck_cuda_prepared(&over);
	if (!done && !over)
		return 0;
	k->prepare_seq = 0;
	gck_fail(&why, EBUSY,
		 "the GPU is busy with what the program had queued when the checkpoint began (long "
		 "kernels, or one that waits for the CPU or for another rank): try again later, or "
		 "give timeout= more");
	return say(k, GCK_LINK_CUDA_PREPARED, seq, done ? NULL : &why);
}

/* ---- requests ------------------------------------------------------------------------------- */

static int obey(struct gck_cuda_thread *k, const struct gck_inside_message *m)
{
	switch (m->head.type) {
	case GCK_LINK_CUDA_DRAIN:
		return interrupt_look(k) ? -1 : drain(k, m);
	case GCK_LINK_CUDA_LIST_OBSTACLES:
		return look(k);
	case GCK_LINK_CUDA_YIELD:
		gck_cuda_node_reclaim_serve(&k->link, m, false);
		return 0;
	case GCK_LINK_CUDA_PREPARE:
		return interrupt_look(k) ? -1 : prepare_drain(k, m);
	case GCK_LINK_CUDA_RESUME: /* the process runs already, and no drain comes */
		k->prepare_seq = 0;
		gck_cuda_release();
		return 0;
	case GCK_LINK_CUDA_HOLD:
		return 0;
	default:
		return -1;
	}
}

void gck_cuda_serve(struct gck_cuda_thread *k)
{
	int rc = 0;

	while (rc == 0 && gck_inside_link_is_ours(&k->link)) {
		bool watches = k->prepare_seq || k->looks_until_ns;
		struct gck_inside_message m;

		gck_cuda_late_kernels_tick();
		rc = gck_inside_link_receive(
			&k->link, &m, gck_cuda_device_copy_tend(watches ? LOOK_QUEUE_MS : LOOK_MS));
		if (rc > 0) {
			rc = obey(k, &m);
			gck_inside_link_drop(&m);
		}
		rc = rc ? rc : tend_preparation(k);
		rc = rc ? rc : tend_look(k);
	}
	k->prepare_seq = 0;
	k->looks_until_ns = 0;
	gck_cuda_release();
}

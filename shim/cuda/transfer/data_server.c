/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/transfer/transfer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/snapshot/copy_queue.h"
#include "shim/cuda/snapshot/device_copy.h"
#include "shim/cuda/snapshot/hash.h"
#include "shim/cuda/transfer/data_link.h"
#include "shim/inside/descriptor.h"

struct requests {
	struct gck_cuda_data_link link;
	/* Copies in the order in which they began; the last one of a request answers it. */
	struct under_way {
		struct gck_link_data asked;
		bool last;
	} moves[GCK_CUDA_QUEUED_COPIES];
	unsigned first, n;
	struct gck_link_data now; /* the request that is being started; type 0: none, and another
				   * can be taken */
	uint64_t given;           /* bytes of it that were started */
};

/* ---- requests, answered in order ------------------------------------------------------------ */

/* ---- LIST ----------------------------------------------------------------------------------- */

/* The list, with neighbours joined; NULL: why says the reason. */
static struct gck_link_data *list(size_t *n, struct gck_error *why)
{
	const struct gck_cuda_snapshot *s = &gck_cuda_snapshot;
	struct gck_link_data *v;

	*n = 0;
	if (!gck_cuda_device_copy_lock(why))
		return NULL;
	v = calloc(s->n + 1, sizeof *v);
	for (size_t i = 0; v && i < s->n; i++) {
		struct gck_link_data *last = *n ? &v[*n - 1] : NULL;
		const struct gck_cuda_extent *e = &s->v[i];

		if (e->on_device && last && last->address + last->size == e->address)
			last->size += e->size;
		else if (e->on_device)
			v[(*n)++] = (struct gck_link_data){.type = GCK_LINK_DATA_PIECE,
							   .address = e->address, .size = e->size};
	}
	gck_cuda_device_copy_unlock();
	if (!v)
		gck_fail(why, ENOMEM, "no memory for a list of device memory");
	return v;
}

static int answer_list(const struct requests *r)
{
	static const struct gck_link_data the_end = {.type = GCK_LINK_DATA_END};
	struct gck_error why = {0};
	size_t n;
	struct gck_link_data *v = list(&n, &why);
	int failed = 0;

	for (size_t i = 0; !failed && i < n; i++)
		failed = gck_cuda_data_send(&r->link, &v[i], NULL);
	free(v);
	return failed ? -1 : gck_cuda_data_send(&r->link, &the_end, &why);
}

/* ---- GET, HASH ------------------------------------------------------------------------------ */

static int answer(const struct requests *r, const struct gck_link_data *asked,
		  const struct gck_error *why)
{
	struct gck_link_data m = *asked;

	m.type = GCK_LINK_DATA_READY;
	return gck_cuda_data_send(&r->link, &m, why);
}

/* Give all requests that wait this answer. */
static int answer_all(struct requests *r, const struct gck_error *why)
{
	int failed = 0;

	for (; r->n; r->n--, r->first++) {
		const struct under_way *u = &r->moves[r->first % GCK_CUDA_QUEUED_COPIES];

		if (u->last && answer(r, &u->asked, why))
			failed = -1;
	}
	if (r->now.type && answer(r, &r->now, why))
		failed = -1;
	r->now.type = 0;
	return failed;
}

/* The extent kept on a device that has the address; NULL: none. With the lock held. */
static const struct gck_cuda_extent *extent_of(uint64_t address)
{
	const struct gck_cuda_snapshot *s = &gck_cuda_snapshot;
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (s->v[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && s->v[low - 1].on_device &&
			       address - s->v[low - 1].address < s->v[low - 1].size
		       ? &s->v[low - 1]
		       : NULL;
}

/* The bytes from an address in an extent on whose copies are contiguous, too. */
static uint64_t in_a_row(const struct gck_cuda_extent *e, uint64_t address)
{
	const struct gck_cuda_extent *end = gck_cuda_snapshot.v + gck_cuda_snapshot.n, *last = e;

	while (last + 1 < end && last[1].on_device && last[1].device == e->device &&
	       last[1].address == last->address + last->size &&
	       last[1].copy == last->copy + last->size)
		last++;
	return last->address + last->size - address;
}

/* Start as much of the request as one copy can be of. 1: started; 0: it cannot be yet; -1: it
 * failed. With the lock held. */
static int start(struct requests *r, struct gck_cuda_copy_queue *m, struct gck_error *err)
{
	const bool hash = r->now.type == GCK_LINK_DATA_HASH;
	uint64_t address = r->now.address + r->given, n = r->now.size - r->given, most;
	uint64_t chunks = hash ? gck_cuda_hash_chunks(r->now.address, r->now.size) : 0,
		 at = r->given;
	const struct gck_cuda_extent *e = extent_of(address);
	CUresult rc;

	if (!e || !gck_cuda_ring_has(m->ring, r->now.number, hash ? chunks * GCK_CUDA_HASH_BYTES
								      : r->now.size))
		return gck_fail(err, EINVAL,
				"device memory was asked for that is not in the checkpoint");
	most = in_a_row(e, address);
	n = n < most ? n : most;
	if (hash) {
		at = at ? (gck_cuda_hash_chunks(r->now.address, at)) * GCK_CUDA_HASH_BYTES : 0;
		rc = gck_cuda_copy_queue_hash(m, e->device, e->copy + (address - e->address), n,
					 r->now.number + at);
		if (rc == CUDA_ERROR_NOT_SUPPORTED)
			return 0; /* the answer is given when it is its turn */
	} else {
		rc = gck_cuda_copy_queue_start(m, e->device, e->copy + (address - e->address),
					  r->now.number + at, &n);
	}
	if (rc)
		return gck_cuda_fail(err, "copying device memory out", rc);
	r->given += n;
	r->moves[(r->first + r->n++) % GCK_CUDA_QUEUED_COPIES] =
		(struct under_way){.asked = r->now, .last = r->given == r->now.size};
	if (r->given == r->now.size)
		r->now.type = 0;
	return 1;
}

/* Finish the oldest copy, or start the next. 1: something was done; 0: nothing; -1: it cannot be
 * read. With the lock held; *done: to be answered. */
static int move(struct requests *r, struct gck_cuda_copy_queue *m, struct gck_link_data *done,
		struct gck_error *err)
{
	CUresult rc = r->n ? gck_cuda_copy_queue_poll(m) : CUDA_ERROR_NOT_READY;

	if (rc == CUDA_SUCCESS) {
		const struct under_way *u = &r->moves[r->first++ % GCK_CUDA_QUEUED_COPIES];

		r->n--;
		if (u->last)
			*done = u->asked;
		return 1;
	}
	if (rc != CUDA_ERROR_NOT_READY)
		return gck_cuda_fail(err, "copying device memory out", rc);
	if (!r->now.type || gck_cuda_copy_queue_is_full(m))
		return 0;
	return start(r, m, err);
}

/* 1: something was done; 0: nothing; -1: the reader is gone. */
static int work(struct requests *r)
{
	struct gck_link_data done = {.type = 0};
	struct gck_error why = {0};
	struct gck_cuda_copy_queue *m;
	int rc;

	if (!r->n && !r->now.type)
		return 0;
	m = gck_cuda_device_copy_lock(&why);
	if (!m)
		return answer_all(r, &why) ? -1 : 1;
	rc = move(r, m, &done, &why);
	gck_cuda_device_copy_unlock();
	if (rc < 0)
		gck_cuda_device_copy_end(why.code, why.text);
	if (!rc && !r->n)
		return answer_all(r, &(struct gck_error){ENOTSUP, "there is no kernel for hashes"})
			       ? -1
			       : 1;
	return done.type && answer(r, &done, NULL) ? -1 : rc != 0;
}

/* Take a request. -1: the link must end. */
static int take(struct requests *r, const struct gck_link_data *m)
{
	switch (m->type) {
	case GCK_LINK_DATA_LIST:
		return answer_list(r);
	case GCK_LINK_DATA_GET:
	case GCK_LINK_DATA_HASH:
		r->now = *m;
		r->given = 0;
		return m->size && m->size <= (m->type == GCK_LINK_DATA_GET ? GCK_LINK_DATA_GET_MAX
									   : GCK_LINK_DATA_HASH_MAX)
			       ? 0
			       : -1;
	default:
		return -1;
	}
}

/* ---- the thread ----------------------------------------------------------------------------- */

#define NAP_NS 20000     /* while copies are under way */
#define LOOK_MS 1000     /* between checks that the socket is still there */

static struct {
	pthread_t thread;
	bool runs;
	int ring;
	struct requests requests;
} server = {.requests.link.fd = -1, .ring = -1};

/* ---- the thread ----------------------------------------------------------------------------- */

/* Forget its number first: a child made meanwhile would close the program's file there. */
static void close_ring(void)
{
	int ring = server.ring;

	server.ring = gck_cuda_state.data_fd[1] = -1;
	if (ring >= 0)
		close(ring);
}

/* If the copy cannot be opened it ends, and requests are answered with the reason. */
static void open_snapshot(void)
{
	struct gck_error why = {0};
	int rc = 1;

	while (rc > 0 && gck_cuda_device_copy_lock(&why)) {
		rc = gck_cuda_device_copy_open(server.ring, &why);
		gck_cuda_device_copy_unlock();
	}
	if (rc < 0)
		gck_cuda_device_copy_end(why.code, why.text);
	close_ring();
}

/* 1: a request was taken; 0: there was none; -1: the end. */
static int listen_once(int ms)
{
	struct gck_link_data m;
	int rc = gck_cuda_data_receive(&server.requests.link, &m, ms);

	return rc > 0 && take(&server.requests, &m) ? -1 : rc;
}

static void serve(void)
{
	const struct timespec nap = {0, NAP_NS};
	struct requests *r = &server.requests;

	for (;;) {
		int rc = work(r), heard = 0;

		if (rc >= 0 && !r->now.type)
			heard = listen_once(r->n || rc ? 0 : LOOK_MS);
		if (rc < 0 || heard < 0)
			return;
		if (r->n && !rc && !heard)
			nanosleep(&nap, NULL);
	}
}

static void *run(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	pthread_setname_np(pthread_self(), "gpuckpt-data");
	gck_gate_own_thread(&gck_gate_owner);
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	open_snapshot();
	serve();
	gck_cuda_device_copy_end(ECANCELED, "its reader has ended");
	gck_cuda_data_shut(&server.requests.link);
	return arg;
}

static void forget(void)
{
	gck_cuda_data_close(&server.requests.link);
	gck_cuda_state.data_fd[0] = -1;
	close_ring();
	server.requests = (struct requests){.link.fd = -1};
}

void gck_cuda_data_serve(const int fds[2])
{
	sigset_t all, before;

	gck_cuda_data_open(&server.requests.link, fds[0]);
	gck_cuda_state.data_fd[0] = server.requests.link.fd;
	server.ring = gck_cuda_state.data_fd[1] = gck_inside_move_away(fds[1]);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	server.runs = pthread_create(&server.thread, NULL, run, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!server.runs)
		gck_cuda_data_end();
}

void gck_cuda_data_end(void)
{
	gck_cuda_device_copy_end(ECANCELED, "the next checkpoint has begun");
	gck_cuda_data_shut(&server.requests.link);
	if (server.runs)
		pthread_join(server.thread, NULL);
	server.runs = false;
	forget();
}

void gck_cuda_data_forked(void)
{
	server.runs = false;
	gck_cuda_data_leave(&server.requests.link);
	forget();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/snapshot/staging.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/gate/prefault.h"

#define PIECE ((uint64_t)4 << 20)
#define PIECES_A_THREAD 4 /* fewer do not justify another thread */
#define THREADS 12

struct piece {
	uint64_t address, size;
	char *host;
};

struct staging {
	CUdevice device;
	CUcontext context;
	bool out;
	int64_t end_ns;
	struct piece *v;
	size_t n;
	_Atomic size_t next;
	pthread_mutex_t lock;
	struct gck_error failed; /* the first failure; with the lock */
	_Atomic bool stop;
	char *pinned;            /* two pieces for each thread */
	bool ready;              /* pinned is prepared memory */
};

/* Memory to be pinned, prepared while the program ran. */
static struct {
	char *at;
	size_t size;
	_Atomic size_t used;
} ready;

struct worker {
	struct staging *s;
	pthread_t thread;
	CUstream streams[2];     /* one for each piece of pinned memory */
	struct piece in[2];      /* what is under way there; size 0: nothing */
	char *pinned[2];
};

static void fail(struct staging *s, const struct gck_error *why)
{
	pthread_mutex_lock(&s->lock);
	if (!s->failed.code)
		s->failed = *why;
	s->stop = true;
	pthread_mutex_unlock(&s->lock);
}

static void fail_by(struct staging *s, const char *what, CUresult rc)
{
	struct gck_error why;

	gck_cuda_fail(&why, what, rc);
	fail(s, &why);
}

/* Wait for what goes through that piece. */
static void arrive(struct worker *w, int k)
{
	struct piece *p = &w->in[k];
	struct gck_error why;

	if (!p->size)
		return;
	if (gck_cuda_stream_wait(w->streams[k], w->s->device, w->s->end_ns, &why))
		fail(w->s, &why);
	else if (w->s->out)
		memcpy(p->host, w->pinned[k], p->size);
	p->size = 0;
}

static void send_off(struct worker *w, int k, const struct piece *p)
{
	CUresult rc;

	if (!w->s->out)
		memcpy(w->pinned[k], p->host, p->size);
	rc = w->s->out ? gck_cuda_real.cuMemcpyDtoHAsync_v2(w->pinned[k], p->address, p->size,
							    w->streams[k])
		       : gck_cuda_real.cuMemcpyHtoDAsync_v2(p->address, w->pinned[k], p->size,
							    w->streams[k]);
	if (rc)
		fail_by(w->s, "copying device memory", rc);
	else
		w->in[k] = *p;
}

/* One piece is filled while the other is emptied. */
static void move_all(struct worker *w)
{
	struct staging *s = w->s;
	struct gck_error late;
	size_t i;
	int k = 0;

	while (!s->stop && (i = s->next++) < s->n) {
		arrive(w, k);
		send_off(w, k, &s->v[i]);
		k ^= 1;
		if (s->out)
			arrive(w, k);
		if (!s->end_ns || gck_cuda_now_ns() <= s->end_ns)
			continue;
		gck_fail(&late, ETIMEDOUT,
			 "the time for the copy of device memory to the host is over: give hold= "
			 "more");
		fail(s, &late);
	}
	arrive(w, k);
	arrive(w, k ^ 1);
}

/* In the staging's context. */
static void run_in_context(struct worker *w)
{
	CUresult rc = CUDA_SUCCESS;

	for (int k = 0; rc == CUDA_SUCCESS && k < 2; k++)
		rc = gck_cuda_real.cuStreamCreate(&w->streams[k], CU_STREAM_NON_BLOCKING);
	if (rc)
		fail_by(w->s, "a stream for device memory", rc);
	else
		move_all(w);
	for (int k = 0; k < 2; k++) {
		if (w->streams[k])
			gck_cuda_real.cuStreamDestroy_v2(w->streams[k]);
	}
}

static void *run(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct worker *w = arg;
	CUcontext context;
	CUresult rc;

	gck_gate_own_thread(&gck_gate_owner);
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	rc = gck_cuda_real.cuCtxPushCurrent_v2(w->s->context);
	if (rc) {
		fail_by(w->s, "cuCtxPushCurrent", rc);
		return NULL;
	}
	run_in_context(w);
	gck_cuda_real.cuCtxPopCurrent_v2(&context); /* the first worker is the caller's thread */
	return NULL;
}

/* ---- all workers ---------------------------------------------------------------------------- */

static int cut(struct staging *s, CUdevice device)
{
	const struct gck_cuda_snapshot *of = &gck_cuda_snapshot;
	size_t capacity = of->n + of->host_size / PIECE + 1;

	s->v = calloc(capacity, sizeof *s->v);
	for (size_t i = 0; s->v && i < of->n; i++) {
		const struct gck_cuda_extent *e = &of->v[i];

		for (uint64_t at = 0; !e->on_device && e->device == device && at < e->size;
		     at += PIECE)
			s->v[s->n++] = (struct piece){
				.address = e->address + at,
				.size = e->size - at < PIECE ? e->size - at : PIECE,
				.host = (char *)(uintptr_t)e->copy + at};
	}
	return s->v ? 0 : -1;
}

/* Where a thread cannot be made, fewer copy. */
static void run_all(struct staging *s, struct worker *w, size_t n)
{
	sigset_t all, before;
	size_t made = 1;

	for (size_t i = 0; i < n; i++)
		w[i] = (struct worker){.s = s, .pinned = {s->pinned + 2 * i * PIECE,
							  s->pinned + (2 * i + 1) * PIECE}};
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (made < n && pthread_create(&w[made].thread, NULL, run, &w[made]) == 0)
		made++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	run(&w[0]);
	while (--made > 0)
		pthread_join(w[made].thread, NULL);
}

/* Pin prepared memory, or allocate pinned memory. */
static CUresult pin(struct staging *s, size_t size)
{
	size_t at = atomic_fetch_add(&ready.used, size);
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

	s->ready = at <= ready.size && size <= ready.size - at;
	s->pinned = s->ready ? ready.at + at : NULL;
	if (s->ready)
		rc = gck_cuda_real.cuMemHostRegister_v2(s->pinned, size,
							CU_MEMHOSTREGISTER_PORTABLE);
	s->ready = rc == CUDA_SUCCESS;
	return s->ready ? rc
			: gck_cuda_real.cuMemHostAlloc((void **)&s->pinned, size,
						       CU_MEMHOSTALLOC_PORTABLE);
}

static void unpin(const struct staging *s)
{
	if (s->ready)
		gck_cuda_real.cuMemHostUnregister(s->pinned);
	else
		gck_cuda_real.cuMemFreeHost(s->pinned);
}

static void stage(struct staging *s)
{
	size_t n = s->n / PIECES_A_THREAD + 1;
	struct worker w[THREADS];
	CUcontext context;
	CUresult rc;

	n = n < THREADS ? n : THREADS;
	rc = gck_cuda_real.cuCtxPushCurrent_v2(s->context);
	if (rc) {
		fail_by(s, "cuCtxPushCurrent", rc);
		return;
	}
	while ((rc = pin(s, 2 * n * PIECE)) && n > 1)
		n /= 2;
	if (rc == CUDA_SUCCESS) {
		run_all(s, w, n);
		unpin(s);
	} else {
		fail_by(s, "pinned memory for copies of device memory", rc);
	}
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
}

void gck_cuda_stage_expect(size_t devices, int64_t end_ns)
{
	size_t size = devices * 2 * THREADS * PIECE;

	gck_cuda_stage_end();
	ready.at = gck_cuda_prefault_new(size);
	ready.size = ready.at ? size : 0;
	if (ready.at)
		gck_cuda_prefault(ready.at, size, end_ns);
}

void gck_cuda_stage_end(void)
{
	if (ready.at)
		munmap(ready.at, ready.size);
	ready.at = NULL;
	ready.size = 0;
	ready.used = 0;
}

int gck_cuda_stage(const struct gck_cuda_share *share, bool out, int64_t end_ns,
		   struct gck_error *err)
{
	struct staging s = {.device = share->device,
			    .context = share->context,
			    .out = out,
			    .end_ns = end_ns,
			    .lock = PTHREAD_MUTEX_INITIALIZER};

	if (cut(&s, share->device))
		return gck_fail(err, ENOMEM, "no memory for a list of copies");
	if (s.n)
		stage(&s);
	free(s.v);
	return s.failed.code ? gck_fail(err, s.failed.code, "%s", s.failed.text) : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/snapshot/snapshot.h"
#include "shim/cuda/snapshot/staging.h"

/* Start all copies at once: a GiB takes half a millisecond. */
static int copy_extents(const struct gck_cuda_share *share, CUstream stream, int64_t end_ns,
			struct gck_error *err)
{
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; rc == CUDA_SUCCESS && i < gck_cuda_snapshot.n; i++) {
		const struct gck_cuda_extent *e = &gck_cuda_snapshot.v[i];

		if (e->device == share->device && e->on_device)
			rc = gck_cuda_real.cuMemcpyDtoDAsync_v2(e->copy, e->address, e->size,
								stream);
	}
	return rc ? gck_cuda_fail(err, "copying device memory", rc)
		  : gck_cuda_stream_wait(stream, share->device, end_ns, err);
}

/* The stream is our own: a capture of the program may depend on a default stream. */
static int copy_in_context(const struct gck_cuda_share *share, int64_t end_ns,
			   struct gck_error *err)
{
	CUstream stream;
	CUresult rc = gck_cuda_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	int failed;

	if (rc)
		return gck_cuda_fail(err, "a stream for copies of device memory", rc);
	failed = copy_extents(share, stream, end_ns, err);
	if (failed)
		gck_cuda_real.cuStreamSynchronize(stream); /* before the target is unmapped */
	gck_cuda_real.cuStreamDestroy_v2(stream);
	return failed;
}

static int copy_on_device(const struct gck_cuda_share *share, int64_t end_ns,
			  struct gck_error *err)
{
	CUcontext context = share->context;
	CUresult rc = share->size ? gck_cuda_real.cuCtxPushCurrent_v2(context) : CUDA_SUCCESS;
	int failed;

	if (rc)
		return gck_cuda_fail(err, "cuCtxPushCurrent", rc);
	if (!share->size)
		return 0;
	failed = copy_in_context(share, end_ns, err);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	if (!failed && end_ns && gck_cuda_now_ns() > end_ns)
		return gck_fail(err, ETIMEDOUT,
				"the time for the copy of device memory is over: give hold= more");
	return failed;
}

/* ---- all devices at once -------------------------------------------------------------------- */

struct copying {
	const struct gck_cuda_share *share;
	bool out;                /* else only from host memory */
	int64_t end_ns;          /* 0: no limit */
	pthread_t thread;
	bool threaded;           /* set by the CUDA thread, as is `thread` */
	bool failed;
	struct gck_error err;
};

static void copy(struct copying *c)
{
	c->failed = (c->out && copy_on_device(c->share, c->end_ns, &c->err)) ||
		    gck_cuda_stage(c->share, c->out, c->end_ns, &c->err);
}

static void *copy_beside(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	gck_gate_own_thread(&gck_gate_owner);
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	copy(arg);
	return NULL;
}

/* Where a thread cannot be made, copy in this one. */
static void copy_all(struct copying *v, size_t n)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (size_t i = 1; i < n; i++)
		v[i].threaded = pthread_create(&v[i].thread, NULL, copy_beside, &v[i]) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (size_t i = 0; i < n; i++) {
		if (!v[i].threaded)
			copy(&v[i]);
	}
	for (size_t i = 0; i < n; i++) {
		if (v[i].threaded)
			pthread_join(v[i].thread, NULL);
	}
}

static int copy_shares(bool out, int64_t end_ns, struct gck_error *err)
{
	const struct gck_cuda_snapshot *s = &gck_cuda_snapshot;
	struct copying *v = calloc(s->nshares + 1, sizeof *v);
	const struct copying *failed = NULL;

	if (!v)
		return gck_fail(err, ENOMEM, "no memory for a list of devices");
	for (size_t i = 0; i < s->nshares; i++)
		v[i] = (struct copying){.share = &s->shares[i], .out = out, .end_ns = end_ns};
	copy_all(v, s->nshares);
	for (size_t i = 0; !failed && i < s->nshares; i++)
		failed = v[i].failed ? &v[i] : NULL;
	if (failed)
		gck_fail(err, failed->err.code, "%s", failed->err.text);
	free(v);
	return failed ? -1 : 0;
}

int gck_cuda_copy_out(const struct gck_cuda_order *order, struct gck_error *err)
{
	return copy_shares(true, order->end_ns, err);
}

/* The contexts are those of the image's process. */
int gck_cuda_copy_in(struct gck_error *err)
{
	return copy_shares(false, 0, err);
}

/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: launches of kernels, host functions, values in memory, capture and graphs. */
#define _GNU_SOURCE
#include "test/support/driver/bodies.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct CUgraph_st {
	struct fake_op *ops;
	size_t n;
};

struct CUgraphExec_st {
	struct CUgraph_st graph;
};

/* ---- launches ------------------------------------------------------------------------------- */

static CUresult give(CUstream stream, const struct fake_op *op)
{
	CUresult rc;

	fake_lock();
	rc = fake_give(fake_stream(stream), op);
	fake_unlock();
	return rc;
}

/* A kernel of FAKE_BLOCKS blocks has the device to itself: other kernels begin after its end.
 * Copies do not wait. */
static void take_place(bool all, unsigned *running, unsigned *alone)
{
	fake_lock();
	while (*alone || (all && *running))
		fake_wait();
	++*(all ? alone : running);
	fake_unlock();
}

static void run_kernel(struct fake_op *op)
{
	static unsigned running[FAKE_MAX_DEVICES], alone[FAKE_MAX_DEVICES];
	const struct CUfunc_st *f = (void *)(uintptr_t)op->args[0];
	CUdevice device = op->stream->context->device;
	bool all = op->grid.grid[0] >= FAKE_BLOCKS;
	void *params[11];

	for (int i = 0; i < f->params && i < 11; i++)
		params[i] = &op->args[1 + i];
	take_place(all, &running[device], &alone[device]);
	if (op->grid.shared <= FAKE_SHARED_MOST)
		f->run(params, &op->grid);
	fake_lock();
	if (op->grid.shared > FAKE_SHARED_MOST)
		op->stream->context->broken = CUDA_ERROR_LAUNCH_FAILED;
	--*(all ? &alone[device] : &running[device]);
	fake_changed();
	fake_unlock();
}

CUresult fake_cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			     unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			     CUstream stream, void **params, void **extra)
{
	struct fake_op op = {.run = run_kernel, .grid = {{gx, gy, gz}, {bx, by, bz}, shared}};

	f = fake_function(f);
	op.args[0] = (uintptr_t)f;
	if (!f || extra || f->params > 11)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < f->params; i++)
		memcpy(&op.args[1 + i], params[i], 8);
	return give(stream, &op);
}

static void run_host(struct fake_op *op)
{
	((CUhostFn)(uintptr_t)op->args[0])((void *)(uintptr_t)op->args[1]);
}

CUresult fake_cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *data)
{
	return give(stream, &(struct fake_op){.run = run_host,
					      .args = {(uintptr_t)fn, (uintptr_t)data}});
}

static void run_callback(struct fake_op *op)
{
	((CUstreamCallback)(uintptr_t)op->args[0])((CUstream)(uintptr_t)op->args[2], CUDA_SUCCESS,
						   (void *)(uintptr_t)op->args[1]);
}

CUresult fake_cuStreamAddCallback(CUstream stream, CUstreamCallback fn, void *data,
				  unsigned int flags)
{
	(void)flags;
	return give(stream, &(struct fake_op){.run = run_callback,
			.args = {(uintptr_t)fn, (uintptr_t)data, (uintptr_t)stream}});
}

/* ---- values in memory ----------------------------------------------------------------------- */

static void run_wait_value(struct fake_op *op)
{
	const _Atomic uint32_t *at = (void *)(uintptr_t)op->args[0];
	struct timespec nap = {0, 100000};

	while ((int32_t)(*at - (uint32_t)op->args[1]) < 0) /* as CU_STREAM_WAIT_VALUE_GEQ */
		nanosleep(&nap, NULL);
}

CUresult fake_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
				     unsigned int flags)
{
	if (flags != CU_STREAM_WAIT_VALUE_GEQ)
		return CUDA_ERROR_NOT_SUPPORTED;
	return give(stream, &(struct fake_op){.run = run_wait_value, .args = {address, value}});
}

static void run_write_value(struct fake_op *op)
{
	*(_Atomic uint32_t *)(uintptr_t)op->args[0] = (uint32_t)op->args[1];
}

CUresult fake_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
				      unsigned int flags)
{
	(void)flags;
	return give(stream, &(struct fake_op){.run = run_write_value, .args = {address, value}});
}

/* ---- capture and graphs --------------------------------------------------------------------- */

CUresult fake_graph_add(struct CUgraph_st *g, const struct fake_op *op)
{
	struct fake_op *ops = realloc(g->ops, (g->n + 1) * sizeof *ops);

	if (!ops || op->block)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	g->ops = ops;
	g->ops[g->n++] = *op;
	return CUDA_SUCCESS;
}

CUresult fake_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before;

	fake_current();
	before = fake_capture_mode;
	fake_capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

CUresult fake_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	struct CUstream_st *s;

	fake_lock();
	s = fake_stream(stream);
	if (s) {
		s->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
		s->capture_mode = mode;
		s->graph = calloc(1, sizeof *s->graph);
	}
	fake_unlock();
	return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult fake_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CUresult rc = CUDA_SUCCESS;
	struct CUstream_st *s;

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	fake_lock();
	s = fake_stream(stream);
	if (!s || s->capture == CU_STREAM_CAPTURE_STATUS_NONE) {
		rc = CUDA_ERROR_ILLEGAL_STATE;
	} else {
		if (s->capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
			rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		*graph = rc ? NULL : s->graph;
		s->capture = CU_STREAM_CAPTURE_STATUS_NONE;
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	const struct CUstream_st *s, *c;
	CUresult rc = CUDA_SUCCESS;

	fake_lock();
	s = fake_stream(stream);
	c = s ? fake_capturing(s->context) : NULL;
	if (!s)
		rc = CUDA_ERROR_INVALID_HANDLE;
	else if (s == s->context->legacy && c && !(c->flags & CU_STREAM_NON_BLOCKING))
		rc = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*status = s ? s->capture : CU_STREAM_CAPTURE_STATUS_NONE;
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
					  unsigned long long flags)
{
	(void)flags;
	*exec = calloc(1, sizeof **exec);
	for (size_t i = 0; i < graph->n; i++)
		fake_graph_add(&(*exec)->graph, &graph->ops[i]);
	return CUDA_SUCCESS;
}

CUresult fake_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	CUresult rc = CUDA_SUCCESS;

	fake_lock();
	for (size_t i = 0; !rc && i < exec->graph.n; i++)
		rc = fake_give(fake_stream(stream), &exec->graph.ops[i]);
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphDestroy(CUgraph graph)
{
	free(graph->ops);
	free(graph);
	return CUDA_SUCCESS;
}

/* A launch runs a copy, so this is safe. */
CUresult fake_cuGraphExecDestroy(CUgraphExec exec)
{
	free(exec->graph.ops);
	free(exec);
	return CUDA_SUCCESS;
}

/* ---- loaded anew ----------------------------------------------------------------------------- */

void fake_anew(void)
{
	fake_lock();
	fake_tables_anew();
	fake_contexts_anew();
	fake_kernels_anew();
	fake_blocks_anew();
	fake_reservations_anew();
	fake_unlock();
}

/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: launches of kernels, host functions, values in memory. */
#define _GNU_SOURCE
#include "test/support/driver/bodies.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

void fake_run_kernel(struct fake_op *op)
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
	struct fake_op op = {.run = fake_run_kernel, .node = 1 + CU_GRAPH_NODE_TYPE_KERNEL,
			      .grid = {{gx, gy, gz}, {bx, by, bz}, shared}};

	f = fake_function(f);
	op.args[0] = (uintptr_t)f;
	if (!f || extra || f->params > 11)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < f->params; i++)
		memcpy(&op.args[1 + i], params[i], 8);
	return give(stream, &op);
}

void fake_run_host(struct fake_op *op)
{
	((CUhostFn)(uintptr_t)op->args[0])((void *)(uintptr_t)op->args[1]);
}

CUresult fake_cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *data)
{
	return give(stream, &(struct fake_op){.run = fake_run_host,
					      .node = 1 + CU_GRAPH_NODE_TYPE_HOST,
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

static bool is_reached(uint64_t is, uint64_t wanted, unsigned flags, bool wide)
{
	switch (flags) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return wide ? (int64_t)(is - wanted) >= 0 : (int32_t)(is - wanted) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return is == wanted;
	default:
		return is & wanted;
	}
}

void fake_value(const CUstreamBatchMemOpParams *p)
{
	bool wide = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
		    p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
	_Atomic uint64_t *at = (void *)(uintptr_t)p->waitValue.address; /* as writeValue's */
	_Atomic uint32_t *half = (void *)at;
	uint64_t value = wide ? p->waitValue.value64 : p->waitValue.value;
	struct timespec nap = {0, 100000};

	if (p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
	    p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64) {
		while (!is_reached(wide ? *at : *half, value, p->waitValue.flags, wide))
			nanosleep(&nap, NULL);
	} else if (wide) {
		*at = value;
	} else {
		*half = (uint32_t)value;
	}
}

static void run_value(struct fake_op *op)
{
	fake_value((const void *)op->args);
}

static CUresult give_value(CUstream stream, const CUstreamBatchMemOpParams *p)
{
	struct fake_op op = {.run = run_value, .node = 1 + CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};

	memcpy(op.args, p, sizeof *p);
	return give(stream, &op);
}

CUresult fake_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
				     unsigned int flags)
{
	return flags > CU_STREAM_WAIT_VALUE_AND
		       ? CUDA_ERROR_NOT_SUPPORTED
		       : give_value(stream, &(const CUstreamBatchMemOpParams){.waitValue = {
				 CU_STREAM_MEM_OP_WAIT_VALUE_32, address, {value}, flags, 0}});
}

CUresult fake_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
				      unsigned int flags)
{
	return give_value(stream, &(const CUstreamBatchMemOpParams){.writeValue = {
			  CU_STREAM_MEM_OP_WRITE_VALUE_32, address, {value}, flags, 0}});
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
	fake_graphs_anew();
	fake_executables_anew();
	fake_events_anew();
	fake_pools_anew();
	fake_users_anew();
	fake_unlock();
}

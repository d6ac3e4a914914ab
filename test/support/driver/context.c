/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: contexts, and each thread's stack of current ones. */
#include "test/support/driver/bodies.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEEPEST 32

static struct CUctx_st *contexts, *spare, *primaries[FAKE_MAX_DEVICES];
static unsigned loads; /* how often the driver was loaded anew */
static __thread struct {
	CUcontext v[DEEPEST];
	int n;
	unsigned load; /* of the driver that it is about */
} current;

CUcontext fake_current(void)
{
	if (current.load != loads) {
		current.n = 0;
		fake_capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	}
	current.load = loads;
	return current.n ? current.v[current.n - 1] : NULL;
}

/* The driver does so with its first context, and never undoes it. */
static void listen_at_name(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	static int fd = -1;
	int n;

	if (fd >= 0)
		return;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "cuda-uvmfd-%d-%d", 4711, getpid());
	if (!bind(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
							 2 + (size_t)n)) && !listen(fd, 128))
		return;
	if (errno != EADDRINUSE) /* another copy of this driver, in a test, has the name */
		abort();
}

static void begin(CUcontext c, CUdevice device, unsigned int flags)
{
	listen_at_name();
	c->device = device;
	c->flags = flags;
	c->alive = true;
	c->limits[CU_LIMIT_STACK_SIZE] = 1024;
	c->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
	c->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	c->legacy = fake_stream_new(c, 0, 0);
	c->next = contexts;
	contexts = c;
}

static void end(CUcontext c)
{
	struct CUctx_st **at = &contexts;

	fake_context_streams_end(c);
	fake_context_blocks_end(c);
	fake_context_modules_end(c);
	fake_context_arrays_end(c);
	fake_context_storage_end(c);
	c->alive = false;
	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
}

bool fake_is_alive(CUcontext c)
{
	const struct CUctx_st *at = contexts;

	while (at && at != c)
		at = at->next;
	return at != NULL;
}

/* ---- primary -------------------------------------------------------------------------------- */

/* Its handle stays the same. With the lock. */
CUcontext fake_primary(CUdevice device)
{
	if (!primaries[device])
		primaries[device] = calloc(1, sizeof *primaries[device]);
	primaries[device]->primary = true;
	return primaries[device];
}

CUresult fake_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult rc = fake_device(device);

	if (rc)
		return rc;
	fake_lock();
	*context = fake_primary(device);
	if ((*context)->uses++ == 0)
		begin(*context, device, 0);
	fake_unlock();
	return CUDA_SUCCESS;
}

CUresult fake_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult rc = fake_device(device);

	if (rc)
		return rc;
	fake_lock();
	if (!fake_primary(device)->uses)
		rc = CUDA_ERROR_INVALID_CONTEXT;
	else if (--fake_primary(device)->uses == 0)
		end(fake_primary(device));
	fake_unlock();
	return rc;
}

CUresult fake_cuDevicePrimaryCtxRelease(CUdevice device)
{
	return fake_cuDevicePrimaryCtxRelease_v2(device);
}

CUresult fake_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CUresult rc = fake_device(device);

	fake_lock();
	if (!rc && fake_primary(device)->alive) {
		end(fake_primary(device));
		fake_primary(device)->uses = 0;
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuDevicePrimaryCtxReset(CUdevice device)
{
	return fake_cuDevicePrimaryCtxReset_v2(device);
}

CUresult fake_cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	CUresult rc = fake_device(device);

	if (rc)
		return rc;
	fake_lock();
	*flags = fake_primary(device)->flags;
	*active = fake_primary(device)->alive;
	fake_unlock();
	return CUDA_SUCCESS;
}

/* ---- created -------------------------------------------------------------------------------- */

/* A destroyed context may have had the same handle. */
static CUcontext take_spare(void)
{
	CUcontext c = spare;

	if (!c)
		return calloc(1, sizeof *c);
	spare = c->next;
	memset(c, 0, sizeof *c);
	return c;
}

CUresult fake_cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	CUresult rc = fake_device(device);

	if (rc)
		return rc;
	fake_lock();
	*context = take_spare();
	begin(*context, device, flags);
	fake_unlock();
	return fake_cuCtxPushCurrent_v2(*context);
}

CUresult fake_cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
	return fake_cuCtxCreate_v2(context, flags, device);
}

CUresult fake_cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags,
			     CUdevice device)
{
	(void)params;
	return fake_cuCtxCreate_v2(context, flags, device);
}

/* Destroy it and return the result of its work. */
CUresult fake_cuCtxDestroy_v2(CUcontext context)
{
	CUresult rc;

	fake_lock();
	if (fake_is_alive(context) && !context->primary) {
		current.n -= fake_current() == context;
		end(context);
		rc = context->broken;
		context->next = spare;
		spare = context;
	} else {
		rc = CUDA_ERROR_INVALID_CONTEXT;
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuCtxDestroy(CUcontext context)
{
	return fake_cuCtxDestroy_v2(context);
}

/* ---- current -------------------------------------------------------------------------------- */

CUresult fake_cuCtxPushCurrent_v2(CUcontext context)
{
	bool alive;

	fake_lock();
	alive = fake_is_alive(context);
	fake_unlock();
	fake_current();
	if (!alive || current.n == DEEPEST)
		return CUDA_ERROR_INVALID_CONTEXT;
	current.v[current.n++] = context;
	return CUDA_SUCCESS;
}

CUresult fake_cuCtxPushCurrent(CUcontext context)
{
	return fake_cuCtxPushCurrent_v2(context);
}

CUresult fake_cuCtxPopCurrent_v2(CUcontext *context)
{
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	current.n--;
	if (context)
		*context = current.v[current.n];
	return CUDA_SUCCESS;
}

CUresult fake_cuCtxPopCurrent(CUcontext *context)
{
	return fake_cuCtxPopCurrent_v2(context);
}

CUresult fake_cuCtxSetCurrent(CUcontext context)
{
	if (fake_current())
		current.n--;
	return context ? fake_cuCtxPushCurrent_v2(context) : CUDA_SUCCESS;
}

CUresult fake_cuCtxGetCurrent(CUcontext *context)
{
	*context = fake_current();
	return CUDA_SUCCESS;
}

CUresult fake_cuCtxGetDevice(CUdevice *device)
{
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = fake_current()->device;
	return CUDA_SUCCESS;
}

CUresult fake_cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
	bool alive;

	fake_lock();
	alive = fake_is_alive(context ? context : fake_current());
	fake_unlock();
	*version = 3020;
	return alive ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fake_cuCtxGetId(CUcontext context, unsigned long long *id)
{
	*id = (unsigned long long)(uintptr_t)(context ? context : fake_current());
	return *id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fake_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return fake_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fake_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	(void)flags;
	return peer && fake_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fake_cuCtxDisablePeerAccess(CUcontext peer)
{
	return peer && fake_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- limits --------------------------------------------------------------------------------- */

CUresult fake_cuCtxGetLimit(size_t *value, CUlimit limit)
{
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*value = limit < CU_LIMIT_MAX ? fake_current()->limits[limit] : 0;
	return limit < CU_LIMIT_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Waits for the context and rounds up, as the driver does. */
CUresult fake_cuCtxSetLimit(CUlimit limit, size_t value)
{
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	fake_lock();
	while (!fake_all_idle(fake_current()))
		fake_wait();
	fake_unlock();
	fake_current()->limits[limit] = (value + 15) & ~(size_t)15;
	return CUDA_SUCCESS;
}

/* ---- loaded anew ----------------------------------------------------------------------------- */

/* Handles are not used again. */
void fake_contexts_anew(void)
{
	while (contexts)
		end(contexts);
	memset(primaries, 0, sizeof primaries);
	spare = NULL;
	loads++;
}

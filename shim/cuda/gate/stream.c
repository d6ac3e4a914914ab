/* SPDX-License-Identifier: Apache-2.0
 * The program's streams, each with its context. Work left on a destroyed stream, and on default
 * streams, shows by an event of the context only (idle.c). */
#include "shim/cuda/gate/stream.h"

#include <pthread.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/capture.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/gate/follow.h"
#include "shim/cuda/gate/last_kernel.h"

static struct {
	pthread_mutex_t lock;
	struct gck_cuda_handle_map set; /* stream: context */
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A stream without an entry is waited for all the same, but not named. */
static void made(CUresult rc, const CUstream *stream)
{
	CUcontext context;
	uint64_t *place;

	if (rc || gck_cuda_real.cuStreamGetCtx(*stream, &context))
		return;
	pthread_mutex_lock(&streams.lock);
	place = gck_cuda_handle_map_put(&streams.set, (uint64_t)(uintptr_t)*stream);
	if (place)
		*place = (uint64_t)(uintptr_t)context;
	pthread_mutex_unlock(&streams.lock);
}

static void gone(CUstream stream)
{
	pthread_mutex_lock(&streams.lock);
	gck_cuda_handle_map_drop(&streams.set, (uint64_t)(uintptr_t)stream);
	pthread_mutex_unlock(&streams.lock);
}

GCK_CUDA_FUNCTION(cuStreamCreate, (CUstream *stream, unsigned int flags))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY(rc, gck_cuda_real.cuStreamCreate(stream, flags));
	made(rc, stream);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuStreamCreateWithPriority, (CUstream *stream, unsigned int flags, int priority))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY(rc, gck_cuda_real.cuStreamCreateWithPriority(stream, flags, priority));
	made(rc, stream);
	GCK_CUDA_LEAVE();
	return rc;
}

#define DESTROYS(name) \
	GCK_CUDA_FUNCTION(name, (CUstream stream)) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(stream); \
		gck_cuda_follow(stream); \
		gone(stream); \
		gck_cuda_last_kernel_forget(stream); \
		gck_cuda_context_stream_ends(stream); \
		gck_cuda_capture_stream_ends(stream); \
		rc = gck_cuda_real.name(stream); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
DESTROYS(cuStreamDestroy)
DESTROYS(cuStreamDestroy_v2)

int gck_cuda_streams_each(CUcontext context, int (*visit)(CUstream stream, void *arg), void *arg)
{
	int rc = 0;

	pthread_mutex_lock(&streams.lock);
	for (size_t i = 0; rc == 0 && i < streams.set.capacity; i++) {
		const struct gck_cuda_entry *e = &streams.set.entries[i];

		if (e->handle && e->value == (uint64_t)(uintptr_t)context)
			rc = visit((CUstream)(uintptr_t)e->handle, arg);
	}
	pthread_mutex_unlock(&streams.lock);
	return rc;
}

CUcontext gck_cuda_stream_home(CUstream stream)
{
	const uint64_t *place;
	CUcontext context;

	pthread_mutex_lock(&streams.lock);
	place = gck_cuda_handle_map_get(&streams.set, (uint64_t)(uintptr_t)stream);
	context = place ? (CUcontext)(uintptr_t)*place : NULL;
	pthread_mutex_unlock(&streams.lock);
	return context;
}

void gck_cuda_streams_forget(CUcontext context)
{
	pthread_mutex_lock(&streams.lock);
	for (size_t i = 0; i < streams.set.capacity;) {
		uint64_t handle = streams.set.entries[i].handle;

		if (handle && streams.set.entries[i].value == (uint64_t)(uintptr_t)context)
			/* another entry may have moved here */
			gck_cuda_handle_map_drop(&streams.set, handle);
		else
			i++;
	}
	pthread_mutex_unlock(&streams.lock);
	gck_cuda_capture_forget(context);
}

/* SPDX-License-Identifier: Apache-2.0
 * Contexts are listed when they are created. A primary context lives as long as it is retained;
 * the driver is asked whether it lives. */
#include "shim/cuda/gate/context.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/base/visible_devices.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/backlog.h"
#include "shim/cuda/gate/last_kernel.h"
#include "shim/cuda/gate/stream.h"

static struct {
	pthread_mutex_t lock;
	struct gck_cuda_handle_map made;    /* context: 1 */
	struct gck_cuda_handle_map primary; /* device + 1: the context last seen */
	bool incomplete;             /* there was no memory for an entry */
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct gck_cuda_context_ends *ends;

void gck_cuda_contexts_begin(const struct gck_cuda_context_ends *table)
{
	ends = table;
}

void gck_cuda_context_stream_ends(CUstream stream)
{
	ends->stream(stream);
}

static void note(struct gck_cuda_handle_map *set, uint64_t handle, uint64_t value)
{
	uint64_t *place;

	pthread_mutex_lock(&contexts.lock);
	place = gck_cuda_handle_map_put(set, handle);
	if (place)
		*place = value;
	else
		contexts.incomplete = true;
	pthread_mutex_unlock(&contexts.lock);
}

static void made(CUresult rc, const CUcontext *context)
{
	if (rc == CUDA_SUCCESS)
		note(&contexts.made, (uint64_t)(uintptr_t)*context, 1);
}

/* Remove it from the list. False: it was not listed. */
static bool gone(CUcontext context)
{
	const uint64_t handle = (uint64_t)(uintptr_t)context;
	bool listed;

	pthread_mutex_lock(&contexts.lock);
	listed = handle && gck_cuda_handle_map_get(&contexts.made, handle);
	if (listed)
		gck_cuda_handle_map_drop(&contexts.made, handle);
	pthread_mutex_unlock(&contexts.lock);
	if (listed) {
		gck_cuda_backlog_forget(context);
		gck_cuda_streams_forget(context);
	}
	return listed;
}

static bool lives(CUcontext context)
{
	unsigned int version;

	return gck_cuda_real.cuCtxGetApiVersion(context, &version) == CUDA_SUCCESS;
}

/* ---- created contexts ----------------------------------------------------------------------- */

GCK_CUDA_FUNCTION(cuCtxCreate, (CUcontext *context, unsigned int flags, CUdevice device))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY_ON(rc, device, gck_cuda_real.cuCtxCreate(context, flags, device));
	made(rc, context);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuCtxCreate_v2, (CUcontext *context, unsigned int flags, CUdevice device))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY_ON(rc, device, gck_cuda_real.cuCtxCreate_v2(context, flags, device));
	made(rc, context);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuCtxCreate_v3, (CUcontext *context, CUexecAffinityParam *affinity, int n,
				   unsigned int flags, CUdevice device))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY_ON(rc, device,
			gck_cuda_real.cuCtxCreate_v3(context, affinity, n, flags, device));
	made(rc, context);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuCtxCreate_v4, (CUcontext *context, CUctxCreateParams *params,
				   unsigned int flags, CUdevice device))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY_ON(rc, device, gck_cuda_real.cuCtxCreate_v4(context, params, flags, device));
	made(rc, context);
	GCK_CUDA_LEAVE();
	return rc;
}

/* Remove it from the list first: once it is destroyed another thread may be given the same
 * handle. An error may come from earlier work of a context that was destroyed all the same. */
#define DESTROYS(name) \
	GCK_CUDA_FUNCTION(name, (CUcontext context)) \
	{ \
		bool listed, ended; \
		uint64_t newest; \
		CUresult rc; \
		GCK_CUDA_ENTER(0); \
		newest = ends->newest(); \
		listed = gone(context); \
		gck_cuda_last_kernels_forget(); \
		ends->pause(); \
		rc = gck_cuda_real.name(context); \
		ended = rc == CUDA_SUCCESS || (listed && !lives(context)); \
		ends->go_on(ended ? context : NULL); \
		if (ended) \
			ends->context(context, newest); \
		else if (listed) \
			made(CUDA_SUCCESS, &context); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
DESTROYS(cuCtxDestroy)
DESTROYS(cuCtxDestroy_v2)

/* The last detach destroys it. */
GCK_CUDA_FUNCTION(cuCtxDetach, (CUcontext context))
{
	uint64_t newest;
	CUresult rc;
	bool ended;

	GCK_CUDA_ENTER(0);
	newest = ends->newest();
	gck_cuda_last_kernels_forget();
	ends->pause();
	rc = gck_cuda_real.cuCtxDetach(context);
	ended = rc == CUDA_SUCCESS && !lives(context);
	ends->go_on(ended ? context : NULL);
	if (ended) {
		gone(context);
		ends->context(context, newest);
	}
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- primary contexts ----------------------------------------------------------------------- */

static bool is_active(CUdevice device)
{
	unsigned int flags;
	int active = 0;

	return gck_cuda_real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS &&
	       active;
}

/* After a release or reset that succeeded: the device's primary context if the call has ended
 * it; else NULL. */
static CUcontext ended_primary(CUdevice device)
{
	const uint64_t *place;
	CUcontext context;

	if (is_active(device))
		return NULL;
	pthread_mutex_lock(&contexts.lock);
	place = gck_cuda_handle_map_get(&contexts.primary, (uint64_t)device + 1);
	context = place ? (CUcontext)(uintptr_t)*place : NULL;
	pthread_mutex_unlock(&contexts.lock);
	return context;
}

/* newest: gck_cuda_memory_newest before the call. */
static void forget_primary(CUcontext context, uint64_t newest)
{
	if (context) {
		gck_cuda_backlog_forget(context);
		gck_cuda_streams_forget(context);
		ends->context(context, newest);
	}
}

GCK_CUDA_FUNCTION(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY_ON(rc, device, gck_cuda_real.cuDevicePrimaryCtxRetain(context, device));
	if (rc == CUDA_SUCCESS)
		note(&contexts.primary, (uint64_t)device + 1, (uint64_t)(uintptr_t)*context);
	GCK_CUDA_LEAVE();
	return rc;
}

/* The primary context's streams end with it whichever version of the function was called. */
#define ENDS_PRIMARY(name) \
	GCK_CUDA_FUNCTION(name, (CUdevice device)) \
	{ \
		CUcontext ended; \
		uint64_t newest; \
		CUresult rc; \
		GCK_CUDA_ENTER(0); \
		newest = ends->newest(); \
		gck_cuda_last_kernels_forget(); \
		ends->pause(); \
		rc = gck_cuda_real.name(device); \
		ended = rc ? NULL : ended_primary(device); \
		ends->go_on(ended); \
		forget_primary(ended, newest); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
ENDS_PRIMARY(cuDevicePrimaryCtxRelease)
ENDS_PRIMARY(cuDevicePrimaryCtxRelease_v2)
ENDS_PRIMARY(cuDevicePrimaryCtxReset)
ENDS_PRIMARY(cuDevicePrimaryCtxReset_v2)

/* ---- all of them ---------------------------------------------------------------------------- */

CUresult gck_cuda_device_of(CUcontext context, CUdevice *device)
{
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);

	if (rc)
		return rc;
	rc = gck_cuda_real.cuCtxGetDevice(device);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc;
}

static int take_made(struct gck_cuda_contexts *all, struct gck_error *err)
{
	for (size_t i = 0; i < contexts.made.capacity; i++) {
		struct gck_cuda_context *c = &all->v[all->n];
		CUresult rc;

		c->context = (CUcontext)(uintptr_t)contexts.made.entries[i].handle;
		c->primary = 0;
		if (!c->context)
			continue;
		rc = gck_cuda_device_of(c->context, &c->device);
		if (rc)
			return gck_cuda_fail(err, "cuCtxGetDevice of a context", rc);
		all->n++;
	}
	return 0;
}

static int take_primary(struct gck_cuda_contexts *all, int ndevices, struct gck_error *err)
{
	for (int i = 0; i < ndevices; i++) {
		struct gck_cuda_context *c = &all->v[all->n];
		CUresult rc = gck_cuda_real.cuDeviceGet(&c->device, i);

		if (rc)
			return gck_cuda_fail(err, "cuDeviceGet", rc);
		if (!is_active(c->device))
			continue;
		rc = gck_cuda_real.cuDevicePrimaryCtxRetain(&c->context, c->device);
		if (rc)
			return gck_cuda_fail(err, "cuDevicePrimaryCtxRetain", rc);
		c->primary = 1;
		all->n++;
	}
	return 0;
}

int gck_cuda_contexts_take(struct gck_cuda_contexts *all, struct gck_error *err)
{
	int ndevices = 0, failed;
	CUresult rc = gck_cuda_real.cuDeviceGetCount(&ndevices);

	if (rc)
		return gck_cuda_fail(err, "cuDeviceGetCount", rc);
	pthread_mutex_lock(&contexts.lock);
	*all = (struct gck_cuda_contexts){
		.v = calloc(contexts.made.n + (size_t)ndevices + 1, sizeof *all->v)};
	if (!all->v || contexts.incomplete)
		failed = gck_fail(err, ENOMEM, "no memory for a list of the CUDA contexts");
	else
		failed = take_made(all, err) || take_primary(all, ndevices, err) ? -1 : 0;
	pthread_mutex_unlock(&contexts.lock);
	if (failed)
		gck_cuda_contexts_give(all);
	return failed;
}

void gck_cuda_contexts_give(struct gck_cuda_contexts *all)
{
	for (size_t i = 0; i < all->n; i++) {
		if (all->v[i].primary)
			gck_cuda_real.cuDevicePrimaryCtxRelease_v2(all->v[i].device);
	}
	free(all->v);
	*all = (struct gck_cuda_contexts){.v = NULL};
}

const char *gck_cuda_error_name(CUresult rc)
{
	const char *name = NULL;

	if (gck_cuda_real.cuGetErrorName(rc, &name) || !name)
		return "an unknown error";
	return name;
}

int gck_cuda_fail(struct gck_error *err, const char *function, CUresult rc)
{
	return gck_fail(err, rc == CUDA_ERROR_OUT_OF_MEMORY ? ENOMEM : EIO, "%s: %s", function,
			gck_cuda_error_name(rc));
}

int gck_cuda_fail_memory(struct gck_error *err, const char *what, CUdevice device, CUresult rc)
{
	const struct gck_cuda_devices *all = &gck_cuda_state.devices;
	char where[GCK_CUDA_UUID_TEXT] = "its GPUs";

	if (rc != CUDA_ERROR_OUT_OF_MEMORY)
		return gck_cuda_fail(err, what, rc);
	if (device >= 0 && (uint32_t)device < all->n)
		gck_cuda_uuid_text(all->v[device].uuid, where);
	return gck_fail(err, ENOMEM,
			"%s: too little memory is free on %s: see who has it (nvidia-smi), and "
			"restart the "
			"job where GPUs are free",
			what, where);
}

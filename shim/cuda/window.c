/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/window.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/alive.h"
#include "shim/cuda/real.h"
#include "shim/cuda/slab.h"
#include "shim/cuda/thread.h"

static bool looked, missed;

static CUresult map(struct gck_cuda_window *w, uint64_t size)
{
	const CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = {.size = size};
	CUresult rc = gck_cuda_real.cuExternalMemoryGetMappedBuffer(&w->at, w->memory, &all);

	if (rc) {
		w->at = 0;
		return rc;
	}
	if (w->at % GCK_CUDA_SLAB_UNIT == 0)
		return CUDA_SUCCESS;
	gck_cuda_real.cuMemFree_v2(w->at);
	w->at = 0;
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* The driver takes the descriptor, if it takes the memory. */
static CUresult show(struct gck_cuda_window *w, int fd, uint64_t size)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC of = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = size};
	CUresult rc;

	of.handle.fd = fd;
	rc = gck_cuda_real.cuImportExternalMemory(&w->memory, &of);
	if (rc) {
		close(fd);
		return rc;
	}
	rc = map(w, size);
	if (rc)
		gck_cuda_real.cuDestroyExternalMemory(w->memory);
	return rc;
}

static CUresult hide(struct gck_cuda_window *w)
{
	CUresult rc = gck_cuda_real.cuMemFree_v2(w->at);

	if (!rc)
		gck_cuda_real.cuDestroyExternalMemory(w->memory);
	return rc;
}

CUresult gck_cuda_window_open(struct gck_cuda_window *w, const struct gck_cuda_physical *p, uint64_t size, int naps)
{
	int fd = gck_cuda_physical_descriptor(p, naps);

	return fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : show(w, fd, size);
}

CUresult gck_cuda_window_close(struct gck_cuda_window *w, CUcontext context)
{
	CUresult rc = CUDA_SUCCESS;

	if (w->at && context) {
		rc = gck_cuda_real.cuCtxPushCurrent_v2(context);
		if (rc)
			return rc;
		rc = hide(w);
		gck_cuda_real.cuCtxPopCurrent_v2(&context);
	}
	if (!rc)
		w->at = 0;
	return rc;
}

/* ---- whether there are any -------------------------------------------------------------------- */

/* A driver that cannot do it may end the process: with which ones it was seen to work (test/gpu/run moves). */
static bool is_measured(void)
{
	return !strncmp(gck_cuda_state.devices.driver, "580.", 4) || getenv("GPUCKPT_CUDA_WINDOWS");
}

static CUresult try(CUdevice device)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
	struct gck_cuda_window w;
	struct gck_cuda_physical p;
	int fd;
	CUresult rc = gck_cuda_physical_make(&p, GCK_CUDA_SLAB_UNIT, &prop);

	if (rc)
		return rc;
	rc = gck_cuda_physical_export(&p, &fd);
	if (!rc)
		rc = show(&w, fd, GCK_CUDA_SLAB_UNIT);
	if (!rc) {
		rc = hide(&w);
		if (rc)
			gck_cuda_alive_once(GCK_CUDA_STUCK, w.at);
	}
	gck_cuda_physical_forget(&p);
	return rc;
}

void gck_cuda_windows_look_anew(void)
{
	looked = missed = false;
}

void gck_cuda_windows_look(CUdevice device)
{
	looked = true;
	missed = missed || !is_measured() || try(device);
}

bool gck_cuda_windows_work(void)
{
	return looked && !missed;
}

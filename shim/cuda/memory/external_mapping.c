/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/memory/external_mapping.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/base/obstacles.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/memory/slab_backing.h"
#include "shim/cuda/real.h"

#define MARK 0x6b636731u
#define SEEN_WITH 13000 /* the CUDA version of driver 580 */

static uint64_t looked, work; /* by device */

static CUresult map(struct gck_cuda_external_mapping *w, uint64_t size)
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

/* On success the driver owns the descriptor. */
static CUresult show(struct gck_cuda_external_mapping *w, int fd, uint64_t size)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC of = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
					       .size = size};
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

static CUresult hide(struct gck_cuda_external_mapping *w)
{
	CUresult rc = gck_cuda_real.cuMemFree_v2(w->at);

	if (!rc)
		gck_cuda_real.cuDestroyExternalMemory(w->memory);
	return rc;
}

CUresult gck_cuda_external_mapping_open(struct gck_cuda_external_mapping *w,
					const struct gck_cuda_physical *p, uint64_t size, int naps)
{
	int fd = gck_cuda_physical_descriptor(p, naps);

	return fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : show(w, fd, size);
}

CUresult gck_cuda_external_mapping_close(struct gck_cuda_external_mapping *w, CUcontext context)
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

/* ---- where it works ------------------------------------------------------------------------- */

/* By default only where it was seen to work: another driver may end the process, and several
 * devices were not tried. */
static bool is_wanted(void)
{
	const char *asked = getenv("GPUCKPT_CUDA_EXTERNAL_MAPPINGS");
	int version;

	if (asked && (!strcmp(asked, "0") || !strcmp(asked, "1")))
		return *asked == '1';
	return gck_cuda_state.devices.n == 1 && !gck_cuda_real.cuDriverGetVersion(&version) &&
	       version == SEEN_WITH;
}

/* Check that data written at one address are read at the other. */
static CUresult compare(CUdeviceptr written, CUdeviceptr seen, uint64_t size)
{
	unsigned int last = 0;
	CUstream stream;
	CUresult rc = gck_cuda_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);

	if (rc)
		return rc;
	rc = gck_cuda_real.cuMemsetD32Async(written + size - sizeof last, MARK, 1, stream);
	if (!rc)
		rc = gck_cuda_real.cuMemcpyDtoHAsync_v2(&last, seen + size - sizeof last,
							sizeof last, stream);
	if (!rc)
		rc = gck_cuda_real.cuStreamSynchronize(stream);
	gck_cuda_real.cuStreamDestroy_v2(stream);
	return rc || last == MARK ? rc : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult try_with(const struct gck_cuda_slab *s)
{
	struct gck_cuda_external_mapping w;
	CUresult rc = gck_cuda_external_mapping_open(&w, &s->memory, s->size, 0), closed;

	if (rc)
		return rc;
	rc = compare(s->base, w.at, s->size);
	closed = hide(&w);
	if (closed)
		gck_cuda_obstacle_add_once(GCK_CUDA_UNFREED_COPY, w.at);
	return rc ? rc : closed;
}

static CUresult try(CUdevice device)
{
	struct gck_cuda_slab s = {.base = gck_cuda_region_take(GCK_CUDA_SLAB_UNIT),
				  .size = GCK_CUDA_SLAB_UNIT,
				  .device = device};
	CUresult rc = s.base ? gck_cuda_slab_provide(&s) : CUDA_ERROR_OUT_OF_MEMORY;
	bool stuck = false;

	if (!rc) {
		rc = try_with(&s);
		stuck = gck_cuda_slab_unmap(&s) != CUDA_SUCCESS;
		gck_cuda_physical_drop(&s.memory);
	}
	if (stuck)
		return CUDA_ERROR_UNKNOWN; /* do not use the addresses again */
	if (s.base)
		gck_cuda_region_give(s.base);
	return rc;
}

void gck_cuda_external_mappings_reset(void)
{
	looked = work = 0;
}

/* A lack of resources is not final: the next probe tries again. */
void gck_cuda_external_mappings_probe(CUdevice device)
{
	const uint64_t bit = device >= 0 && device < GCK_CUDA_DEVICES_MAX ? 1ull << device : 0;
	CUresult rc;

	if (!bit || looked & bit)
		return;
	rc = is_wanted() ? try(device) : CUDA_ERROR_NOT_SUPPORTED;
	if (rc != CUDA_ERROR_OUT_OF_MEMORY && rc != CUDA_ERROR_OPERATING_SYSTEM)
		looked |= bit;
	if (rc == CUDA_SUCCESS)
		work |= bit;
}

bool gck_cuda_external_mappings_work(CUdevice device)
{
	return device >= 0 && device < GCK_CUDA_DEVICES_MAX && work >> device & 1;
}

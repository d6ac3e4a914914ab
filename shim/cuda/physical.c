/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/physical.h"

#include <errno.h>
#include <unistd.h>

#include "shim/cuda/idle.h"
#include "shim/cuda/keep.h"
#include "shim/cuda/patience.h"
#include "shim/cuda/real.h"

#define PIECE ((uint64_t)2 << 20) /* the least that there is */
#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static _Atomic int64_t dropped_ns; /* when the last one was */
static bool lost;                  /* what is forgotten is */

CUresult gck_cuda_physical_make(struct gck_cuda_physical *p, uint64_t size, const CUmemAllocationProp *prop)
{
	CUmemAllocationProp with = *prop;

	with.requestedHandleTypes |= DESCRIPTOR;
	*p = (struct gck_cuda_physical){.handle = 0};
	return gck_cuda_real.cuMemCreate(&p->handle, size, &with, 0);
}

CUresult gck_cuda_physical_keep(struct gck_cuda_physical *p)
{
	int fd = -1;
	CUresult rc = gck_cuda_real.cuMemExportToShareableHandle(&fd, p->handle, DESCRIPTOR, 0);

	if (!rc)
		p->kept = gck_cuda_keep(fd);
	return rc ? rc : p->kept ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult gck_cuda_physical_forget(struct gck_cuda_physical *p)
{
	CUresult rc = p->handle ? gck_cuda_real.cuMemRelease(p->handle) : CUDA_SUCCESS;

	if (!rc)
		p->handle = 0;
	return rc;
}

/* It comes by way of the program's table. */
static int descriptor(uint64_t kept, int naps)
{
	int fd;

	do
		fd = gck_cuda_keep_get(kept);
	while (fd < 0 && gck_cuda_patience(errno, &naps));
	return fd;
}

CUresult gck_cuda_physical_recall(struct gck_cuda_physical *p, int naps)
{
	int fd = p->handle ? -1 : descriptor(p->kept, naps);
	CUresult rc;

	if (p->handle)
		return CUDA_SUCCESS;
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	rc = gck_cuda_real.cuMemImportFromShareableHandle(&p->handle, (void *)(intptr_t)fd, DESCRIPTOR);
	close(fd);
	if (rc)
		p->handle = 0;
	return rc;
}

void gck_cuda_physical_look_anew(void)
{
	lost = false;
}

/* What cannot be made at all is found out by who needs it. */
void gck_cuda_physical_look(CUdevice device)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	CUmemGenericAllocationHandle again;
	struct gck_cuda_physical p;
	int fd = -1;

	if (gck_cuda_physical_make(&p, PIECE, &prop))
		return;
	if (!gck_cuda_real.cuMemExportToShareableHandle(&fd, p.handle, DESCRIPTOR, 0)) {
		if (gck_cuda_real.cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, DESCRIPTOR))
			lost = true;
		else
			gck_cuda_real.cuMemRelease(again);
		close(fd);
	}
	gck_cuda_physical_drop(&p);
}

bool gck_cuda_physical_recalls(void)
{
	return !lost;
}

void gck_cuda_physical_drop(struct gck_cuda_physical *p)
{
	gck_cuda_physical_forget(p);
	if (p->kept) {
		gck_cuda_keep_drop(p->kept);
		dropped_ns = gck_cuda_now_ns();
	}
	*p = (struct gck_cuda_physical){.handle = 0};
}

int64_t gck_cuda_physical_dropped_ns(void)
{
	return dropped_ns;
}

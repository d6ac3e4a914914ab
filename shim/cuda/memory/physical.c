/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/memory/physical.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "shim/cuda/base/fd_vault.h"
#include "shim/cuda/base/retry.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/memory/device_instance.h"
#include "shim/cuda/real.h"

#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static _Atomic int64_t dropped_ns;                 /* when memory was last dropped */
static _Atomic uint64_t stays;                     /* memory without a descriptor */
static _Atomic bool lost;                          /* the driver cannot recall what it forgot */
static _Atomic uint64_t looked_at = UINT64_MAX;    /* by device: whether recall was tried */

CUresult gck_cuda_physical_make(struct gck_cuda_physical *p, uint64_t size,
				const CUmemAllocationProp *prop)
{
	CUmemAllocationProp with = *prop;

	with.requestedHandleTypes |= DESCRIPTOR;
	*p = (struct gck_cuda_physical){.handle = 0};
	return gck_cuda_real.cuMemCreate(&p->handle, size, &with, 0);
}

static CUresult import(CUmemGenericAllocationHandle *handle, int fd)
{
	return gck_cuda_real.cuMemImportFromShareableHandle(handle, (void *)(intptr_t)fd,
							    DESCRIPTOR);
}

/* Whether the driver finds memory of a device by its descriptor. */
static bool finds(CUdevice device, int fd)
{
	CUmemGenericAllocationHandle again;
	CUmemAllocationProp prop;
	bool found;

	if (import(&again, fd))
		return false;
	found = !gck_cuda_real.cuMemGetAllocationPropertiesFromHandle(&prop, again) &&
		prop.location.id == device;
	gck_cuda_real.cuMemRelease(again);
	return found;
}

/* The driver may know the device by another number than the kernel. */
static bool finds_as_another(CUdevice device, int fd)
{
	const int here = gck_cuda_instance_said();

	for (int told = 0; here >= 0 && told < GCK_CUDA_INSTANCES; told++) {
		gck_cuda_instance_translate(here, told);
		if (finds(device, fd))
			return true;
	}
	if (here >= 0)
		gck_cuda_instance_translate(here, here);
	return false;
}

static void look(CUdevice device, int fd)
{
	uint64_t bit = device < GCK_CUDA_DEVICES_MAX ? 1ull << device : 0;

	if (!bit || atomic_fetch_or(&looked_at, bit) & bit)
		return;
	if (!finds(device, fd) && !finds_as_another(device, fd))
		lost = true;
}

static CUresult put_into_vault(struct gck_cuda_physical *p, CUdevice device)
{
	int fd = -1;
	CUresult rc;

	if (!(gck_cuda_state.ways & GCK_CUDA_BY_IMAGE))
		return CUDA_ERROR_NOT_SUPPORTED; /* nothing would ask for it */
	rc = gck_cuda_real.cuMemExportToShareableHandle(&fd, p->handle, DESCRIPTOR, 0);
	if (rc)
		return rc;
	look(device, fd);
	p->vault_name = gck_cuda_vault_put(fd);
	return p->vault_name ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult gck_cuda_physical_keep(struct gck_cuda_physical *p, CUdevice device)
{
	CUresult rc;

	rc = put_into_vault(p, device);
	if (rc == CUDA_SUCCESS || !(gck_cuda_state.ways & GCK_CUDA_BY_REPLAY))
		return rc;
	p->vault_name = GCK_CUDA_STAYS;
	stays++;
	return CUDA_SUCCESS;
}

uint64_t gck_cuda_physical_stays(void)
{
	return stays;
}

CUresult gck_cuda_physical_forget(struct gck_cuda_physical *p)
{
	CUresult rc = p->handle ? gck_cuda_real.cuMemRelease(p->handle) : CUDA_SUCCESS;

	if (!rc)
		p->handle = 0;
	return rc;
}

/* The descriptor passes through the program's descriptor table. */
int gck_cuda_physical_descriptor(const struct gck_cuda_physical *p, int naps)
{
	int fd;

	do
		fd = gck_cuda_vault_get(p->vault_name);
	while (fd < 0 && gck_cuda_retry(errno, &naps));
	return fd;
}

CUresult gck_cuda_physical_recall(struct gck_cuda_physical *p, int naps)
{
	int fd = p->handle ? -1 : gck_cuda_physical_descriptor(p, naps);
	CUresult rc;

	if (p->handle)
		return CUDA_SUCCESS;
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	rc = import(&p->handle, fd);
	close(fd);
	if (rc)
		p->handle = 0;
	return rc;
}

void gck_cuda_physical_reset(void)
{
	lost = false;
	stays = 0;
	looked_at = 0;
	gck_cuda_instance_reset();
}

bool gck_cuda_physical_recalls(void)
{
	return !lost;
}

void gck_cuda_physical_lost(struct gck_cuda_physical *p)
{
	p->handle = 0;
}

void gck_cuda_physical_drop(struct gck_cuda_physical *p)
{
	gck_cuda_physical_forget(p);
	if (p->vault_name) {
		if (p->vault_name == GCK_CUDA_STAYS)
			stays--;
		else
			gck_cuda_vault_drop(p->vault_name);
		dropped_ns = gck_cuda_now_ns();
	}
	*p = (struct gck_cuda_physical){.handle = 0};
}

int64_t gck_cuda_physical_dropped_ns(void)
{
	return dropped_ns;
}

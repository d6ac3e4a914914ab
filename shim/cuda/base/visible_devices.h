/* SPDX-License-Identifier: Apache-2.0
 * The devices that a process sees. A rank's stand-in asks, and gpuckpt-gpus for a task that is to
 * be restored. */
#ifndef GCK_CUDA_VISIBLE_DEVICES_H
#define GCK_CUDA_VISIBLE_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/base/state.h"

/* The driver's functions that are needed. */
struct gck_cuda_device_calls {
	CUresult (*count)(int *n);
	CUresult (*get)(CUdevice *device, int ordinal);
	CUresult (*uuid)(CUuuid *uuid, CUdevice device);
	CUresult (*name)(char *name, int size, CUdevice device);
	CUresult (*version)(int *version);
	CUresult (*memory)(size_t *bytes, CUdevice device);
	CUresult (*attribute)(int *value, CUdevice_attribute attribute, CUdevice device);
};

/* Read the devices, after cuInit. On failure, or if there are too many, leaves out as it was. */
CUresult gck_cuda_visible_devices_read(const struct gck_cuda_device_calls *by,
				       struct gck_cuda_devices *out);

/* A GPU of this machine. */
struct gck_cuda_machine_gpu {
	unsigned char uuid[16];
	uint32_t id;     /* the kernel module's, made of its PCI address as gpuGenerate32BitId of
			  * NVIDIA's open kernel modules does */
	bool may_open;   /* this process may open its device file */
};

/* Lists them, at most so many; returns how many. */
size_t gck_cuda_machine_gpus(struct gck_cuda_machine_gpu *gpus, size_t most);

/* "GPU-864f41ea-375a-...", as nvidia-smi -L prints it. */
#define GCK_CUDA_UUID_TEXT 41
void gck_cuda_uuid_text(const unsigned char uuid[16], char text[GCK_CUDA_UUID_TEXT]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/gate/device_pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/base/state.h"
#include "shim/cuda/base/visible_devices.h"
#include "shim/cuda/dispatch/function.h"

void gck_cuda_devices_note(void)
{
	const struct gck_cuda_eyes eyes = {
		gck_cuda_real.cuDeviceGetCount, gck_cuda_real.cuDeviceGet,
		gck_cuda_real.cuDeviceGetUuid_v2, gck_cuda_real.cuDeviceGetName,
		gck_cuda_real.cuDriverGetVersion,
	};
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	gck_cuda_see(&eyes, &gck_cuda_state.devices);
	snprintf(gck_cuda_state.library, sizeof gck_cuda_state.library, "%s", gck_cuda_library());
	snprintf(gck_cuda_state.visible, sizeof gck_cuda_state.visible, "%s", visible ? visible : "");
}

CUcheckpointRestoreArgs *gck_cuda_devices_pairs(void)
{
	static CUcheckpointGpuPair pairs[GCK_CUDA_DEVICES_MAX];
	static CUcheckpointRestoreArgs args;
	const struct gck_cuda_state *s = &gck_cuda_state;

	if (!s->nonto)
		return NULL;
	for (uint32_t i = 0; i < s->nonto; i++) {
		memcpy(pairs[i].oldUuid.bytes, s->devices.v[i].uuid, sizeof pairs[i].oldUuid.bytes);
		memcpy(pairs[i].newUuid.bytes, s->onto[i], sizeof pairs[i].newUuid.bytes);
	}
	args = (CUcheckpointRestoreArgs){.gpuPairs = pairs, .gpuPairsCount = s->nonto};
	return &args;
}

void gck_cuda_devices_moved(void)
{
	struct gck_cuda_state *s = &gck_cuda_state;

	for (uint32_t i = 0; i < s->nonto; i++)
		memcpy(s->devices.v[i].uuid, s->onto[i], sizeof s->onto[i]);
	s->nonto = 0;
}

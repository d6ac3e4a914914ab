/* SPDX-License-Identifier: Apache-2.0
 * A drain is about to come: the host memory that it will need is got ready while the program runs. */
#include "shim/cuda/base/state.h"
#include "shim/cuda/snapshot/prefault.h"
#include "shim/cuda/snapshot/snapshot.h"
#include "shim/cuda/snapshot/staging.h"

/* Of a device, as far as is known (room.h), what is taken and will find no room. */
static uint64_t homeless(const struct gck_cuda_order *order, CUdevice device)
{
	const struct gck_cuda_memory *m = &gck_cuda_state.memory[device];
	uint64_t most = order->keep_most[device], room = m->room < most ? m->room : most, taken = m->bytes;

	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		if (gck_cuda_slabs.v[i]->device == device)
			taken -= gck_cuda_slabs.v[i]->arena.free;
	}
	return taken > room ? taken - room : 0;
}

void gck_cuda_snapshot_expect(const struct gck_cuda_order *order)
{
	struct gck_cuda_snapshot *s = &gck_cuda_snapshot;
	uint64_t size = 0, one;
	size_t devices = 0;

	gck_cuda_snapshot_drop_host();
	gck_cuda_slabs_lock();
	for (CUdevice d = 0; d < GCK_CUDA_DEVICES_MAX; d++) {
		one = homeless(order, d);
		size += one;
		devices += one > 0;
	}
	gck_cuda_slabs_unlock();
	size = size < order->host_most ? size : order->host_most;
	s->host = size ? gck_cuda_warm_new(size) : NULL;
	if (!s->host)
		return;
	s->host_room = size;
	gck_cuda_warm(s->host, size, order->end_ns);
	gck_cuda_stage_expect(devices, order->end_ns);
}

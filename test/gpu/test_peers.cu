/* SPDX-License-Identifier: Apache-2.0
 * Two devices in a process: slabs that both have access to, and the driver's checkpoint of both. */
#include "driver.h"

#define SLAB (64 * MIB)
#define COUNT 8

__global__ static void add(unsigned *p, size_t n, unsigned k)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		p[i] += k;
}

static void add_on(int device, const struct gpu_slabs *s, unsigned k)
{
	MUST(cudaSetDevice(device));
	add<<<264, 256>>>((unsigned *)s->at, s->size * s->count / sizeof(unsigned), k);
	MUST(cudaDeviceSynchronize());
	MUST(cudaSetDevice(0));
}

static void shared_slabs(void)
{
	struct gpu_slabs s = {};
	double start, away, back;
	unsigned last;

	MUST(cudaSetDevice(1));
	MUST(cudaFree(NULL)); /* its context */
	MUST(cudaSetDevice(0));
	s.devices = 2;
	gpu_slabs_make(&s, GPU_SLABS_BASE, GIB << 14, SLAB, COUNT);
	gpu_slabs_export(&s);
	MUST(cuMemsetD32(s.at, 1, SLAB * COUNT / 4));
	MUST(cuCtxSynchronize());
	add_on(1, &s, 10);
	start = gpu_ms();
	gpu_slabs_unmap(&s);
	away = gpu_ms() - start;
	CHECK(gpu_self_checkpoint(NULL));
	start = gpu_ms();
	gpu_slabs_import(&s);
	back = gpu_ms() - start;
	add_on(1, &s, 100);
	add_on(0, &s, 1000);
	MUST(cuMemcpyDtoH(&last, s.at + SLAB * COUNT - 4, sizeof last));
	CHECK(last == 1111);
	printf("#   a slab of two devices: away %.0f us, back %.0f us\n", 1e3 * away / COUNT,
	       1e3 * back / COUNT);
}

static void peer_copies(void)
{
	struct gpu_self self = {true};
	unsigned *here, *there, v = 0;

	MUST(cudaMalloc(&here, MIB));
	MUST(cudaMemset(here, 3, MIB));
	MUST(cudaDeviceEnablePeerAccess(1, 0));
	MUST(cudaSetDevice(1));
	MUST(cudaDeviceEnablePeerAccess(0, 0));
	MUST(cudaMalloc(&there, MIB));
	CHECK(gpu_self_checkpoint(&self));
	printf("#   checkpoint %.0f ms, restore %.0f ms, %zu MiB\n", self.save_ms, self.restore_ms,
	       self.grown / MIB);
	MUST(cudaMemcpyPeer(there, 1, here, 0, MIB));
	add<<<1, 32>>>(here, 32, 1);
	MUST(cudaDeviceSynchronize());
	MUST(cudaMemcpy(&v, there, sizeof v, cudaMemcpyDeviceToHost));
	CHECK(v == 0x03030303);
	MUST(cudaMemcpy(&v, here, sizeof v, cudaMemcpyDeviceToHost));
	CHECK(v == 0x03030304);
}

static const struct gpu_case cases[] = {
	{"shared_slabs", shared_slabs},
	{"peer_copies", peer_copies},
};

int main(int argc, char **argv)
{
	return gpu_run(cases, sizeof cases / sizeof cases[0], argc, argv);
}

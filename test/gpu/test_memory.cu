/* SPDX-License-Identifier: Apache-2.0
 * The driver's behaviour on which the shim relies for slabs, host memory and managed memory.
 * gpuckpt does not support a driver for which one of these cases fails. */
#include "driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define WORDS 512
#define SLAB (64 * MIB)
#define ARENA (32 * MIB)  /* addresses of managed memory are its multiples */

__global__ static void add(unsigned *p, size_t n, unsigned k)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		p[i] += k;
}

static void gpu_add(CUdeviceptr p, size_t bytes, unsigned k)
{
	add<<<264, 256>>>((unsigned *)p, bytes / sizeof(unsigned), k);
	MUST(cudaDeviceSynchronize());
}

static unsigned word(CUdeviceptr at)
{
	unsigned value = 0;

	MUST(cuMemcpyDtoH(&value, at, sizeof value));
	return value;
}

/* ---- slabs ---------------------------------------------------------------------------------- */

static bool filled(const struct gpu_slabs *s, unsigned value)
{
	for (size_t i = 0; i < s->count; i++)
		if (word(s->at + i * s->size) != value + i ||
		    word(s->at + (i + 1) * s->size - sizeof(unsigned)) != value + i)
			return false;
	return true;
}

static void fill(const struct gpu_slabs *s, unsigned value)
{
	for (size_t i = 0; i < s->count; i++)
		MUST(cuMemsetD32(s->at + i * s->size, value + (unsigned)i, s->size / 4));
	MUST(cuCtxSynchronize());
}

/* The driver forgets data and their snapshot; descriptors in flight keep both. */
static void slabs_in_flight(void)
{
	struct gpu_slabs data = {}, snapshot = {};

	gpu_slabs_make(&data, GPU_SLABS_BASE, GIB << 14, SLAB, 8);
	gpu_slabs_make(&snapshot, 0, 0, 8 * SLAB, 1);
	gpu_slabs_export(&data);
	for (unsigned round = 1; round < 3; round++) {
		fill(&data, round * 100);
		if (round == 1) {
			MUST(cuMemcpyDtoD(snapshot.at, data.at, 8 * SLAB));
			MUST(cuCtxSynchronize());
			gpu_slabs_export(&snapshot);
			gpu_slabs_unmap(&snapshot);
		}
		gpu_slabs_unmap(&data);
		CHECK(gpu_self_checkpoint(NULL));
		gpu_slabs_import(&data);
		CHECK(filled(&data, round * 100));
	}
	gpu_slabs_import(&snapshot);
	CHECK(word(snapshot.at) == 100 && word(snapshot.at + 7 * SLAB) == 107);
}

/* Memory exists as long as a descriptor of it, also one in flight, and no longer. */
static void memory_by_descriptor(void)
{
	struct gpu_slabs s = {};
	size_t before, held, after, all;

	MUST(cuMemGetInfo(&before, &all));
	gpu_slabs_make(&s, 0, 0, 512 * MIB, 2);
	gpu_slabs_export(&s);
	gpu_slabs_unmap(&s);
	MUST(cuMemGetInfo(&held, &all));
	CHECK(before - held >= GIB);
	close(s.flight[0]);
	close(s.flight[1]);
	usleep(300000);
	MUST(cuMemGetInfo(&after, &all));
	CHECK(after - held >= GIB);
}

static void parts_of_a_slab(void)
{
	struct gpu_slabs s = {};
	CUdeviceptr base, other;
	size_t size;
	CUipcMemHandle ipc;

	gpu_slabs_make(&s, 0, 0, SLAB, 1);
	MUST(cuMemGetAddressRange(&base, &size, s.at + 4096));
	CHECK(base == s.at && size == SLAB);
	CHECK(cuIpcGetMemHandle(&ipc, s.at) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemAddressReserve(&other, SLAB, 0, 0, 0));
	CHECK(cuMemMap(other, SLAB / 2, 0, s.handles[0], 0) == CUDA_ERROR_NOT_SUPPORTED);
}

/* ---- host memory ---------------------------------------------------------------------------- */

static struct {
	volatile unsigned *words;
	volatile bool stop;
	volatile unsigned rounds, while_checkpointed;
} counter;

static void *count(void *)
{
	while (!counter.stop) {
		for (int i = 0; i < WORDS; i++)
			counter.words[i]++;
		counter.rounds++;
	}
	return NULL;
}

static void note_rounds(void)
{
	unsigned before = counter.rounds;

	usleep(20000);
	counter.while_checkpointed = counter.rounds - before;
}

/* A CPU thread increments all the time. No increment is lost, and GPU and CPU see each other's. */
static void count_through(void *memory, size_t size)
{
	struct gpu_self self = {true, note_rounds};
	CUdeviceptr device, again;
	pthread_t thread;

	memset(memory, 0, size);
	MUST(cuMemHostGetDevicePointer(&device, memory, 0));
	counter.words = (volatile unsigned *)memory;
	pthread_create(&thread, NULL, count, NULL);
	usleep(20000);
	CHECK(gpu_self_checkpoint(&self));
	usleep(20000);
	counter.stop = true;
	pthread_join(thread, NULL);
	CHECK(counter.while_checkpointed > 0);
	for (int i = 0; i < WORDS; i++)
		CHECK(counter.words[i] == counter.rounds);
	MUST(cuMemHostGetDevicePointer(&again, memory, 0));
	CHECK(again == device && word(device) == counter.rounds);
	gpu_add(device, WORDS * sizeof(unsigned), 1000);
	CHECK(counter.words[WORDS - 1] == counter.rounds + 1000);
}

static void host_allocated(void)
{
	void *p;

	MUST(cuMemHostAlloc(&p, 8 * MIB, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	count_through(p, 8 * MIB);
}

static void host_registered(void)
{
	void *p = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(cuMemHostRegister(p, 8 * MIB, CU_MEMHOSTREGISTER_DEVICEMAP));
	count_through(p, 8 * MIB);
}

static void host_registered_shared(void)
{
	int fd = memfd_create("ring", MFD_CLOEXEC);
	void *p;

	CHECK(!ftruncate(fd, 8 * MIB));
	p = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(cuMemHostRegister(p, 8 * MIB, CU_MEMHOSTREGISTER_DEVICEMAP));
	count_through(p, 8 * MIB);
}

/* Write-combined memory, which the driver unmaps while checkpointed. The shim gives none. */
static unsigned char *combined;
static unsigned char present;

static void look_for_it(void)
{
	CHECK(mincore(combined, 4096, &present) || !(present & 1));
}

static void host_write_combined(void)
{
	struct gpu_self self = {true, look_for_it};

	MUST(cuMemHostAlloc((void **)&combined, 8 * MIB, CU_MEMHOSTALLOC_WRITECOMBINED));
	memset(combined, 7, 8 * MIB);
	CHECK(gpu_self_checkpoint(&self) && combined[MIB] == 7);
}

/* The driver cannot restore a process that has memory of cuMemCreate on the host. */
static void host_created(void)
{
	struct gpu_self self = {true};
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop;

	memset(&prop, 0, sizeof prop);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	MUST(cuMemCreate(&handle, 32 * MIB, &prop, 0));
	CHECK(!gpu_self_checkpoint(&self) && !self.saved && self.restored);
}

/* ---- managed memory -------------------------------------------------------------------------- */

/* Freed before a checkpoint and allocated again at the same address, which a placeholder
 * reserves. */
static void managed_same_address(void)
{
	static char copy[2 * ARENA];
	CUdeviceptr p, q;

	MUST(cuMemAllocManaged(&p, sizeof copy, CU_MEM_ATTACH_GLOBAL));
	for (size_t i = 0; i < sizeof copy / 4; i++)
		((unsigned *)p)[i] = (unsigned)i;
	gpu_add(p, sizeof copy, 5);
	MUST(cuMemcpyDtoH(copy, p, sizeof copy));
	MUST(cuMemFree(p));
	CHECK(mmap((void *)p, sizeof copy, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == (void *)p);
	CHECK(gpu_self_checkpoint(NULL));
	q = gpu_managed_at((void *)p, sizeof copy);
	MUST(cuMemcpyHtoD(q, copy, sizeof copy));
	gpu_add(q, sizeof copy, 7);
	for (size_t i = 0; i < sizeof copy / 4; i++)
		CHECK(((unsigned *)q)[i] == i + 12);
}

/* A checkpoint is refused while managed memory exists. After that every later one fails. */
static void managed_refused(void)
{
	struct gpu_self first = {true}, second = {true};
	CUdeviceptr p;

	MUST(cuMemAllocManaged(&p, MIB, CU_MEM_ATTACH_GLOBAL));
	CHECK(!gpu_self_checkpoint(&first) && first.saved == CUDA_ERROR_NOT_SUPPORTED);
	((unsigned *)p)[0] = 1;
	gpu_add(p, MIB, 1);
	CHECK(((unsigned *)p)[0] == 2);
	MUST(cuMemFree(p));
	CHECK(!gpu_self_checkpoint(&second) && second.saved == CUDA_ERROR_UNKNOWN);
}

static const struct gpu_case cases[] = {
	{"slabs_in_flight", slabs_in_flight},
	{"memory_by_descriptor", memory_by_descriptor},
	{"parts_of_a_slab", parts_of_a_slab},
	{"host_allocated", host_allocated},
	{"host_registered", host_registered},
	{"host_registered_shared", host_registered_shared},
	{"host_write_combined", host_write_combined},
	{"host_created", host_created},
	{"managed_same_address", managed_same_address},
	{"managed_refused", managed_refused},
};

int main(int argc, char **argv)
{
	return gpu_run(cases, sizeof cases / sizeof cases[0], argc, argv);
}

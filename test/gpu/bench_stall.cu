/* SPDX-License-Identifier: Apache-2.0
 * How long a program of so many GiB on the device stands still: the driver's own checkpoint of it,
 * and the way with slabs (copied on the device, taken away, checkpointed, brought back), which the
 * shim goes. `bench_stall GIB...`; the driver's own is measured up to 32 GiB. */
#include "driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS 3
#define DRIVER_MOST 32
#define SNAPSHOT_SLAB (2 * GIB)
#define COPIERS 16
#define SLOT (4 * MIB)
#define PCIE_LIMIT 50.0 /* GB/s, of the issue */

static double owned; /* GiB that the driver copies itself, without any data of ours */

static int by_size(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof *v, by_size);
	return v[ROUNDS / 2];
}

static void figure(const char *what, size_t gib, double v, const char *unit)
{
	char name[80];

	snprintf(name, sizeof name, "%s_%zu_gib", what, gib);
	gpu_figure(name, v, unit);
}

/* With what the issue asks for. */
static void judge(const char *what, size_t gib, double ms, double limit)
{
	figure(what, gib, ms, "ms");
	fprintf(stderr, "# limit %.0f ms: %s\n", limit, ms <= limit ? "met" : "MISSED");
}

/* ---- the driver's own ------------------------------------------------------------------------ */

static double of_driver(size_t gib)
{
	struct gpu_self self = {};
	CUdeviceptr data;

	MUST(cuMemAlloc(&data, gib * GIB));
	MUST(cuMemsetD32(data, 7, gib * GIB / 4));
	CHECK(gpu_self_checkpoint(&self));
	MUST(cuMemFree(data));
	return self.all_ms;
}

/* ---- by slabs --------------------------------------------------------------------------------- */

static size_t slab_for(size_t gib)
{
	return gib >= 16 ? GIB : gib * GIB / 16;
}

static double to_device(struct gpu_slabs *data)
{
	size_t all = data->size * data->count;
	size_t size = all < SNAPSHOT_SLAB ? all : SNAPSHOT_SLAB;
	struct gpu_slabs snapshot = {};
	double start = gpu_ms(), stall;

	gpu_slabs_make(&snapshot, 0, 0, size, all / size);
	MUST(cuMemcpyDtoD(snapshot.at, data->at, all));
	MUST(cuCtxSynchronize());
	gpu_slabs_export(&snapshot);
	gpu_slabs_away(&snapshot);
	gpu_slabs_away(data);
	CHECK(gpu_self_checkpoint(NULL));
	gpu_slabs_back(data);
	stall = gpu_ms() - start;
	gpu_slabs_back(&snapshot);
	gpu_slabs_free(&snapshot);
	usleep(500000); /* memory given back is scrubbed before it is there again */
	return stall;
}

/* To ordinary memory by way of a small pinned ring: pinned memory costs the driver's checkpoint
 * 35 ms a GiB, and giving it back waits for all copies. Each thread has slots of its own, one of which
 * is filled by the device while it empties the other. */
struct copier {
	pthread_t thread;
	CUdeviceptr from;
	char *to, *slots[2];
	size_t bytes;
};

static void *copy_share(void *arg)
{
	struct copier *c = (struct copier *)arg;
	cudaStream_t stream;

	MUST(cuCtxSetCurrent(gpu_context));
	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (size_t done = 0; done <= c->bytes; done += SLOT) {
		char *slot = c->slots[done / SLOT % 2], *other = c->slots[done / SLOT % 2 ^ 1];

		MUST(cudaStreamSynchronize(stream));
		if (done < c->bytes)
			MUST(cuMemcpyDtoHAsync(slot, c->from + done, SLOT, stream));
		if (done)
			memcpy(c->to + done - SLOT, other, SLOT);
	}
	MUST(cudaStreamDestroy(stream));
	return NULL;
}

static double to_host(struct gpu_slabs *data, char *host)
{
	size_t share = data->size * data->count / COPIERS;
	struct copier c[COPIERS];
	double start;
	char *ring;

	MUST(cuMemHostAlloc((void **)&ring, 2 * COPIERS * SLOT, CU_MEMHOSTALLOC_PORTABLE));
	memset(ring, 1, 2 * COPIERS * SLOT);
	start = gpu_ms();
	for (size_t i = 0; i < COPIERS; i++) {
		c[i].from = data->at + i * share;
		c[i].to = host + i * share;
		c[i].bytes = share;
		c[i].slots[0] = ring + 2 * i * SLOT;
		c[i].slots[1] = ring + (2 * i + 1) * SLOT;
		pthread_create(&c[i].thread, NULL, copy_share, &c[i]);
	}
	for (size_t i = 0; i < COPIERS; i++)
		pthread_join(c[i].thread, NULL);
	fprintf(stderr, "# copied to the host in %.0f ms\n", gpu_ms() - start);
	gpu_slabs_away(data);
	CHECK(gpu_self_checkpoint(NULL));
	gpu_slabs_back(data);
	start = gpu_ms() - start;
	MUST(cuMemFreeHost(ring));
	return start;
}

/* Limit and figure of a program for whose copy the device has no room. */
static void without_room(struct gpu_slabs *data, size_t gib)
{
	size_t all = gib * GIB;
	char *host = (char *)mmap(NULL, all, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(host, 1, all);
	judge("stall_slabs_no_room", gib, to_host(data, host),
	      400 + gib + 750 * owned + all / PCIE_LIMIT / 1e6);
	munmap(host, all);
}

static double of_slabs(size_t gib)
{
	struct gpu_slabs data = {};
	double ms[ROUNDS], middle;
	unsigned last = 0;

	gpu_slabs_make(&data, 0, 0, slab_for(gib), gib * GIB / slab_for(gib));
	gpu_slabs_export(&data);
	for (unsigned i = 0; i < ROUNDS; i++) {
		MUST(cuMemsetD32(data.at, i, data.size * data.count / 4));
		MUST(cuCtxSynchronize());
		ms[i] = to_device(&data);
		MUST(cuMemcpyDtoH(&last, data.at + data.size * data.count - 4, sizeof last));
		CHECK(last == i);
	}
	middle = median(ms);
	judge("stall_slabs", gib, middle, 400 + gib + 750 * owned);
	if (gib == 16)
		without_room(&data, gib);
	gpu_slabs_free(&data);
	return middle;
}

int main(int argc, char **argv)
{
	struct gpu_self bare = {}, shrunk = {};

	gpu_init();
	CHECK(gpu_self_checkpoint(&bare));
	shrunk.shrink = true;
	CHECK(gpu_self_checkpoint(&shrunk));
	owned = (double)shrunk.grown / GIB;
	gpu_figure("driver_owned", (double)bare.grown / MIB, "MiB");
	gpu_figure("driver_owned_stack_shrunk", (double)shrunk.grown / MIB, "MiB");
	gpu_figure("driver_checkpoint_empty", bare.all_ms, "ms");
	gpu_figure("driver_checkpoint_empty_stack_shrunk", shrunk.all_ms, "ms");
	for (int i = 1; i < argc; i++) {
		size_t gib = strtoul(argv[i], NULL, 10);
		double slabs = of_slabs(gib), driver;

		if (gib > DRIVER_MOST)
			continue;
		driver = of_driver(gib);
		figure("stall_driver", gib, driver, "ms");
		figure("stall_driver_over_slabs", gib, driver / slabs, "ratio");
	}
	return 0;
}

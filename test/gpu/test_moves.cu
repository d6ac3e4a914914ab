/* SPDX-License-Identifier: Apache-2.0
 * A process that the driver's checkpoint has moved to other devices: how it finds memory again, on
 * which shim/cuda relies (device_instance.h). libcuda's calls of ioctl come here, where the
 * kernel's numbers of devices are translated. */
#include "driver.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define GPUS 16 /* of the machine; pairs name all of them */
#define MOST (GIB + 2 * MIB)

static int gpus;
static CUuuid gpu[GPUS];
static CUcheckpointGpuPair pairs[GPUS];
static CUcheckpointRestoreArgs args;
static CUdeviceptr at;
static size_t size = 256 * MIB;
static CUmemGenericAllocationHandle handle;

/* ---- the kernel's numbers -------------------------------------------------------------------- */

static unsigned told[GPUS]; /* what to tell for each number */
static unsigned said;       /* the kernel's last answer */

struct control {
	uint32_t client, object, command, flags;
	uint64_t arguments;
	uint32_t size, status;
};

extern "C" int ioctl(int fd, unsigned long request, ...) noexcept
{
	struct control *c;
	uint32_t *instance;
	va_list list;
	int rc;

	va_start(list, request);
	c = va_arg(list, struct control *);
	va_end(list);
	rc = (int)syscall(SYS_ioctl, fd, request, c);
	if (request != _IOWR('F', 0x2a, struct control) || rc || c->command != 0x3d08 || c->status)
		return rc;
	instance = (uint32_t *)c->arguments + 1;
	said = *instance;
	if (said < GPUS)
		*instance = told[said];
	return 0;
}

static void tell_the_truth(void)
{
	for (int i = 0; i < GPUS; i++)
		told[i] = i;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* Pairs that replace the first two GPUs by those with these numbers. */
static CUcheckpointRestoreArgs *onto(int first, int second)
{
	memset(pairs, 0, sizeof pairs);
	memset(&args, 0, sizeof args);
	for (int i = 0; i < gpus; i++) {
		pairs[i].oldUuid = gpu[i];
		pairs[i].newUuid = gpu[i > 1 ? i : i ? second : first];
	}
	args.gpuPairs = pairs;
	args.gpuPairsCount = gpus;
	return &args;
}

static void checkpoint(CUcheckpointRestoreArgs *where)
{
	struct gpu_self s = {};

	s.shrink = true;
	s.onto = where;
	CHECK(gpu_self_checkpoint(&s));
}

/* The number of the GPU that the process has as its first. */
static int here(void)
{
	CUuuid now;

	MUST(cuDeviceGetUuid(&now, 0));
	return !memcmp(&now, &gpu[0], sizeof now) ? 0 : !memcmp(&now, &gpu[1], sizeof now) ? 1 : -1;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int make(int device)
{
	CUmemAllocationProp prop;
	int fd;

	memset(&prop, 0, sizeof prop);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	prop.requestedHandleTypes = DESCRIPTOR;
	MUST(cuMemCreate(&handle, size, &prop, 0));
	MUST(cuMemExportToShareableHandle(&fd, handle, DESCRIPTOR, 0));
	return fd;
}

static void map(int device)
{
	CUmemAccessDesc access = {};

	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = device;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	MUST(cuMemMap(at, size, 0, handle, 0));
	MUST(cuMemSetAccess(at, size, &access, 1));
}

static void unmap(void)
{
	MUST(cuCtxSynchronize());
	MUST(cuMemUnmap(at, size));
	MUST(cuMemRelease(handle));
}

static CUresult import(int fd)
{
	return cuMemImportFromShareableHandle(&handle, (void *)(long)fd, DESCRIPTOR);
}

/* The device that the driver finds memory on; -1: it finds none. */
static int found_on(int fd)
{
	CUmemAllocationProp prop;

	if (import(fd))
		return -1;
	MUST(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
	MUST(cuMemRelease(handle));
	return prop.location.id;
}

/* Makes memory that the driver forgets. Returns its descriptor. */
static int memory(int device)
{
	int fd;

	MUST(cudaSetDevice(device));
	fd = make(device);
	map(device);
	MUST(cuMemsetD32(at, 7, size / 4));
	unmap();
	MUST(cudaSetDevice(0));
	return fd;
}

/* Whether the memory is found with its contents. */
static bool is_intact(int fd, int device)
{
	unsigned last = 0;

	if (found_on(fd) != device)
		return false;
	MUST(import(fd));
	MUST(cudaSetDevice(device));
	map(device);
	MUST(cuMemcpyDtoH(&last, at + size - 4, sizeof last));
	unmap();
	MUST(cudaSetDevice(0));
	return last == 7;
}

static bool survives(int fd, int device, CUcheckpointRestoreArgs *where)
{
	checkpoint(where);
	return is_intact(fd, device);
}

/* The kernel's number of a device. */
static unsigned number_of(int device)
{
	int fd = memory(device);

	found_on(fd);
	close(fd);
	return said;
}

static void reserve(void)
{
	tell_the_truth();
	MUST(cuMemAddressReserve(&at, MOST, 0, 0, 0));
	CHECK(here() == 0);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void never_moved(void)
{
	int fd;

	reserve();
	fd = memory(0);
	CHECK(survives(fd, 0, NULL));
	CHECK(survives(fd, 0, onto(0, 1)));
	CHECK(survives(fd, 0, NULL));
}

/* The process stays there. It finds its memory where it is told the number of its first GPU. */
static void moved(void)
{
	const size_t sizes[] = {2 * MIB, 256 * MIB, MOST};
	unsigned first;
	int fd;

	reserve();
	first = number_of(0);
	checkpoint(onto(1, 0));
	CHECK(here() == 1);
	for (size_t i = 0; i < 3; i++) {
		size = sizes[i];
		fd = memory(0);
		CHECK(import(fd) == CUDA_ERROR_NOT_INITIALIZED);
		told[said] = first;
		CHECK(is_intact(fd, 0));
		CHECK(survives(fd, 0, NULL) && here() == 1);
		CHECK(survives(fd, 0, onto(0, 1)) && here() == 1);
		close(fd);
		tell_the_truth();
	}
}

static void moved_back(void)
{
	int fd;

	reserve();
	checkpoint(onto(1, 0));
	checkpoint(onto(1, 0));
	CHECK(here() == 0);
	fd = memory(0);
	CHECK(survives(fd, 0, NULL));
}

/* It sees both. The driver takes the memory of one for the other's. */
static void changed_places(void)
{
	unsigned first[2];
	int fd[2];

	MUST(cudaSetDevice(1));
	MUST(cudaFree(NULL)); /* its context */
	MUST(cudaSetDevice(0));
	reserve();
	for (int i = 0; i < 2; i++)
		first[i] = number_of(i);
	for (int turn = 1; turn <= 10; turn++) {
		checkpoint(onto(1, 0));
		CHECK(here() == turn % 2);
		tell_the_truth();
		for (int i = 0; i < 2; i++) {
			fd[i] = memory(i);
			CHECK(found_on(fd[i]) == (turn % 2 ? 1 - i : i));
		}
		for (int i = 0; turn % 2 && i < 2; i++)
			told[first[1 - i]] = first[i];
		for (int i = 0; i < 2; i++) {
			CHECK(is_intact(fd[i], i) && survives(fd[i], i, NULL));
			close(fd[i]);
		}
	}
}

/* In a process of its own, since this one must see only the first, or both. */
static void find_gpus(void)
{
	int ends[2];

	CHECK(!pipe(ends));
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (fork() == 0) {
		MUST(cuInit(0));
		MUST(cuDeviceGetCount(&gpus));
		for (int i = 0; i < gpus && i < GPUS; i++)
			MUST(cuDeviceGetUuid(&gpu[i], i));
		_exit(write(ends[1], gpu, sizeof gpu) != sizeof gpu ||
		      write(ends[1], &gpus, sizeof gpus) != sizeof gpus);
	}
	close(ends[1]);
	CHECK(read(ends[0], gpu, sizeof gpu) == sizeof gpu &&
	      read(ends[0], &gpus, sizeof gpus) == sizeof gpus);
	close(ends[0]);
}

static const struct gpu_case one_seen[] = {
	{"never_moved", never_moved},
	{"moved", moved},
	{"moved_back", moved_back},
};

static const struct gpu_case both_seen[] = {
	{"changed_places", changed_places},
};

int main(int argc, char **argv)
{
	find_gpus();
	if (argc > 1 && !strcmp(argv[1], "both"))
		return gpu_run(both_seen, sizeof both_seen / sizeof both_seen[0], 1, argv);
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	return gpu_run(one_seen, sizeof one_seen / sizeof one_seen[0], argc, argv);
}

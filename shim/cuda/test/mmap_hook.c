/* SPDX-License-Identifier: Apache-2.0
 * The mmap hook puts managed memory at an address of our choice. What the program has mapped at
 * that address stays when the driver's call fails and unmaps what it mapped. In a checkpoint the
 * driver saves in large pages. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shim/cuda/base/obstacles.h"
#include "shim/cuda/dispatch/dispatch.h"
#include "shim/cuda/dispatch/load.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/managed/mmap_hook.h"
#include "test/support/tap.h"

#define SIZE GCK_CUDA_MANAGED_UNIT
#define FAKE_OWN_MIB 4 /* test/support/driver/checkpoint.c */

static void *driver;

void *gck_cuda_handle(void)
{
	return driver;
}

void gck_cuda_obstacle_add_once(enum gck_cuda_kind kind, uint64_t key)
{
	(void)kind;
	(void)key;
}

void gck_cuda_obstacle_remove(enum gck_cuda_kind kind, uint64_t key)
{
	(void)kind;
	(void)key;
}

int64_t gck_cuda_now_ns(void)
{
	return 0;
}

static CUresult (*allocate)(CUdeviceptr *at, size_t size, unsigned int flags);

static bool begin(void)
{
	CUresult (*init)(unsigned int flags), (*retain)(CUcontext * c, CUdevice d),
		(*set)(CUcontext c);
	CUcontext context;

	driver = dlopen(GCK_TEST_DRIVER, RTLD_NOW);
	if (!driver)
		return false;
	*(void **)&init = dlsym(driver, "cuInit");
	*(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&set = dlsym(driver, "cuCtxSetCurrent");
	*(void **)&allocate = dlsym(driver, "cuMemAllocManaged");
	gck_cuda_mmap_hook_begin();
	return gck_cuda_mmap_hook_works() && !init(0) && !retain(&context, 0) && !set(context);
}

/* Map memory of the program at an address that managed memory may have, with other addresses of
 * ours behind it. */
static char *place(void)
{
	char *reserved = mmap(NULL, 3 * SIZE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uintptr_t at = ((uintptr_t)reserved + SIZE - 1) / SIZE * SIZE;

	memset((void *)at, 'a', SIZE + 4096);
	return (char *)at;
}

static bool holds(const char *at, char wanted)
{
	for (uint64_t i = 0; i < SIZE; i++) {
		if (at[i] != wanted)
			return false;
	}
	return at[SIZE] == 'a';
}

static int refuse(struct gck_cuda_mmap_target *s, int fd, int64_t offset)
{
	(void)s;
	(void)fd;
	(void)offset;
	return ETIMEDOUT;
}

static int exchange(struct gck_cuda_mmap_target *s, int fd, int64_t offset)
{
	void *at = (void *)(uintptr_t)s->base;

	return mmap(at, s->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) == at
		       ? 0
		       : errno;
}

static bool gone;

static CUresult come(char *at, int (*map)(struct gck_cuda_mmap_target *s, int fd, int64_t offset))
{
	struct gck_cuda_mmap_target s = {.base = (uintptr_t)at,
					 .size = SIZE,
					 .coming = true,
					 .map = map};
	CUdeviceptr got = 0;
	CUresult rc;

	gck_cuda_mmap_hook_set(&s);
	rc = allocate(&got, SIZE, CU_MEM_ATTACH_GLOBAL);
	gck_cuda_mmap_hook_set(NULL);
	gone = s.gone;
	return rc ? rc : got == (uintptr_t)at ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static bool is_mapped(char *at)
{
	return msync(at, 4096, MS_ASYNC) == 0;
}

/* The driver cannot make its file, whose size is the address: the reservation ends, once. */
static void new_memory(void)
{
	struct rlimit before, little = {1 << 30, 0};
	char *at = place();

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	little.rlim_max = before.rlim_max;
	setrlimit(RLIMIT_FSIZE, &little);
	is_int(come(at, NULL), CUDA_ERROR_OUT_OF_MEMORY, "the driver cannot make managed memory");
	setrlimit(RLIMIT_FSIZE, &before);
	ok(all_of(gone, !is_mapped(at), is_mapped(at + SIZE)),
	   "its addresses are free, and the owner is told once");
	at = place();
	is_int(come(at, NULL), CUDA_SUCCESS, "the driver makes managed memory");
	ok(all_of(!gone, holds(at, 0)), "the memory is there, and its addresses stay reserved");
}

/* The MiB of all mappings that shall have large pages. */
static long large_mib(void)
{
	char line[4352];
	long kib = 0, sum = 0;
	FILE *f = fopen("/proc/self/smaps", "re");

	while (f && fgets(line, sizeof line, f)) {
		sscanf(line, "Size: %ld kB", &kib);
		if (!strncmp(line, "VmFlags:", 8) && strstr(line, " hg"))
			sum += kib;
	}
	if (f)
		fclose(f);
	return sum >> 10;
}

/* The MiB of large pages in which the driver saves what is its own; -1: it fails. */
static long saved_in_large_pages(bool prefault)
{
	CUresult (*call[4])(int pid, void *arguments);
	static const char *const names[] = {"cuCheckpointProcessLock",
					    "cuCheckpointProcessCheckpoint",
					    "cuCheckpointProcessRestore",
					    "cuCheckpointProcessUnlock"};
	long saved;
	bool failed;

	for (int i = 0; i < 4; i++)
		*(void **)&call[i] = dlsym(driver, names[i]);
	failed = call[0](getpid(), NULL);
	gck_cuda_mmap_hook_prefault(prefault);
	failed |= call[1](getpid(), NULL);
	gck_cuda_mmap_hook_prefault(false);
	saved = large_mib();
	failed |= call[2](getpid(), NULL) || call[3](getpid(), NULL);
	return failed ? -1 : saved;
}

/* The library's table of functions is read-only, and its program headers are found though it is in
 * another link namespace. */
static bool hooked_elsewhere(void)
{
	void *other = dlmopen(LM_ID_NEWLM, GCK_TEST_DRIVER, RTLD_NOW);

	return other && gck_cuda_got_hook(other, "getpid", (void *)getppid) == 1;
}

int main(void)
{
	char *at;

	ok(begin(), "the driver's calls of mmap are hooked");
	is_int(saved_in_large_pages(false), 0, "the driver saves what is its own in small pages");
	is_int(saved_in_large_pages(true), FAKE_OWN_MIB, "in large ones where it is to be fast");
	at = place();
	is_int(come(at, refuse), CUDA_ERROR_OUT_OF_MEMORY,
	       "the driver's call fails when the swap is refused");
	ok(holds(at, 'a'), "the program's memory is unchanged");
	is_int(come(at, exchange), CUDA_SUCCESS, "the next call succeeds");
	ok(holds(at, 0), "the driver's memory is there, and memory behind it is unchanged");
	new_memory();
	ok(hooked_elsewhere(), "a library in another link namespace is hooked");
	return tap_done();
}

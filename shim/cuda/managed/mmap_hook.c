/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/managed/mmap_hook.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "shim/cuda/base/obstacles.h"
#include "shim/cuda/dispatch/dispatch.h"
#include "shim/cuda/dispatch/load.h"
#include "shim/cuda/gate/prefault.h"

#define PAGE 4096
/* Addresses that the driver chooses are far below. Those that libc chooses are near 1 << 47,
 * with `ulimit -s unlimited` near a sixth of that, in the kernel's old layout above a third. */
#define LIBC_CHOSE (1ull << 44)

static __thread struct gck_cuda_mmap_target *target __attribute__((tls_model("initial-exec")));
static bool hooked;
static atomic_bool prefaults;
static void *(*next_mmap)(void *at, size_t size, int prot, int flags, int fd, off_t offset);
static int (*next_munmap)(void *at, size_t size);

/* ---- memory that the driver maps ------------------------------------------------------------ */

/* Not by the library's own function: in a link namespace that lists what images leave out, but what
 * is at this address always has to be in them. */
static void *map_there(struct gck_cuda_mmap_target *s, int prot, int flags, int fd, int64_t offset)
{
	void *at = (void *)(uintptr_t)s->base;
	int error = s->map ? s->map(s, fd, offset) : 0;

	s->done = error == 0;
	if (!s->map)
		return mmap(at, s->size, prot, flags, fd, offset);
	errno = error;
	return error ? MAP_FAILED : at;
}

/* Until the swap is made the program's memory is there: a driver whose call fails must not unmap
 * it. */
static bool is_still_ours(const struct gck_cuda_mmap_target *s, const void *at)
{
	return s->granted && s->map && !s->done && (uintptr_t)at - s->base < s->size;
}

/* The driver reserved more than the arena to align in; that part never existed. */
static int munmap_coming(struct gck_cuda_mmap_target *s, void *at, size_t size)
{
	uintptr_t from = (uintptr_t)at - s->base;

	if (!s->granted || from > s->size)
		return next_munmap(at, size);
	if (from == s->size || is_still_ours(s, at))
		return 0;
	s->gone |= from == 0;
	return next_munmap(at, size < s->size - from ? size : s->size - from);
}

static void *mmap_coming(struct gck_cuda_mmap_target *s, void *at, size_t size, int prot, int flags,
			 int fd, off_t offset)
{
	if (!at && prot == PROT_NONE && !s->granted &&
	    size == s->size + GCK_CUDA_MANAGED_UNIT - PAGE) {
		s->granted = true;
		return (void *)(uintptr_t)s->base;
	}
	if (s->granted && fd >= 0 && (uintptr_t)at == s->base && size == s->size)
		return map_there(s, prot, flags, fd, offset);
	if (is_still_ours(s, at) && prot == PROT_NONE)
		return at;
	return next_mmap(at, size, prot, flags, fd, offset);
}

/* ---- managed memory that we did not ask for ------------------------------------------------- */

/* The driver maps that device for other purposes, too, at addresses of its own choice. */
static bool is_managed(const void *at, int flags, int fd, off_t offset)
{
	return fd >= 0 && flags & MAP_FIXED && flags & MAP_SHARED && (uintptr_t)at >= LIBC_CHOSE &&
	       (uintptr_t)offset == (uintptr_t)at;
}

static void *mmap_anywhere(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	void *got = next_mmap(at, size, prot, flags, fd, offset);

	if (got != MAP_FAILED && is_managed(at, flags, fd, offset))
		gck_cuda_obstacle_add_once(GCK_CUDA_MANAGED_VARIABLE, (uintptr_t)at);
	else if (got != MAP_FAILED && prot == PROT_NONE && flags & MAP_FIXED)
		gck_cuda_obstacle_remove(GCK_CUDA_MANAGED_VARIABLE, (uintptr_t)at);
	return got;
}

/* ---- memory for what the driver saves -------------------------------------------------------- */

#define LARGE ((size_t)2 << 20)

static bool wants_pages(const void *at, size_t size, int prot, int flags)
{
	const int wanted = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;

	return !at && size >= LARGE && prot == (PROT_READ | PROT_WRITE) &&
	       (flags & wanted) == wanted;
}

static void *mmap_prefaulted(size_t size)
{
	void *at = gck_cuda_prefault_new(size);

	if (!at)
		return MAP_FAILED;
	gck_cuda_prefault(at, size, INT64_MAX);
	return at;
}

void gck_cuda_mmap_hook_prefault(bool on)
{
	prefaults = on;
}

/* ---- calls of the driver's library ---------------------------------------------------------- */

static void *hooked_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	struct gck_cuda_mmap_target *s = target;

	if (prefaults && wants_pages(at, size, prot, flags))
		return mmap_prefaulted(size);
	if (!s)
		return mmap_anywhere(at, size, prot, flags, fd, offset);
	if (s->coming)
		return mmap_coming(s, at, size, prot, flags, fd, offset);
	if ((uintptr_t)at != s->base || size != s->size || prot != PROT_NONE ||
	    !(flags & MAP_FIXED))
		return next_mmap(at, size, prot, flags, fd, offset);
	s->done = true;
	return at;
}

static int hooked_munmap(void *at, size_t size)
{
	struct gck_cuda_mmap_target *s = target;

	if (s && s->coming)
		return munmap_coming(s, at, size);
	if (s && s->done && (uintptr_t)at == s->base && size == s->size)
		return 0;
	return next_munmap(at, size);
}

/* ---- hooks ---------------------------------------------------------------------------------- */

void gck_cuda_mmap_hook_begin(void)
{
	void *driver = gck_cuda_handle();

	if (!driver)
		return;
	*(void **)&next_mmap = gck_cuda_got_find(driver, "mmap");
	*(void **)&next_munmap = gck_cuda_got_find(driver, "munmap");
	hooked = gck_cuda_got_hook(driver, "mmap", (void *)hooked_mmap) &&
		 gck_cuda_got_hook(driver, "munmap", (void *)hooked_munmap);
	if (hooked)
		gck_cuda_got_hook(driver, "mmap64", (void *)hooked_mmap);
}

bool gck_cuda_mmap_hook_works(void)
{
	return hooked;
}

void gck_cuda_mmap_hook_set(struct gck_cuda_mmap_target *s)
{
	target = s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/apart/apart.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/cuda/dispatch/load.h"
#include "shim/inside/gate.h"

static char library_path[PATH_MAX];

static int find(char *path, size_t size, struct gck_error *err)
{
	if (strlen(library_path) >= size)
		return gck_fail(err, ENAMETOOLONG, "the path %s is too long", library_path);
	strcpy(path, library_path);
	return 0;
}

static const struct gck_namespace_library library = {
	.name = "CUDA driver library",
	.remedy = "install NVIDIA's driver, or name its library in " GCK_CUDA_LIBRARY_VARIABLE,
	.without = "cuda=image",
	.find = find,
};

static void enter_end(void)
{
	gck_gate_enter("the end of a thread", 0);
}

static const struct gck_namespace_guard guard = {
	.enter = enter_end, .leave = gck_gate_leave, .gone = gck_gate_thread_gone,
};

void *gck_cuda_apart_load(const char *path, struct gck_ns_exclusions *owned, struct gck_error *err)
{
	if (strlen(path) >= sizeof library_path) {
		gck_fail(err, ENAMETOOLONG, "the path %s is too long", path);
		return NULL;
	}
	memmove(library_path, path, strlen(path) + 1);
	gck_namespace_guard_by(&guard);
	if (gck_namespace_load(&library, owned, err))
		return NULL;
	gck_cuda_apart_steer(gck_namespace.handle);
	gck_cuda_apart_handlers_lead(gck_namespace.handle);
	gck_cuda_apart_process_lead(gck_namespace.handle);
	gck_gate_each_thread(gck_namespace_adopt);
	return gck_namespace.handle;
}

/* ---- the dead copy --------------------------------------------------------------------------- */

#define CHUNK (2ul << 20)

/* By chunks: a mapping of the program may have come to be there since the restart, and keeps its
 * addresses from the next heap as well. */
static int reserve(struct gck_ns_range heap, struct gck_error *err)
{
	for (uint64_t at = heap.start, end = at + heap.length; at < end; at += CHUNK) {
		size_t n = end - at < CHUNK ? end - at : CHUNK;

		if (mmap((void *)at, n, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
			 0) == MAP_FAILED && errno != EEXIST)
			return gck_fail(err, errno, "cannot keep the addresses of the handles of "
					"the dead %s: %s", library.name, strerror(errno));
	}
	return 0;
}

int gck_cuda_apart_discard(struct gck_error *err)
{
	struct gck_ns_range heap = {0};

	if (gck_namespace.root)
		heap = gck_namespace.root->heap;
	gck_cuda_apart_handlers_forget();
	return gck_namespace_discard(err) || reserve(heap, err) ? -1 : 0;
}

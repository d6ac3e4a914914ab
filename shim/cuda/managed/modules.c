/* SPDX-License-Identifier: Apache-2.0
 * Modules and libraries. The driver saves them, except those with a __managed__ variable. Such a
 * variable shows when the driver maps memory for it (mmap_hook.c), or when the program, or
 * libcudart for it, asks for its address, which may load the module first. */
#include <pthread.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/follow.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gck_cuda_handle_map modules; /* modules of libraries, one for each context: the
					    * library, which unloads them */

static bool is_managed(CUdeviceptr address)
{
	unsigned int managed = 0;

	return gck_cuda_real.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
						   address) == CUDA_SUCCESS &&
	       managed;
}

static void note(const void *of)
{
	uint64_t handle = (uint64_t)(uintptr_t)of;
	const uint64_t *library;

	pthread_mutex_lock(&lock);
	library = gck_cuda_handle_map_get(&modules, handle);
	if (library)
		handle = *library;
	pthread_mutex_unlock(&lock);
	gck_cuda_obstacle_add_once(GCK_CUDA_MANAGED_VARIABLE, handle);
}

/* ---- libraries' modules --------------------------------------------------------------------- */

GCK_CUDA_FUNCTION(cuLibraryGetModule, (CUmodule *module, CUlibrary library))
{
	uint64_t *place;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY(rc, gck_cuda_real.cuLibraryGetModule(module, library));
	if (rc == CUDA_SUCCESS) {
		pthread_mutex_lock(&lock);
		place = gck_cuda_handle_map_put(&modules, (uint64_t)(uintptr_t)*module);
		if (place)
			*place = (uint64_t)(uintptr_t)library;
		pthread_mutex_unlock(&lock);
	}
	GCK_CUDA_LEAVE();
	return rc;
}

static void forget(CUlibrary library)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < modules.capacity;) {
		const struct gck_cuda_entry *e = &modules.entries[i];

		if (e->handle && e->value == (uint64_t)(uintptr_t)library)
			/* another entry may have moved here */
			gck_cuda_handle_map_drop(&modules, e->handle);
		else
			i++;
	}
	pthread_mutex_unlock(&lock);
}

/* Forget it first: the next module may have the same handle. */
GCK_CUDA_FUNCTION(cuLibraryUnload, (CUlibrary library))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	gck_cuda_follow_unload(NULL, library);
	forget(library);
	rc = gck_cuda_real.cuLibraryUnload(library);
	if (rc == CUDA_SUCCESS)
		gck_cuda_obstacle_remove(GCK_CUDA_MANAGED_VARIABLE, (uint64_t)(uintptr_t)library);
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- their variables ------------------------------------------------------------------------ */

GCK_CUDA_FUNCTION(cuLibraryGetManaged, (CUdeviceptr *address, size_t *size, CUlibrary library,
					const char *name))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY(rc, gck_cuda_real.cuLibraryGetManaged(address, size, library, name));
	if (rc == CUDA_SUCCESS)
		note(library);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuModuleGetGlobal, (CUdeviceptr_v1 *address, unsigned int *size, CUmodule module,
				      const char *name))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY(rc, gck_cuda_real.cuModuleGetGlobal(address, size, module, name));
	if (rc == CUDA_SUCCESS && address && is_managed(*address))
		note(module);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuModuleGetGlobal_v2, (CUdeviceptr *address, size_t *size, CUmodule module,
					 const char *name))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY(rc, gck_cuda_real.cuModuleGetGlobal_v2(address, size, module, name));
	if (rc == CUDA_SUCCESS && address && is_managed(*address))
		note(module);
	GCK_CUDA_LEAVE();
	return rc;
}

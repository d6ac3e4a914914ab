/* SPDX-License-Identifier: Apache-2.0
 * Modules and libraries: the driver carries them, but none that has a __managed__ variable. One shows
 * when the driver maps memory for it (steer.c), or when the program, or libcudart on its behalf, asks for
 * its address. That may load it first. */
#include "shim/cuda/function.h"
#include "shim/cuda/standing.h"

static bool is_managed(CUdeviceptr address)
{
	unsigned int managed = 0;

	return gck_cuda_real.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address)
	       == CUDA_SUCCESS && managed;
}

static void note(const void *of)
{
	gck_cuda_alive_once(GCK_CUDA_MANAGED_VARIABLE, (uint64_t)(uintptr_t)of);
}

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

/* SPDX-License-Identifier: Apache-2.0
 * Modules and libraries of the program. */
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/points/launch.h"
#include "shim/cuda/points/rewrite.h"

/* The values of a call's options for the JIT compiler, some of which it changes. */
#define VALUES_MOST 64

struct values {
	void **at, *kept[VALUES_MOST];
	unsigned n;
};

static bool keep(struct values *v, void **at, unsigned n)
{
	if (n > VALUES_MOST || (n && !at))
		return false;
	v->at = at;
	v->n = n;
	for (unsigned i = 0; i < n; i++)
		v->kept[i] = at[i];
	return true;
}

static void put_back(const struct values *v)
{
	for (unsigned i = 0; i < v->n; i++)
		v->at[i] = v->kept[i];
}

/* The options of a library, without the one by which the driver would not copy its image: what is
 * made of it is freed. */
#define LIBRARY_OPTIONS_MOST 16

struct library_options {
	CUlibraryOption at[LIBRARY_OPTIONS_MOST];
	void *values[LIBRARY_OPTIONS_MOST];
	unsigned n;
};

static bool keep_options(struct library_options *o, const CUlibraryOption *at, void **values,
			 unsigned n)
{
	if (n > LIBRARY_OPTIONS_MOST || (n && !(at && values)))
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (at[i] == CU_LIBRARY_BINARY_IS_PRESERVED)
			continue;
		o->at[o->n] = at[i];
		o->values[o->n++] = values[i];
	}
	return true;
}

/* Loads what was made, or what the program gave if nothing was or the driver does not take it. */
#define LOAD(rc, made, given_values, with_points, plain) \
	do { \
		CUresult refused = CUDA_SUCCESS; \
		if (made) \
			GCK_CUDA_TRY(refused, with_points); \
		(rc) = refused; \
		if (!(made) || refused) { \
			put_back(given_values); \
			GCK_CUDA_TRY(rc, plain); \
			if (refused && !(rc)) \
				gck_cuda_points_not_taken(refused); \
		} \
		free(made); \
	} while (0)

/* ---- modules -------------------------------------------------------------------------------- */

#define LOADS_MODULE(made, given_values, with_points, plain) \
	do { \
		CUresult rc; \
		GCK_CUDA_ENTER(0); \
		LOAD(rc, made, given_values, with_points, plain); \
		if (rc == CUDA_SUCCESS) \
			gck_cuda_points_module(*module); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	} while (0)

GCK_CUDA_FUNCTION(cuModuleLoadData, (CUmodule *module, const void *image))
{
	const struct values v = {.n = 0};
	char *made = gck_cuda_with_points(image, SIZE_MAX);

	LOADS_MODULE(made, &v, gck_cuda_real.cuModuleLoadData(module, made),
		     gck_cuda_real.cuModuleLoadData(module, image));
}

GCK_CUDA_FUNCTION(cuModuleLoadDataEx, (CUmodule *module, const void *image, unsigned int n,
				       CUjit_option *options, void **values))
{
	struct values v = {.n = 0};
	char *made = keep(&v, values, n) ? gck_cuda_with_points(image, SIZE_MAX) : NULL;

	LOADS_MODULE(made, &v,
		     gck_cuda_real.cuModuleLoadDataEx(module, made, n, options, values),
		     gck_cuda_real.cuModuleLoadDataEx(module, image, n, options, values));
}

GCK_CUDA_FUNCTION(cuModuleLoadFatBinary, (CUmodule *module, const void *image))
{
	const struct values v = {.n = 0};
	char *made = gck_cuda_with_points(image, SIZE_MAX);

	LOADS_MODULE(made, &v, gck_cuda_real.cuModuleLoadData(module, made),
		     gck_cuda_real.cuModuleLoadFatBinary(module, image));
}

GCK_CUDA_FUNCTION(cuModuleLoad, (CUmodule *module, const char *path))
{
	const struct values v = {.n = 0};
	char *made = gck_cuda_file_with_points(path);

	LOADS_MODULE(made, &v, gck_cuda_real.cuModuleLoadData(module, made),
		     gck_cuda_real.cuModuleLoad(module, path));
}

/* ---- libraries ------------------------------------------------------------------------------ */

#define LIBRARY_PARAMETERS \
	CUjit_option *options, void **values, unsigned int n, CUlibraryOption *of_library, \
		void **of_library_values, unsigned int n_of_library

#define LOADS_LIBRARY(make, plain) \
	do { \
		struct library_options o = {.n = 0}; \
		struct values v = {.n = 0}; \
		char *made = keep(&v, values, n) && \
			     keep_options(&o, of_library, of_library_values, n_of_library) \
			     ? (make) : NULL; \
		CUresult rc; \
		GCK_CUDA_ENTER(0); \
		LOAD(rc, made, &v, \
		     gck_cuda_real.cuLibraryLoadData(library, made, options, values, n, o.at, \
						     o.values, o.n), plain); \
		if (rc == CUDA_SUCCESS) \
			gck_cuda_points_library(*library); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	} while (0)

GCK_CUDA_FUNCTION(cuLibraryLoadData,
		  (CUlibrary *library, const void *code, LIBRARY_PARAMETERS))
{
	LOADS_LIBRARY(gck_cuda_with_points(code, SIZE_MAX),
		      gck_cuda_real.cuLibraryLoadData(library, code, options, values, n,
						      of_library, of_library_values,
						      n_of_library));
}

GCK_CUDA_FUNCTION(cuLibraryLoadFromFile,
		  (CUlibrary *library, const char *path, LIBRARY_PARAMETERS))
{
	LOADS_LIBRARY(gck_cuda_file_with_points(path),
		      gck_cuda_real.cuLibraryLoadFromFile(library, path, options, values, n,
							  of_library, of_library_values,
							  n_of_library));
}

/* ---- the linker: its module is loaded as another one is ------------------------------------- */

static bool may_be_ptx(CUjitInputType type)
{
	return type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_FATBINARY;
}

#define ADDS(made, add_data, name, plain) \
	do { \
		CUresult rc; \
		GCK_CUDA_ENTER(0); \
		LOAD(rc, made, &v, \
		     gck_cuda_real.add_data(state, CU_JIT_INPUT_PTX, made, strlen(made) + 1, name, \
					    n, options, values), plain); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	} while (0)

#define ADDS_DATA(function) \
	GCK_CUDA_FUNCTION(function, (CUlinkState state, CUjitInputType type, void *data, \
				     size_t size, const char *name, unsigned int n, \
				     CUjit_option *options, void **values)) \
	{ \
		struct values v = {.n = 0}; \
		char *made = may_be_ptx(type) && keep(&v, values, n) \
			     ? gck_cuda_with_points(data, size) : NULL; \
		ADDS(made, function, name, \
		     gck_cuda_real.function(state, type, data, size, name, n, options, values)); \
	}
ADDS_DATA(cuLinkAddData)
ADDS_DATA(cuLinkAddData_v2)

#define ADDS_FILE(function, add_data) \
	GCK_CUDA_FUNCTION(function, (CUlinkState state, CUjitInputType type, const char *path, \
				     unsigned int n, CUjit_option *options, void **values)) \
	{ \
		struct values v = {.n = 0}; \
		char *made = may_be_ptx(type) && keep(&v, values, n) \
			     ? gck_cuda_file_with_points(path) : NULL; \
		ADDS(made, add_data, path, \
		     gck_cuda_real.function(state, type, path, n, options, values)); \
	}
ADDS_FILE(cuLinkAddFile, cuLinkAddData)
ADDS_FILE(cuLinkAddFile_v2, cuLinkAddData_v2)

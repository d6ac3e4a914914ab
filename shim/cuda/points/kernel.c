/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/points/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/allocation/allocate.h"
#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/dispatch/function.h"

#define NONE 1 /* in the map: a function without points */
#define SAVES_DYNAMIC 1 /* of the variable's last word */
#define HAS_GRID 2
#define SLOTS_SIZE ((uint64_t)64 << 20)  /* for more than one slot */

static struct gck_pointed_kernel *kernels;
static struct {
	CUcontext context;
	struct gck_cuda_handle_map map; /* function: its kernel, or NONE */
} known;

/* ---- finding -------------------------------------------------------------------------------- */

/* What the driver knows of the function, which is a CUfunction or a CUkernel. */
struct source {
	CUmodule module;
	CUlibrary library;
	const char *name;
};

static bool identify(CUfunction function, struct source *s)
{
	*s = (struct source){ 0 };
	if (gck_cuda_has((void *)gck_cuda_real.cuFuncGetName) &&
	    !gck_cuda_real.cuFuncGetName(&s->name, function))
		return !gck_cuda_real.cuFuncGetModule(&s->module, function);
	return gck_cuda_has((void *)gck_cuda_real.cuKernelGetLibrary) &&
	       !gck_cuda_real.cuKernelGetName(&s->name, (CUkernel)function) &&
	       !gck_cuda_real.cuKernelGetLibrary(&s->library, (CUkernel)function);
}

static CUdeviceptr variable_of(const struct source *s)
{
	char *name = NULL;
	CUdeviceptr at = 0;
	size_t size = 0;
	CUresult rc;

	if (asprintf(&name, "%s$ckpt", s->name) < 0)
		return 0;
	rc = s->library ? gck_cuda_real.cuLibraryGetGlobal(&at, &size, s->library, name)
			: gck_cuda_real.cuModuleGetGlobal_v2(&at, &size, s->module, name);
	free(name);
	return rc ? 0 : at;
}

static CUresult parameter(const struct source *s, CUfunction function, size_t i, size_t *size)
{
	size_t offset;

	return s->library ? gck_cuda_real.cuKernelGetParamInfo((CUkernel)function, i, &offset, size)
			  : gck_cuda_real.cuFuncGetParamInfo(function, i, &offset, size);
}

/* The parameters' sizes. False: there are too many, or the driver does not tell them. */
static bool measure(struct gck_pointed_kernel *k, const struct source *s, CUfunction function)
{
	size_t size;

	if (!gck_cuda_has(s->library ? (void *)gck_cuda_real.cuKernelGetParamInfo
				     : (void *)gck_cuda_real.cuFuncGetParamInfo))
		return false;
	while (!parameter(s, function, k->n_parameters, &size)) {
		if (k->n_parameters == GCK_POINTS_PARAMETERS)
			return false;
		k->size[k->n_parameters++] = size;
	}
	return true;
}

static struct gck_pointed_kernel *make(const struct source *s, CUfunction function,
				       CUdeviceptr variable, CUstream beside)
{
	struct gck_pointed_kernel *k = calloc(1, sizeof *k);
	uint64_t words[6];

	if (!k)
		return NULL;
	if (gck_cuda_real.cuMemcpyDtoHAsync_v2(words, variable, sizeof words, beside) ||
	    gck_cuda_real.cuStreamSynchronize(beside)) {
		free(k);
		return NULL;
	}
	k->context = known.context;
	k->variable = variable;
	k->module = s->module;
	k->library = s->library;
	k->record = words[3];
	k->shared = words[4];
	k->saves_dynamic = words[5] & SAVES_DYNAMIC;
	k->has_grid = words[5] & HAS_GRID;
	memcpy(k->written, words, sizeof k->written);
	k->is_off = !measure(k, s, function);
	k->next = kernels;
	return kernels = k;
}

static struct gck_pointed_kernel *look_up(CUfunction function, CUstream beside)
{
	struct gck_pointed_kernel *k = kernels;
	struct source source;
	CUdeviceptr variable;

	if (!identify(function, &source))
		return NULL;
	variable = variable_of(&source);
	if (!variable)
		return NULL;
	while (k && k->variable != variable)
		k = k->next;
	return k ? k : make(&source, function, variable, beside);
}

/* No launch has them, so this waits for nothing. */
static void free_records(struct gck_pointed_kernel *k)
{
	struct gck_cuda_allocation a;

	if (k->records && gck_cuda_allocation_find(k->records, &a) &&
	    gck_cuda_allocation_give_now(&a) == CUDA_SUCCESS)
		k->records = 0;
	k->slot_size = 0;
}

static void forget_functions(void)
{
	free(known.map.entries);
	known.map = (struct gck_cuda_handle_map){ 0 };
}

struct gck_pointed_kernel *gck_pointed_find(CUfunction function, CUcontext context,
					    CUstream beside)
{
	struct gck_pointed_kernel *k;
	uint64_t *at;

	if (known.context != context) {
		forget_functions();
		known.context = context;
	}
	at = gck_cuda_handle_map_get(&known.map, (uint64_t)(uintptr_t)function);
	if (at)
		return *at == NONE ? NULL : (struct gck_pointed_kernel *)(uintptr_t)*at;
	k = look_up(function, beside);
	at = gck_cuda_handle_map_put(&known.map, (uint64_t)(uintptr_t)function);
	if (at)
		*at = k ? (uint64_t)(uintptr_t)k : NONE;
	return k;
}

void gck_pointed_forget(CUmodule module, CUlibrary library, CUcontext context)
{
	forget_functions();
	for (struct gck_pointed_kernel **at = &kernels; *at;) {
		struct gck_pointed_kernel *k = *at;

		if ((module && k->module == module) || (library && k->library == library) ||
		    (context && k->context == context)) {
			*at = k->next;
			if (!context)
				free_records(k);
			free(k);
		} else {
			at = &k->next;
		}
	}
}

/* ---- records -------------------------------------------------------------------------------- */

static uint64_t rounded(uint64_t size)
{
	return (size + 15) / 16 * 16;
}

uint64_t gck_pointed_size(const struct gck_pointed_kernel *k, uint64_t blocks, uint64_t threads,
			  uint64_t dynamic)
{
	return blocks * (GCK_POINTS_HEAD + k->shared + (k->saves_dynamic ? rounded(dynamic) : 0) +
			 rounded(k->record * threads));
}

CUresult gck_pointed_reserve(struct gck_pointed_kernel *k, size_t size)
{
	unsigned n = SLOTS_SIZE / size;
	CUresult rc;

	if (size <= k->slot_size)
		return CUDA_SUCCESS;
	free_records(k);
	n = n < 1 ? 1 : n > GCK_POINTS_SLOTS ? GCK_POINTS_SLOTS : n;
	rc = cuMemAlloc_v2(&k->records, n * size);
	if (rc)
		return rc;
	k->slot_size = size;
	k->n_slots = n;
	k->next_slot = 0;
	memset(k->is_used, true, sizeof k->is_used);
	return CUDA_SUCCESS;
}

CUresult gck_pointed_write(struct gck_pointed_kernel *k, CUstream stream,
			   const uint64_t words[GCK_POINTS_WORDS])
{
	CUresult rc = CUDA_SUCCESS;

	for (unsigned i = 0; i < GCK_POINTS_WORDS && !rc; i++)
		if (k->written[i] != words[i]) {
			rc = gck_cuda_real.cuStreamWriteValue64_v2(stream, k->variable + 8 * i,
								   words[i], 0);
			if (!rc)
				k->written[i] = words[i];
		}
	return rc;
}

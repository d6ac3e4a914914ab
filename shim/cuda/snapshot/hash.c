/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/snapshot/hash.h"

#include "shim/cuda/gate/context.h"
#include "shim/cuda/real.h"

/* ---- the kernel ----------------------------------------------------------------------------- */

#define LANES 8     /* threads for each chunk (hash.cu) */
#define THREADS 256 /* in a block */

/* hash.cu for any device: the driver compiles it. */
static const char ptx[] =
#include "shim/cuda/hash_ptx.h"
;

uint64_t gck_cuda_hash_chunks(uint64_t address, uint64_t size)
{
	const uint64_t chunk = GCK_CUDA_HASH_CHUNK;

	return size ? (address + size - 1) / chunk - address / chunk + 1 : 0;
}

static void hash_end(struct gck_cuda_hash_module *h)
{
	if (h->module)
		gck_cuda_real.cuModuleUnload(h->module);
	h->module = NULL;
}

/* Load the kernel into the current context. The driver saves the module at a checkpoint as it
 * does the program's. */
static int hash_begin(struct gck_cuda_hash_module *h, struct gck_error *err)
{
	CUresult rc = gck_cuda_real.cuModuleLoadData(&h->module, ptx);

	if (rc) {
		h->module = NULL;
		return gck_cuda_fail(err, "cuModuleLoadData", rc);
	}
	rc = gck_cuda_real.cuModuleGetFunction(&h->kernel, h->module, "gck_hash_kernel");
	if (rc == CUDA_SUCCESS)
		return 0;
	hash_end(h);
	return gck_cuda_fail(err, "cuModuleGetFunction", rc);
}

int gck_cuda_hash(const struct gck_cuda_hash_module *h, CUstream stream, CUdeviceptr address,
		  uint64_t size, CUdeviceptr out, struct gck_error *err)
{
	uint64_t n = gck_cuda_hash_chunks(address, size), to = out;
	void *arguments[] = {&address, &size, &to};
	unsigned blocks = (unsigned)((n * LANES + THREADS - 1) / THREADS);
	CUresult rc;

	if (!n)
		return 0;
	rc = gck_cuda_real.cuLaunchKernel(h->kernel, blocks, 1, 1, THREADS, 1, 1, 0, stream,
					  arguments, NULL);
	return rc ? gck_cuda_fail(err, "cuLaunchKernel", rc) : 0;
}

/* ---- contexts that have the kernel ---------------------------------------------------------- */

#define CONTEXTS 64

static struct {
	CUcontext context; /* NULL: unused */
	struct gck_cuda_hash_module hasher;
} loaded[CONTEXTS];

static unsigned snapshots;

const struct gck_cuda_hash_module *gck_cuda_hash_module_of(CUcontext context)
{
	for (int i = 0; i < CONTEXTS; i++) {
		if (loaded[i].context == context)
			return &loaded[i].hasher;
	}
	return NULL;
}

void gck_cuda_hash_modules_forget(CUcontext context)
{
	for (int i = 0; i < CONTEXTS; i++) {
		if (loaded[i].context == context)
			loaded[i].context = NULL;
	}
}

static void load(CUcontext context)
{
	struct gck_cuda_hash_module hasher;
	int i = 0;

	while (i < CONTEXTS && loaded[i].context)
		i++;
	if (i == CONTEXTS || gck_cuda_real.cuCtxPushCurrent_v2(context))
		return;
	if (hash_begin(&hasher, NULL) == 0) {
		loaded[i].hasher = hasher;
		loaded[i].context = context;
	}
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
}

void gck_cuda_hash_modules_load(const struct gck_cuda_snapshot *s)
{
	if (!s->nblocks || !snapshots++)
		return;
	for (size_t i = 0; i < s->nshares; i++) {
		if (s->shares[i].size && !gck_cuda_hash_module_of(s->shares[i].context))
			load(s->shares[i].context);
	}
}

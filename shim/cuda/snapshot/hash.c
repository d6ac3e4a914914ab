/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/snapshot/hash.h"

#include "shim/cuda/gate/context.h"
#include "shim/cuda/real.h"

#define LANES 8     /* threads a window (hash.cu) */
#define THREADS 256 /* a block */

/* hash.cu for any device: the driver compiles it. */
static const char ptx[] =
#include "shim/cuda/hash_ptx.h"
;

uint64_t gck_cuda_hash_windows(uint64_t address, uint64_t size)
{
	const uint64_t window = GCK_CUDA_HASH_WINDOW;

	return size ? (address + size - 1) / window - address / window + 1 : 0;
}

int gck_cuda_hash_begin(struct gck_cuda_hasher *h, struct gck_error *err)
{
	CUresult rc = gck_cuda_real.cuModuleLoadData(&h->module, ptx);

	if (rc) {
		h->module = NULL;
		return gck_cuda_fail(err, "cuModuleLoadData", rc);
	}
	rc = gck_cuda_real.cuModuleGetFunction(&h->kernel, h->module, "gck_hash_kernel");
	if (rc == CUDA_SUCCESS)
		return 0;
	gck_cuda_hash_end(h);
	return gck_cuda_fail(err, "cuModuleGetFunction", rc);
}

void gck_cuda_hash_end(struct gck_cuda_hasher *h)
{
	if (h->module)
		gck_cuda_real.cuModuleUnload(h->module);
	h->module = NULL;
}

int gck_cuda_hash(const struct gck_cuda_hasher *h, CUstream stream, CUdeviceptr address, uint64_t size,
		  CUdeviceptr out, struct gck_error *err)
{
	uint64_t n = gck_cuda_hash_windows(address, size), to = out;
	void *arguments[] = {&address, &size, &to};
	unsigned blocks = (unsigned)((n * LANES + THREADS - 1) / THREADS);
	CUresult rc;

	if (!n)
		return 0;
	rc = gck_cuda_real.cuLaunchKernel(h->kernel, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments,
					  NULL);
	return rc ? gck_cuda_fail(err, "cuLaunchKernel", rc) : 0;
}

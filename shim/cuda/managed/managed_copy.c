/* SPDX-License-Identifier: Apache-2.0
 * Managed memory that the GPU has, copied by the GPU while the program's threads run. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/managed/managed_swap.h"

#define LOOK 512 /* pages */

/* What the CPU has is read there from now on. Otherwise the GPU would take pages along that it was not asked
 * for, beside those that it reads, and among them one that was copied, brought back and written: it would not be
 * the CPU's when the threads stand still, and the old copy be taken for its contents. */
static int keep_on_cpu(const struct gck_cuda_managed *m, struct gck_error *err)
{
	CUresult rc = gck_cuda_real.cuMemAdvise_v2(m->base, m->size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
						   (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST});

	return rc ? gck_cuda_fail(err, "cuMemAdvise", rc) : 0;
}

/* A copy by the GPU of a run of pages that the CPU has not. From the CPU's it would take them. */
static int copy_run(const struct gck_cuda_exchange *x, uint64_t from, uint64_t pages, CUstream stream,
		    struct gck_error *err)
{
	uint64_t size = pages * GCK_CUDA_PAGE;
	CUresult rc = gck_cuda_real.cuMemcpyDtoHAsync_v2(x->copy + from, x->arena->base + from, size,
							 stream);

	if (rc)
		return gck_cuda_fail(err, "copying managed memory", rc);
	memset(x->copied + from / GCK_CUDA_PAGE, 1, pages);
	return 0;
}

/* So that nothing has to be found while the program's threads stand still. */
static void populate(const struct gck_cuda_exchange *x, uint64_t from, uint64_t pages)
{
	madvise(x->copy + from, pages * GCK_CUDA_PAGE, MADV_POPULATE_WRITE);
}

/* Pages of one kind that follow each other. */
static int copy_looked_at(const struct gck_cuda_exchange *x, uint64_t at, const uint64_t *words,
			  uint64_t n, CUstream stream, struct gck_error *err)
{
	uint64_t run;
	int failed = 0;

	for (uint64_t i = 0; failed == 0 && i < n; i += run) {
		uint64_t from = at + i * GCK_CUDA_PAGE - x->arena->base;

		for (run = 1; i + run < n && GCK_CUDA_PRESENT(words[i + run]) == GCK_CUDA_PRESENT(words[i]);)
			run++;
		if (GCK_CUDA_PRESENT(words[i]))
			populate(x, from, run);
		else
			failed = copy_run(x, from, run, stream, err);
	}
	return failed;
}

static int copy_piece(const struct gck_cuda_exchange *x, const struct gck_cuda_piece *p, CUstream stream,
		      const struct gck_cuda_order *order, struct gck_error *err)
{
	uint64_t words[LOOK], end = p->base + p->size, n;

	for (uint64_t at = p->base; at < end; at += n * GCK_CUDA_PAGE) {
		long error;

		n = (end - at) / GCK_CUDA_PAGE < LOOK ? (end - at) / GCK_CUDA_PAGE : LOOK;
		error = gck_cuda_exchange_look(x, at, words, n);
		if (error)
			return gck_fail(err, (int)-error, "/proc/self/pagemap: %s", strerror((int)-error));
		if (copy_looked_at(x, at, words, n, stream, err))
			return -1;
		if (gck_cuda_now_ns() > order->end_ns)
			return gck_fail(err, ETIMEDOUT, "the time for the copy of managed memory is over: "
					"give hold= more");
	}
	return 0;
}

/* On a stream of our own: no default stream, which a capture of the program's may depend on. */
int gck_cuda_managed_copy(struct gck_cuda_exchange *x, const struct gck_cuda_order *order,
			  struct gck_error *err)
{
	CUstream stream;
	CUresult rc;
	int failed = 0;

	if (keep_on_cpu(x->arena, err))
		return -1;
	rc = gck_cuda_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	if (rc)
		return gck_cuda_fail(err, "cuStreamCreate", rc);
	for (size_t i = 0; failed == 0 && i < x->arena->pieces.n; i++) {
		if (x->arena->pieces.v[i].asked)
			failed = copy_piece(x, &x->arena->pieces.v[i], stream, order, err);
	}
	rc = gck_cuda_real.cuStreamSynchronize(stream);
	gck_cuda_real.cuStreamDestroy_v2(stream);
	return failed == 0 && rc ? gck_cuda_fail(err, "copying managed memory", rc) : failed;
}

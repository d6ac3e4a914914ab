/* SPDX-License-Identifier: Apache-2.0
 * Slabs at a checkpoint: their contents are copied to host memory, which becomes part of the image, and
 * the driver forgets them, so that it has little to save. Here they are mapped again as they are; in a
 * process made of the image there is new memory at their addresses, filled from the copy. */
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/cuda/context.h"
#include "shim/cuda/function.h"
#include "shim/cuda/part.h"
#include "shim/cuda/slab.h"

/* ---- copies --------------------------------------------------------------------------------- */

/* A stream of our own in some context of a device: no default stream, which a capture of the program's
 * may depend on. */
struct copier {
	CUcontext context;
	CUstream stream;
};

static int copier_begin(struct copier *c, CUdevice device, const struct gck_cuda_contexts *all,
			struct gck_error *err)
{
	CUresult rc;

	c->context = NULL;
	for (size_t i = 0; i < all->n && !c->context; i++)
		c->context = all->v[i].device == device ? all->v[i].context : NULL;
	if (!c->context)
		return gck_fail(err, EIO, "device %d has memory and no context", device);
	rc = gck_cuda_real.cuCtxPushCurrent_v2(c->context);
	if (rc)
		return gck_cuda_fail(err, "cuCtxPushCurrent", rc);
	rc = gck_cuda_real.cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING);
	if (!rc)
		return 0;
	gck_cuda_real.cuCtxPopCurrent_v2(&c->context);
	return gck_cuda_fail(err, "cuStreamCreate", rc);
}

static void copier_end(struct copier *c)
{
	gck_cuda_real.cuStreamDestroy_v2(c->stream);
	gck_cuda_real.cuCtxPopCurrent_v2(&c->context);
}

static CUresult copy_piece(const struct gck_cuda_slab *s, const struct gck_cuda_piece *p, bool out,
			   CUstream stream)
{
	char *host = (char *)s->host + (p->base - s->base);

	return out ? gck_cuda_real.cuMemcpyDtoHAsync_v2(host, p->base, p->asked, stream)
		   : gck_cuda_real.cuMemcpyHtoDAsync_v2(p->base, host, p->asked, stream);
}

/* What is taken of a slab, in either direction. */
static int copy(const struct gck_cuda_slab *s, bool out, const struct gck_cuda_contexts *all,
		struct gck_error *err)
{
	CUresult rc = CUDA_SUCCESS;
	struct copier c;

	if (gck_cuda_arena_is_empty(&s->arena))
		return 0;
	if (copier_begin(&c, s->device, all, err))
		return -1;
	for (size_t i = 0; rc == CUDA_SUCCESS && i < s->arena.n; i++) {
		if (s->arena.v[i].asked)
			rc = copy_piece(s, &s->arena.v[i], out, c.stream);
	}
	if (rc == CUDA_SUCCESS)
		rc = gck_cuda_real.cuStreamSynchronize(c.stream);
	copier_end(&c);
	return rc ? gck_cuda_fail(err, "copying device memory", rc) : 0;
}

static void drop_copy(struct gck_cuda_slab *s)
{
	if (s->host)
		munmap(s->host, s->size);
	s->host = NULL;
}

/* Memory that is not written is not there: only what is taken costs. */
static int make_copy(struct gck_cuda_slab *s, const struct gck_cuda_contexts *all,
		     struct gck_error *err)
{
	s->host = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);
	if (s->host == MAP_FAILED) {
		s->host = NULL;
		return gck_fail(err, ENOMEM, "no host memory for %llu MiB of the device's",
				(unsigned long long)s->size >> 20);
	}
	return copy(s, true, all, err);
}

/* ---- the part ------------------------------------------------------------------------------- */

static void release(uint64_t seq)
{
	(void)seq;
	for (size_t i = 0; i < gck_cuda_slabs.n; i++)
		drop_copy(gck_cuda_slabs.v[i]);
}

static int map_all(struct gck_error *err)
{
	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		struct gck_cuda_slab *s = gck_cuda_slabs.v[i];
		CUresult rc = s->mapped ? CUDA_SUCCESS : gck_cuda_slab_map(s);

		if (rc)
			return gck_cuda_fail(err, "mapping device memory again", rc);
	}
	return 0;
}

static int unmap_all(struct gck_error *err)
{
	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		CUresult rc = gck_cuda_slab_unmap(gck_cuda_slabs.v[i]);

		if (rc)
			return gck_cuda_fail(err, "unmapping device memory", rc);
	}
	return 0;
}

static int drain(const struct gck_cuda_order *order, struct gck_error *err)
{
	struct gck_cuda_contexts all;
	int failed = gck_cuda_contexts_take(&all, err);

	if (failed)
		return failed;
	for (size_t i = 0; failed == 0 && i < gck_cuda_slabs.n; i++)
		failed = make_copy(gck_cuda_slabs.v[i], &all, err);
	gck_cuda_contexts_give(&all);
	if (failed == 0)
		failed = unmap_all(err);
	if (failed) {
		release(order->seq);
		if (map_all(NULL))
			gck_fail_in(err, "and device memory is lost");
	}
	return failed;
}

static int fill_all(struct gck_error *err)
{
	struct gck_cuda_contexts all;
	CUresult rc = gck_cuda_slabs_renew();
	int failed;

	if (rc)
		return gck_cuda_fail(err, "device memory for what was in the image", rc);
	failed = gck_cuda_contexts_take(&all, err);
	if (failed)
		return failed;
	for (size_t i = 0; failed == 0 && i < gck_cuda_slabs.n; i++)
		failed = copy(gck_cuda_slabs.v[i], false, &all, err);
	gck_cuda_contexts_give(&all);
	return failed;
}

static int resume(bool restored, struct gck_error *err)
{
	return restored ? fill_all(err) : map_all(err);
}

const struct gck_cuda_part gck_cuda_memory_part = {
	.name = "memory", .drain = drain, .resume = resume, .release = release,
};

/* SPDX-License-Identifier: Apache-2.0
 * Slabs at a checkpoint: their contents are copied to host memory, which becomes part of the image, and
 * the driver forgets them, so that it has little to save. Here they are mapped again as they are; in a
 * process made of the image there is new memory at their addresses, filled from the copy. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/cuda/context.h"
#include "shim/cuda/function.h"
#include "shim/cuda/idle.h"
#include "shim/cuda/keep.h"
#include "shim/cuda/part.h"
#include "shim/cuda/slab.h"

#define AT_ONCE ((uint64_t)256 << 20) /* bytes between looks at the clock */

/* ---- copies --------------------------------------------------------------------------------- */

/* Copies between a device and the host, on a stream of our own in some context of it: no default
 * stream, which a capture of the program's may depend on. */
struct copier {
	CUcontext context;
	CUstream stream;
	bool out;
	int64_t end_ns;       /* out: by then all must be copied */
	uint64_t given;       /* bytes since it was waited for last */
};

static int copier_begin(struct copier *c, CUdevice device, const struct gck_cuda_contexts *all,
			struct gck_error *err)
{
	CUresult rc;

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

static int copier_wait(struct copier *c, struct gck_error *err)
{
	CUresult rc = gck_cuda_real.cuStreamSynchronize(c->stream);

	c->given = 0;
	if (rc)
		return gck_cuda_fail(err, "copying device memory", rc);
	if (c->out && gck_cuda_now_ns() > c->end_ns)
		return gck_fail(err, ETIMEDOUT, "the time for the copy of device memory to the host is "
				"over: give hold= more");
	return 0;
}

static int copy_piece(struct copier *c, const struct gck_cuda_slab *s, const struct gck_cuda_piece *p,
		      struct gck_error *err)
{
	uint64_t n;

	for (uint64_t at = p->base; at < p->base + p->asked; at += n) {
		char *host = (char *)s->host + (at - s->base);
		CUresult rc;

		n = p->base + p->asked - at;
		n = n < AT_ONCE ? n : AT_ONCE;
		rc = c->out ? gck_cuda_real.cuMemcpyDtoHAsync_v2(host, at, n, c->stream)
			    : gck_cuda_real.cuMemcpyHtoDAsync_v2(at, host, n, c->stream);
		if (rc)
			return gck_cuda_fail(err, "copying device memory", rc);
		c->given += n;
		if (c->given >= AT_ONCE && copier_wait(c, err))
			return -1;
	}
	return 0;
}

static bool is_of(const struct gck_cuda_slab *s, CUdevice device)
{
	return s->device == device && s->host;
}

static int copy_of_device(struct copier *c, CUdevice device, struct gck_error *err)
{
	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		const struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		for (size_t k = 0; is_of(s, device) && k < s->arena.n; k++) {
			if (s->arena.v[k].asked && copy_piece(c, s, &s->arena.v[k], err))
				return -1;
		}
	}
	return copier_wait(c, err);
}

static bool is_first_of_device(size_t i)
{
	CUdevice device = gck_cuda_slabs.v[i]->device;

	for (size_t k = 0; k < i; k++) {
		if (is_of(gck_cuda_slabs.v[k], device))
			return false;
	}
	return is_of(gck_cuda_slabs.v[i], device);
}

/* What is taken of slabs that have a copy, in either direction. */
static int copy_all(const struct gck_cuda_order *order, bool out, struct gck_error *err)
{
	int failed = 0;

	for (size_t i = 0; failed == 0 && i < gck_cuda_slabs.n; i++) {
		struct copier c = {.out = out, .end_ns = order->end_ns};

		if (!is_first_of_device(i))
			continue;
		failed = copier_begin(&c, gck_cuda_slabs.v[i]->device, &order->contexts, err);
		if (failed)
			break;
		failed = copy_of_device(&c, gck_cuda_slabs.v[i]->device, err);
		copier_end(&c);
	}
	return failed;
}

/* Memory that is not written is not there: only what is taken costs. */
static int provide_host(struct gck_error *err)
{
	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		if (gck_cuda_arena_is_empty(&s->arena))
			continue;
		s->host = mmap(NULL, s->size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (s->host != MAP_FAILED)
			continue;
		s->host = NULL;
		return gck_fail(err, ENOMEM, "no host memory for %llu MiB of the device's",
				(unsigned long long)s->size >> 20);
	}
	return 0;
}

/* ---- the part ------------------------------------------------------------------------------- */

/* Giving much memory back takes long: not under the lock. */
static void release(void)
{
	uint64_t size = 0;
	void *host;

	do {
		host = NULL;
		gck_cuda_slabs_lock();
		for (size_t i = 0; !host && i < gck_cuda_slabs.n; i++) {
			host = gck_cuda_slabs.v[i]->host;
			size = gck_cuda_slabs.v[i]->size;
			gck_cuda_slabs.v[i]->host = NULL;
		}
		gck_cuda_slabs_unlock();
		if (host)
			munmap(host, size);
	} while (host);
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

/* Nothing else keeps the memory once it is unmapped. */
static int check_kept(struct gck_error *err)
{
	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		int fd = gck_cuda_keep_get(gck_cuda_slabs.v[i]->serial);

		if (fd < 0)
			return gck_fail(err, EBADF, "the program has closed a socket of gpuckpt's that keeps "
					"device memory: it should close what it has opened alone");
		close(fd);
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
	if (check_kept(err) || provide_host(err) || copy_all(order, true, err))
		return -1;
	return unmap_all(err);
}

static int resume(const struct gck_cuda_order *order, bool restored, struct gck_error *err)
{
	CUresult rc;

	if (!restored)
		return map_all(err);
	rc = gck_cuda_slabs_renew();
	if (rc)
		return gck_cuda_fail(err, "device memory for what was in the image", rc);
	return copy_all(order, false, err);
}

const struct gck_cuda_part gck_cuda_memory_part = {
	.name = "memory", .drain = drain, .resume = resume, .release = release,
};

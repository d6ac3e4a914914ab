/* SPDX-License-Identifier: Apache-2.0
 * Managed memory at a checkpoint. The driver refuses a checkpoint while there is any, and the
 * program's threads use it on the CPU whatever the GPU does. So ordinary memory with the same
 * contents takes its place and goes into the image; afterwards it is swapped back. While the
 * threads run the GPU copies its own pages. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/cuda/base/participant.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/managed/advice.h"
#include "shim/cuda/managed/managed_swap.h"

/* ---- the GPU's pages, copied while the program runs ----------------------------------------- */

#define LOOK 512 /* pages */

/* Keep the CPU's pages on the CPU from now on. Otherwise the GPU would fetch pages besides those
 * that it reads, among them a page that was copied, fetched back by the CPU and written: it
 * would not be the CPU's when the threads are stopped, and its old copy would be taken for its
 * contents. */
static int keep_on_cpu(const struct gck_cuda_managed *m, struct gck_error *err)
{
	CUresult rc = gck_cuda_real.cuMemAdvise_v2(
		m->base, m->size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
		(CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST});

	return rc ? gck_cuda_fail(err, "cuMemAdvise", rc) : 0;
}

/* Let the GPU copy a run of its own pages. From pages of the CPU it would take them away. */
static int copy_run(const struct gck_cuda_managed_swap *x, uint64_t from, uint64_t pages,
		    CUstream stream, struct gck_error *err)
{
	uint64_t size = pages * GCK_CUDA_PAGE;
	CUresult rc = gck_cuda_real.cuMemcpyDtoHAsync_v2(x->copy + from, x->arena->base + from,
							 size, stream);

	if (rc)
		return gck_cuda_fail(err, "copying managed memory", rc);
	memset(x->copied + from / GCK_CUDA_PAGE, 1, pages);
	return 0;
}

/* Make the pages exist now, so that none has to be made while the threads are stopped. */
static void populate(const struct gck_cuda_managed_swap *x, uint64_t from, uint64_t pages)
{
	madvise(x->copy + from, pages * GCK_CUDA_PAGE, MADV_POPULATE_WRITE);
}

/* Treat runs of pages of one kind. */
static int copy_looked_at(const struct gck_cuda_managed_swap *x, uint64_t at, const uint64_t *words,
			  uint64_t n, CUstream stream, struct gck_error *err)
{
	uint64_t run;
	int failed = 0;

	for (uint64_t i = 0; failed == 0 && i < n; i += run) {
		uint64_t from = at + i * GCK_CUDA_PAGE - x->arena->base;

		for (run = 1;
		     i + run < n && GCK_CUDA_PRESENT(words[i + run]) == GCK_CUDA_PRESENT(words[i]);)
			run++;
		if (GCK_CUDA_PRESENT(words[i]))
			populate(x, from, run);
		else
			failed = copy_run(x, from, run, stream, err);
	}
	return failed;
}

static int copy_suballocation(const struct gck_cuda_managed_swap *x,
			      const struct gck_cuda_suballocation *p, CUstream stream,
			      const struct gck_cuda_order *order, struct gck_error *err)
{
	uint64_t words[LOOK], end = p->base + p->size, n;

	for (uint64_t at = p->base; at < end; at += n * GCK_CUDA_PAGE) {
		long error;

		n = (end - at) / GCK_CUDA_PAGE < LOOK ? (end - at) / GCK_CUDA_PAGE : LOOK;
		error = gck_cuda_managed_swap_pagemap(x, at, words, n);
		if (error)
			return gck_fail(err, (int)-error, "/proc/self/pagemap: %s",
					strerror((int)-error));
		if (copy_looked_at(x, at, words, n, stream, err))
			return -1;
		if (gck_cuda_now_ns() > order->end_ns)
			return gck_fail(err, ETIMEDOUT,
					"the time for the copy of managed memory is over: "
					"give hold= more");
	}
	return 0;
}

/* In the arena's context, while the threads run: copies the GPU's pages to x->copy and marks
 * them as copied. The stream is our own: a capture of the program may depend on a default
 * stream. */
static int copy_from_gpu(struct gck_cuda_managed_swap *x, const struct gck_cuda_order *order,
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
	for (size_t i = 0; failed == 0 && i < x->arena->suballocations.n; i++) {
		if (x->arena->suballocations.v[i].requested)
			failed = copy_suballocation(x, &x->arena->suballocations.v[i], stream,
						    order, err);
	}
	rc = gck_cuda_real.cuStreamSynchronize(stream);
	gck_cuda_real.cuStreamDestroy_v2(stream);
	return failed == 0 && rc ? gck_cuda_fail(err, "copying managed memory", rc) : failed;
}

/* ---- away ----------------------------------------------------------------------------------- */

static void *memory(uint64_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
}

static int enter(const struct gck_cuda_managed *m, struct gck_error *err)
{
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(m->context);

	return rc ? gck_cuda_fail(err, "cuCtxPushCurrent", rc) : 0;
}

static void leave(void)
{
	CUcontext popped;

	gck_cuda_real.cuCtxPopCurrent_v2(&popped);
}

static int begin(struct gck_cuda_managed_swap *x, struct gck_cuda_managed *m, int pagemap,
		 const struct gck_cuda_order *order, struct gck_error *err)
{
	int failed;

	*x = (struct gck_cuda_managed_swap){.arena = m, .pagemap = pagemap, .copy = memory(m->size),
					.copied = memory(m->size / GCK_CUDA_PAGE)};
	if (x->copy == MAP_FAILED || x->copied == MAP_FAILED)
		return gck_fail(err, ENOMEM, "no host memory for %llu MiB of managed memory",
				(unsigned long long)m->size >> 20);
	if (enter(m, err))
		return -1;
	failed = copy_from_gpu(x, order, err);
	leave();
	return failed;
}

static bool not_freed; /* the driver did not free memory that it was told to */

static void able(gck_cuda_obstacle_fn *tell, void *arg)
{
	if (not_freed)
		tell(arg, "managed memory that the driver did not free at an earlier checkpoint",
		     "the driver refuses one "
		     "with such memory",
		     "restart the job from its last checkpoint");
}

/* Free the memory in the driver, which is not mapped any more. */
static int tell_driver(const struct gck_cuda_managed *m, struct gck_error *err)
{
	struct gck_cuda_mmap_target s = {.base = m->base, .size = m->size};
	CUresult rc;

	gck_cuda_mmap_hook_set(&s);
	rc = gck_cuda_real.cuMemFree_v2(m->base);
	gck_cuda_mmap_hook_set(NULL);
	not_freed |= rc != CUDA_SUCCESS;
	return rc ? gck_cuda_fail(err, "cuMemFree of managed memory", rc) : 0;
}

/* The resume that follows repeats the program's advice. */
static void advise_no_more(const struct gck_cuda_managed *m)
{
	gck_cuda_real.cuMemAdvise_v2(m->base, m->size, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
				     (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST});
}

/* The arena is away, or it stays. */
static int end(const struct gck_cuda_managed_swap *x, struct gck_error *err)
{
	struct gck_cuda_managed *m = x->arena;
	int failed = 0;

	m->away = x->away;
	if (x->copied != MAP_FAILED)
		munmap(x->copied, m->size / GCK_CUDA_PAGE);
	if (!x->away && x->copy != MAP_FAILED)
		munmap(x->copy, m->size);
	if (enter(m, err))
		return -1;
	if (x->away)
		failed = tell_driver(m, err);
	else
		advise_no_more(m);
	leave();
	return failed;
}

/* Send all arenas away; v has an element for each. */
static int send_away(struct gck_cuda_managed_swap *v, int pagemap,
		     const struct gck_cuda_order *order, struct gck_error *err)
{
	const struct gck_cuda_managed_list *all = &gck_cuda_managed;
	size_t begun = 0;
	int failed = 0;

	while (!failed && begun < all->n) {
		failed = begin(&v[begun], all->v[begun], pagemap, order, err);
		begun++;
	}
	if (!failed)
		failed = gck_cuda_managed_swap_out(v, all->n, err);
	while (begun-- > 0) {
		if (end(&v[begun], failed ? NULL : err))
			failed = -1;
	}
	return failed;
}

static int drain(const struct gck_cuda_order *order, struct gck_error *err)
{
	uint64_t bytes = gck_cuda_managed_bytes();
	struct gck_cuda_managed_swap *v;
	int pagemap, failed;

	if (!bytes)
		return 0;
	if (bytes > order->host_copy_max)
		return gck_fail(err, ENOMEM,
				"%llu MiB are more than may be used of the host's memory: try "
				"again, or give the job more memory",
				(unsigned long long)bytes >> 20);
	v = calloc(gck_cuda_managed.n, sizeof *v);
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (!v)
		failed = gck_fail(err, ENOMEM, "no memory for a list of managed memory");
	else if (pagemap < 0)
		failed = gck_fail(err, errno, "/proc/self/pagemap: %m");
	else
		failed = send_away(v, pagemap, order, err);
	if (pagemap >= 0)
		close(pagemap);
	free(v);
	return failed;
}

/* ---- back ----------------------------------------------------------------------------------- */

/* The driver maps its memory: swap now. */
static int map(struct gck_cuda_mmap_target *s, int fd, int64_t offset)
{
	struct gck_cuda_managed_swap *x = (struct gck_cuda_managed_swap *)s;

	x->fd = fd;
	x->offset = offset;
	return gck_cuda_managed_swap_in(x);
}

static int call_back(struct gck_cuda_managed_swap *x, struct gck_error *err)
{
	CUdeviceptr at = 0;
	CUresult rc;

	gck_cuda_mmap_hook_set(&x->target);
	rc = gck_cuda_real.cuMemAllocManaged(&at, x->arena->size, CU_MEM_ATTACH_GLOBAL);
	gck_cuda_mmap_hook_set(NULL);
	if (rc == CUDA_SUCCESS && at == x->arena->base)
		return 0;
	if (x->why.code)
		return gck_fail(err, x->why.code, "%s", x->why.text);
	return gck_cuda_fail(err, "managed memory at its address",
			     rc ? rc : CUDA_ERROR_NOT_SUPPORTED);
}

static int bring_back(struct gck_cuda_managed *m, struct gck_cuda_swap_stop *moment,
		      struct gck_error *err)
{
	struct gck_cuda_managed_swap x = {
		.target = {.base = m->base, .size = m->size, .coming = true, .map = map},
		.arena = m, .copy = memory(m->size), .moment = moment,
	};
	int failed;

	if (x.copy == MAP_FAILED)
		return gck_fail(err, ENOMEM, "no addresses for %llu MiB of managed memory",
				(unsigned long long)m->size >> 20);
	failed = call_back(&x, err);
	munmap(x.copy, m->size);
	m->away = failed != 0;
	return failed;
}

/* In its context. */
static int come_back(struct gck_cuda_managed *m, struct gck_cuda_swap_stop *moment,
		     struct gck_error *err)
{
	int failed;

	if (enter(m, err))
		return -1;
	failed = bring_back(m, moment, err);
	leave();
	return failed;
}

/* A failure costs speed only. */
static void repeat_advice(const struct gck_cuda_managed *m)
{
	CUstream stream;

	if (enter(m, NULL))
		return;
	if (gck_cuda_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) {
		gck_cuda_advice_repeat(m->base, m->size, stream);
		gck_cuda_real.cuStreamDestroy_v2(stream);
	}
	leave();
}

static int resume(const struct gck_cuda_order *order, bool restored, struct gck_error *err)
{
	const struct gck_cuda_managed_list *all = &gck_cuda_managed;
	struct gck_cuda_swap_stop moment = {.stopped = NULL};
	int failed = 0;

	(void)order;
	(void)restored;
	for (size_t i = 0; i < all->n; i++) {
		if (all->v[i]->away && come_back(all->v[i], &moment, failed ? NULL : err))
			failed = -1;
	}
	gck_cuda_swap_stop_end(&moment);
	for (size_t i = 0; i < all->n; i++) {
		if (!all->v[i]->away)
			repeat_advice(all->v[i]);
	}
	return failed;
}

const struct gck_cuda_participant gck_cuda_managed_participant = {
	.name = "managed memory", .able = able, .drain = drain, .resume = resume,
};

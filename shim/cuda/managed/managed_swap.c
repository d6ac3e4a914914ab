/* SPDX-License-Identifier: Apache-2.0
 * While the threads are stopped only memory and system calls are used. */
#define _GNU_SOURCE
#include "shim/cuda/managed/managed_swap.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "shim/cuda/base/retry.h"
#include "shim/cuda/gate/stop_world.h"

#define AT_ONCE 512        /* pages read from pagemap at once */
#define AWAY_MS 2000       /* limit to stop threads, which may be in the kernel */
#define BACK_MS 20000      /* the same on the way back, where giving up would lose the GPU */

static char *own(const struct gck_cuda_managed_swap *x)
{
	return (char *)(uintptr_t)x->arena->base;
}

static long move(const char *from, uint64_t size, const char *to)
{
	return gck_cuda_system(SYS_mremap, (long)from, (long)size, (long)size,
			       MREMAP_MAYMOVE | MREMAP_FIXED, (long)to, 0);
}

long gck_cuda_managed_swap_pagemap(const struct gck_cuda_managed_swap *x, uint64_t address,
				   uint64_t *words, uint64_t n)
{
	long got = gck_cuda_system(SYS_pread64, x->pagemap, (long)words,
				   (long)(n * sizeof *words),
				   (long)(address / GCK_CUDA_PAGE * sizeof *words), 0, 0);

	return got == (long)(n * sizeof *words) ? 0 : got < 0 ? got : -EIO;
}

/* ---- away ----------------------------------------------------------------------------------- */

static void copy_rest(const struct gck_cuda_managed_swap *x, uint64_t at, const uint64_t *words,
		      uint64_t n)
{
	for (uint64_t i = 0; i < n; i++, at += GCK_CUDA_PAGE) {
		uint64_t from = at - x->arena->base;

		if (GCK_CUDA_PRESENT(words[i]) || !x->copied[from / GCK_CUDA_PAGE])
			memcpy(x->copy + from, own(x) + from, GCK_CUDA_PAGE);
	}
}

static long copy_suballocation(const struct gck_cuda_managed_swap *x,
		       const struct gck_cuda_suballocation *p)
{
	uint64_t words[AT_ONCE], end = p->base + p->size, n;
	long error = 0;

	for (uint64_t at = p->base; error == 0 && at < end; at += n * GCK_CUDA_PAGE) {
		n = (end - at) / GCK_CUDA_PAGE < AT_ONCE ? (end - at) / GCK_CUDA_PAGE : AT_ONCE;
		error = gck_cuda_managed_swap_pagemap(x, at, words, n);
		if (error == 0)
			copy_rest(x, at, words, n);
	}
	return error;
}

static long copy_arena(const struct gck_cuda_managed_swap *x)
{
	const struct gck_cuda_arena *a = &x->arena->suballocations;
	long error = 0;

	for (size_t i = 0; error == 0 && i < a->n; i++) {
		if (a->v[i].requested)
			error = copy_suballocation(x, &a->v[i]);
	}
	return error;
}

static long go_away(struct gck_cuda_managed_swap *v, size_t n)
{
	long error = 0;

	for (size_t i = 0; error == 0 && i < n; i++)
		error = copy_arena(&v[i]);
	for (size_t i = 0; error == 0 && i < n; i++) {
		long at = move(v[i].copy, v[i].arena->size, own(&v[i]));

		v[i].away = at >= 0;
		error = at < 0 ? at : 0;
	}
	return error;
}

int gck_cuda_managed_swap_out(struct gck_cuda_managed_swap *v, size_t n, struct gck_error *err)
{
	struct gck_cuda_stop_world *stopped = gck_cuda_stop_world_begin(AWAY_MS, 0, err);
	long error;

	if (!stopped)
		return -1;
	error = go_away(v, n);
	gck_cuda_stop_world_end(stopped);
	return error ? gck_fail(err, (int)-error,
				"managed memory cannot be taken from its address: %s",
				strerror((int)-error))
		     : 0;
}

/* ---- back ----------------------------------------------------------------------------------- */

static bool is_zero(const char *page)
{
	const uint64_t *words = (const void *)page;

	for (size_t i = 0; i < GCK_CUDA_PAGE / sizeof *words; i++) {
		if (words[i])
			return false;
	}
	return true;
}

/* The driver's new memory is zero, and pages exist once they are touched. */
static void fill(const struct gck_cuda_managed_swap *x, const struct gck_cuda_suballocation *p)
{
	uint64_t from = p->base - x->arena->base;

	for (uint64_t at = from; at < from + p->size; at += GCK_CUDA_PAGE) {
		if (!is_zero(x->copy + at))
			memcpy(own(x) + at, x->copy + at, GCK_CUDA_PAGE);
	}
}

static long come_back(const struct gck_cuda_managed_swap *x)
{
	const struct gck_cuda_arena *a = &x->arena->suballocations;
	long at = move(own(x), x->arena->size, x->copy);

	if (at < 0)
		return at;
	at = gck_cuda_system(SYS_mmap, (long)own(x), (long)x->arena->size, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_FIXED, x->fd, x->offset);
	if (at < 0) {
		move(x->copy, x->arena->size, own(x));
		return at;
	}
	for (size_t i = 0; i < a->n; i++) {
		if (a->v[i].requested)
			fill(x, &a->v[i]);
	}
	return 0;
}

static int stop(struct gck_cuda_swap_stop *m, struct gck_error *err)
{
	int naps = GCK_CUDA_RETRIES;

	if (m->stopped && gck_cuda_stop_world_again(m->stopped))
		return 0;
	m->cut = m->cut || m->stopped;
	gck_cuda_swap_stop_end(m);
	do {
		*err = (struct gck_error){.code = 0};
		m->stopped = gck_cuda_stop_world_begin(BACK_MS, BACK_MS, err);
	} while (!m->stopped && gck_cuda_retry(err->code, &naps));
	return m->stopped ? 0 : -1;
}

int gck_cuda_managed_swap_in(struct gck_cuda_managed_swap *x)
{
	struct gck_cuda_swap_stop *m = x->moment;
	long error;

	if (stop(m, &x->why))
		return x->why.code;
	error = come_back(x);
	if (m->cut)
		gck_cuda_swap_stop_end(m);
	else
		gck_cuda_stop_world_pause(m->stopped);
	return (int)-error;
}

void gck_cuda_swap_stop_end(struct gck_cuda_swap_stop *m)
{
	if (m->stopped)
		gck_cuda_stop_world_end(m->stopped);
	m->stopped = NULL;
}

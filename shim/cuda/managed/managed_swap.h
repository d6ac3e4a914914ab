/* SPDX-License-Identifier: Apache-2.0
 * Replaces managed memory by ordinary memory at the same address, and back, with the same
 * contents, in moments when the program's threads are stopped. */
#ifndef GCK_CUDA_MANAGED_SWAP_H
#define GCK_CUDA_MANAGED_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/participant.h"
#include "shim/cuda/managed/managed.h"
#include "shim/cuda/managed/mmap_hook.h"

#define GCK_CUDA_PAGE ((uint64_t)4096)

/* A stop of the threads on the way back. It lasts from the first arena to the last, also while
 * the driver is called in between. If a call of the driver's waits for a stopped thread, the
 * stop is cut: the threads are then stopped for each arena separately. */
struct gck_cuda_swap_stop {
	struct gck_cuda_stop_world *stopped; /* NULL: the threads run */
	bool cut;
};

struct gck_cuda_managed_swap {
	struct gck_cuda_mmap_target target;   /* back: the driver's call */
	struct gck_cuda_managed *arena;
	char *copy;                 /* memory of the arena's size at another address */
	unsigned char *copied;      /* out: for each page, not 0 if the copy has the GPU's page */
	int pagemap;                /* out: /proc/self/pagemap */
	bool away;                  /* the copy is at the arena's address */
	int fd;                     /* back: the driver's file, to be mapped */
	int64_t offset;
	struct gck_cuda_swap_stop *moment; /* back: shared by all arenas */
	struct gck_error why;
};

/* Out, for all arenas at once, after the GPU's pages were copied: copies what the CPU may have
 * written since, and the rest, and moves the copies to the arenas' addresses. -1: some may have
 * moved; those are `away`. */
int gck_cuda_managed_swap_out(struct gck_cuda_managed_swap *v, size_t n, struct gck_error *err)
	GCK_MUST_CHECK;

/* Back: moves what is at the arena's address to copy, and maps and fills the driver's memory
 * there, in place of the driver's mmap. Returns 0, or an errno value with nothing changed. */
int gck_cuda_managed_swap_in(struct gck_cuda_managed_swap *x) GCK_MUST_CHECK;
void gck_cuda_swap_stop_end(struct gck_cuda_swap_stop *m);

/* Read the words of n pages from /proc/self/pagemap. Returns 0 or a negative errno value. */
long gck_cuda_managed_swap_pagemap(const struct gck_cuda_managed_swap *x, uint64_t address,
				   uint64_t *words, uint64_t n) GCK_MUST_CHECK;
#define GCK_CUDA_PRESENT(word) ((word) >> 63) /* the CPU has the page and may write it unnoticed */

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Managed memory exchanged for ordinary memory at the same address, and back, with the same contents:
 * the moments in which the program's threads stand still. */
#ifndef GCK_CUDA_MANAGED_SWAP_H
#define GCK_CUDA_MANAGED_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/participant.h"
#include "shim/cuda/managed/managed.h"
#include "shim/cuda/managed/mmap_hook.h"

#define GCK_CUDA_PAGE ((uint64_t)4096)

/* In which memory comes back: the threads stand still from the first exchange on to the end, also while the driver
 * is called in between. Where one of its calls waits for one of them, they stand still for each exchange alone. */
struct gck_cuda_swap_stop {
	struct gck_cuda_stop_world *still; /* NULL: they run */
	bool cut;
};

struct gck_cuda_managed_swap {
	struct gck_cuda_mmap_target steering;   /* back */
	struct gck_cuda_managed *arena;
	char *copy;                 /* addresses of the arena's size, elsewhere */
	unsigned char *copied;      /* away: for each page, not 0: the GPU's is in the copy */
	int pagemap;                /* away: /proc/self/pagemap */
	bool away;                  /* the copy is in the arena's place */
	int fd;                     /* back: the driver's, to be mapped */
	int64_t offset;
	struct gck_cuda_swap_stop *moment; /* back: which it shares with others */
	struct gck_error why;
};

/* Away, of all arenas at once, the GPU's pages having been copied: what the CPU may have written since, and the rest, is copied; the copies take
 * the arenas' places. -1: some may have, and are `away` then. */
int gck_cuda_managed_swap_out(struct gck_cuda_managed_swap *v, size_t n, struct gck_error *err);

/* Back: what is at the arena's place goes to copy, the driver's memory is mapped there and filled. In the
 * place of the driver's call: 0, or an errno value, then nothing has changed. */
int gck_cuda_managed_swap_in(struct gck_cuda_managed_swap *x);
void gck_cuda_swap_stop_end(struct gck_cuda_swap_stop *m);

/* The words of so many pages in /proc/self/pagemap. 0, or an errno value, negative. */
long gck_cuda_managed_swap_pagemap(const struct gck_cuda_managed_swap *x, uint64_t address, uint64_t *words,
			    uint64_t n);
#define GCK_CUDA_PRESENT(word) ((word) >> 63) /* the CPU has it, and may write it unseen */

#endif

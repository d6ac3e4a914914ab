/* SPDX-License-Identifier: Apache-2.0
 * Decides where the driver maps managed memory. Its library gets addresses from libc; those calls,
 * of that library alone, come here. Driver 580 reserves enough space to align in, unmaps what
 * lies behind the aligned address, and maps the memory. When it frees the memory it maps a
 * reservation over it and unmaps that. In a checkpoint it maps the memory in which it saves what
 * is its own. */
#ifndef GCK_CUDA_MMAP_HOOK_H
#define GCK_CUDA_MMAP_HOOK_H

#include <stdbool.h>
#include <stdint.h>

#define GCK_CUDA_MANAGED_UNIT ((uint64_t)32 << 20) /* managed memory's addresses are multiples of
						    * it */

/* What one call of the driver's shall do with addresses. */
struct gck_cuda_mmap_target {
	uint64_t base, size; /* multiples of the unit */
	bool coming;         /* the driver maps memory there; else it frees its memory, and what
			      * is at the address by now must not be touched */
	/* Called in place of the driver's mmap, and maps the memory. Returns 0 or an errno
	 * value. NULL: mmap as asked. */
	int (*map)(struct gck_cuda_mmap_target *s, int fd, int64_t offset);
	bool granted, done;  /* the driver has reserved the addresses; it has mapped or unmapped
			      * the memory */
	bool gone;           /* the driver has unmapped it after a failure: the addresses may be
			      * another thread's */
};

/* The target for calls of this thread, until the next call; NULL: the driver is free. Managed
 * memory that it maps then is a __managed__ variable, which counts as an obstacle (obstacles.h). */
void gck_cuda_mmap_hook_set(struct gck_cuda_mmap_target *s);

/* From now on, or no more: large memory that the driver wants to have filled with pages at once
 * gets large pages, by several threads. */
void gck_cuda_mmap_hook_prefault(bool on);

/* Install the hooks, once the real library is loaded. */
void gck_cuda_mmap_hook_begin(void);

/* Whether they are installed. */
bool gck_cuda_mmap_hook_works(void);

#endif

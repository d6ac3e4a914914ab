/* SPDX-License-Identifier: Apache-2.0
 * Where the driver's managed memory lies. Its library asks libc for the addresses; these calls, of that
 * library alone, come here and get the answer that somebody wants. As driver 580 does it: room to align
 * in is asked for, what lies behind the aligned address given back, the memory mapped in between. When
 * it goes, a reservation is mapped over it, and then unmapped. */
#ifndef GCK_CUDA_MMAP_HOOK_H
#define GCK_CUDA_MMAP_HOOK_H

#include <stdbool.h>
#include <stdint.h>

#define GCK_CUDA_MANAGED_UNIT ((uint64_t)32 << 20) /* managed memory's addresses are multiples of it */

/* What one call of the driver's is to do with addresses. */
struct gck_cuda_mmap_target {
	uint64_t base, size; /* multiples of the unit */
	bool coming;         /* new memory is to lie there; otherwise what lay there goes, and what
			      * lies in its place by now is left alone */
	/* In place of the mapping, which it makes: 0, or an errno value. NULL: just map. */
	int (*map)(struct gck_cuda_mmap_target *s, int fd, int64_t offset);
	bool granted, done;  /* the driver has asked for room; it has mapped or unmapped the memory */
	bool gone;           /* nothing lies there: it has cleaned up, and another thread may have the addresses */
};

/* For what this thread calls until the next steer; NULL: the driver does as it likes. What it maps then
 * of managed memory nobody has asked us for: a __managed__ variable, which is alive (alive.h). */
void gck_cuda_mmap_hook_set(struct gck_cuda_mmap_target *s);

/* Once the real library is loaded: its calls come here from then on. */
void gck_cuda_mmap_hook_begin(void);

/* Do they? */
bool gck_cuda_mmap_hook_works(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Runs of pages out of one reserved range of addresses, for the heap. */
#ifndef GCK_MPI_ROOT_PAGES_H
#define GCK_MPI_ROOT_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GCK_NS_PAGE 4096ul
#define GCK_NS_SLAB_PAGES 16u

enum gck_ns_use {
	GCK_NS_UNUSED,  /* never given out, or in the middle of a run */
	GCK_NS_FREE,    /* first and last page of a free run */
	GCK_NS_BIG,     /* first page of a run that was given out */
	GCK_NS_SMALL,   /* a page of a slab: blocks of one size */
};

struct gck_ns_page {
	uint8_t use;
	uint8_t class;  /* SMALL: of its blocks */
	uint32_t n;     /* FREE, BIG: pages of the run */
	uint32_t next, prev; /* FREE, first page: runs of about the same length; 0: none */
};

bool gck_ns_pages_has(const void *p);
struct gck_ns_page *gck_ns_page_of(const void *p);

/* A run that begins at a multiple of align pages; *fresh: it is known to be zero. NULL: none. */
void *gck_ns_run_get(size_t n, size_t align, bool *fresh);
void gck_ns_run_put(void *run);
bool gck_ns_run_extend(void *run, size_t n); /* false: what follows is in use */

/* A slab is never given back. */
char *gck_ns_slab_get(unsigned int class);

void gck_ns_pages_lock(void);
void gck_ns_pages_unlock(void);

#endif

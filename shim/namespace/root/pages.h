/* SPDX-License-Identifier: Apache-2.0
 * Runs of pages from one reserved range of addresses, for the heap. */
#ifndef GCK_NS_ROOT_PAGES_H
#define GCK_NS_ROOT_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GCK_NS_PAGE 4096ul
#define GCK_NS_SLAB_PAGES 16u

enum gck_ns_use {
	GCK_NS_UNUSED,  /* never allocated, or in the middle of a run */
	GCK_NS_FREE,    /* first and last page of a free run */
	GCK_NS_BIG,     /* first page of an allocated run */
	GCK_NS_SMALL,   /* a page of a slab: blocks of one size */
};

struct gck_ns_page {
	uint8_t use;
	uint8_t class;  /* SMALL: the class of its blocks */
	uint32_t n;     /* FREE, BIG: the pages of the run */
	uint32_t next, prev; /* FREE, first page: neighbours in the list; 0: none */
};

bool gck_ns_pages_has(const void *p);
struct gck_ns_page *gck_ns_page_of(const void *p);

/* Allocates a run that begins at a multiple of align pages; NULL: no memory. *fresh: it is known to
 * be zero. */
void *gck_ns_run_get(size_t n, size_t align, bool *fresh);
void gck_ns_run_put(void *run);
bool gck_ns_run_extend(void *run, size_t n); /* false: the pages behind it are in use */

/* Allocates a slab for blocks of a class; it is never freed. NULL: no memory. */
char *gck_ns_slab_get(unsigned int class);

void gck_ns_pages_lock(void);
void gck_ns_pages_unlock(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Reading a stopped process's pages, of the clone or of a held rank. */
#ifndef GCK_PAGES_H
#define GCK_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

struct gck_source {
	pid_t pid;
	int pagemap, mem;
};

int gck_source_open(struct gck_source *s, pid_t pid, struct gck_error *err) GCK_MUST_CHECK;
void gck_source_close(struct gck_source *s);

struct gck_range {
	uint64_t start, end;
};

struct gck_ranges {
	struct gck_range *v;
	size_t n, capacity;
};

int gck_ranges_add(struct gck_ranges *r, uint64_t start, uint64_t end,
		   struct gck_error *err) GCK_MUST_CHECK;

/* The next part of [*at, end) that is in none of the ranges, which are sorted; *at moves on. False:
 * there is none. */
bool gck_ranges_next_part(const struct gck_ranges *without, uint64_t *at, uint64_t end,
			  struct gck_range *part);

/* Append the ranges of the process's own pages between start and end: of anonymous memory, pages
 * that are present or swapped out and not the zero page; of a private file mapping (file), the
 * changed pages. Guard pages (MADV_GUARD_INSTALL) go to guards. */
int gck_source_scan(const struct gck_source *s, uint64_t start, uint64_t end, bool file,
		    struct gck_ranges *out, struct gck_ranges *guards,
		    struct gck_error *err) GCK_MUST_CHECK;

/* GCK_PAGE_GUARD (pagemap.h) if PAGEMAP_SCAN of this kernel knows it, else 0. */
uint64_t gck_pagemap_guard(void);

/* Read n ranges one after the other into data. */
int gck_source_read(const struct gck_source *s, const struct gck_range *v, size_t n, void *data,
		    struct gck_error *err) GCK_MUST_CHECK;

/* data holds the pages of mask in order: drop those that are all zero, and return the mask of the
 * rest. */
uint64_t gck_pack_pages(void *data, uint64_t mask);

/* Read n bytes of a process's memory: all, or -1. */
int gck_memory_read(pid_t pid, uint64_t address, void *data, size_t n,
		    struct gck_error *err) GCK_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Pages of the clone, which copies them into memory that it shares with the worker: one copy, where
 * /proc/PID/mem makes two, page by page. The buffer has two halves, so that the clone fills one
 * while the other is hashed and written. */
#ifndef GCK_CLONE_PAGES_H
#define GCK_CLONE_PAGES_H

#include "shim/process/proc/pages.h"

struct gck_clone_pages {
	pid_t clone;
	int life, memfd;
	int number;    /* of the memfd in the clone */
	char *buffer;  /* two halves of size bytes */
	size_t size;
};

/* Set up a buffer with a clone that is ready. */
int gck_clone_pages_open(struct gck_clone_pages *p, pid_t clone, int life, size_t size,
			 struct gck_error *err) GCK_MUST_CHECK;

/* Ask for n ranges, at most size bytes in all, to be put one after the other into a half (0 or
 * 1). */
int gck_clone_pages_ask(struct gck_clone_pages *p, int half, const struct gck_range *v, size_t n,
			struct gck_error *err) GCK_MUST_CHECK;

/* Wait for the ranges; the caller may change the bytes. What the clone may not read itself
 * (PROT_NONE) is read through s. */
char *gck_clone_pages_take(struct gck_clone_pages *p, int half, const struct gck_source *s,
			   const struct gck_range *v, size_t n,
			   struct gck_error *err) GCK_MUST_CHECK;

/* Check that the clone still lives, after all ranges were taken. The page map of a killed clone
 * shows no pages and no error, and the clone makes itself the kernel's first choice when memory
 * runs out. */
int gck_clone_pages_check(struct gck_clone_pages *p, struct gck_error *err) GCK_MUST_CHECK;

void gck_clone_pages_close(struct gck_clone_pages *p);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Memory that a rank rewrites all the time. Each page of it that it writes while its clone exists
 * costs it a page fault and a copy, several times as much as a copy that is made while it is held.
 * So such memory is copied then, and the clone is forked without it (doc/store.md, "What is
 * rewritten all the time").
 *
 * Which memory that is, a look at a sample of pages tells: they are write-protected while the rank
 * runs, and a moment later it is known which were written. The rest is written less often, has huge
 * pages, or cannot be looked at. It is left to the clone. */
#ifndef GCK_REWRITTEN_H
#define GCK_REWRITTEN_H

#include "shim/process/memory/dirty_pages.h"

/* The pages of one page group, one after the other. */
struct gck_rewritten_group {
	uint64_t address, mask;
	char *data;
};

struct gck_rewritten_region {
	struct gck_range range;    /* whole page groups */
	size_t sample, nsamples;   /* the first of its samples, and their number */
	size_t written;            /* of these */
};

struct gck_rewritten {
	uint64_t step;             /* bytes of memory for each sample */
	struct gck_rewritten_region *regions; /* that are looked at */
	size_t nregions;
	uint64_t *samples;         /* pages */
	size_t nsamples;
	struct gck_ranges chosen;  /* to be copied while the rank is held */
	char *data;                /* memory for the copies; NULL: none are made */
	size_t size;
	unsigned copy_ms, threads; /* how long a copy may take, and of how many threads */

	struct gck_ranges copied;  /* whole page groups */
	struct gck_rewritten_group *groups;
	size_t ngroups;
};

/* Whether the rank has enough memory that a look is worth while. */
bool gck_rewritten_worth_look(const struct gck_image *img);

/* While the rank runs: choose what to copy. Takes 0.1 s, and up to 1 s if much is written.
 * expected: bytes of the image. Returns the bytes of what was chosen. */
uint64_t gck_rewritten_look(struct gck_rewritten *w, struct gck_dirty_tracker *m,
			    const struct gck_target *t, const struct gck_image *img,
			    uint64_t expected);

/* While the rank runs: allocate and touch memory for copies, so that these cause no page faults. */
int gck_rewritten_ready(struct gck_rewritten *w, uint64_t bytes) GCK_MUST_CHECK;

/* With the rank held, and its mappings and flags known as they are now: copy what was chosen, as
 * much as may be. What is not copied is left to the clone. */
void gck_rewritten_copy(struct gck_rewritten *w, const struct gck_target *t,
			const struct gck_image *img);

void gck_rewritten_free(struct gck_rewritten *w);

#endif

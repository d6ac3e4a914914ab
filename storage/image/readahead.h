/* SPDX-License-Identifier: Apache-2.0
 * Chunks read before they are asked for: threads fetch what lies together in one go, decode and
 * verify it. Memory is bounded. Made after fork(), as pipeline.h. */
#ifndef GCK_READAHEAD_H
#define GCK_READAHEAD_H

#include "storage/store/internal.h"

struct gck_readahead;

/* What will be wanted, of one manifest; all is borrowed until close. `next` is asked from within
 * gck_readahead_open and gck_readahead_next. */
struct gck_readahead_plan {
	const json_t *objects;       /* the manifest's table of names: all chunks are in these */
	const uint64_t *ends;        /* by object: 0, or how far it reaches that other processes want too */
	const struct gck_job_key *seal; /* NULL: the chunks are not encrypted */
	gck_plan_fn *next;
	void *arg;
};

struct gck_readahead *gck_readahead_open(struct gck_store *s, const struct gck_readahead_plan *plan,
					 struct gck_error *err);

/* The verified bytes of c, valid until the next call; what the plan has before it is left out.
 * NULL: it is not near in the plan, or could not be read or is damaged: who reads it alone learns
 * why. */
const void *gck_readahead_next(struct gck_readahead *a, const struct gck_chunk *c);

void gck_readahead_close(struct gck_readahead *a);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Reading chunks ahead: threads read neighbouring chunks with one request, decode and verify them.
 * Memory is bounded. Create it after fork(), as pipeline.h. */
#ifndef GCK_READAHEAD_H
#define GCK_READAHEAD_H

#include "storage/image/image.h"

struct gck_readahead;

/* Which chunks of one manifest will be read. Everything is borrowed until close. `next` is called
 * within gck_readahead_open and gck_readahead_next. */
struct gck_readahead_plan {
	const json_t *objects;         /* the manifest's table of names: all chunks are in these */
	const uint64_t *ends;          /* by object: 0, or how many bytes other processes may read too */
	const struct gck_job_key *key; /* NULL: the chunks are not encrypted */
	gck_plan_fn *next;
	void *arg;
};

struct gck_readahead *gck_readahead_open(struct gck_store *s, const struct gck_readahead_plan *plan,
					 struct gck_error *err);

/* The verified bytes of c, valid until the next call; earlier chunks of the plan are skipped. NULL:
 * c is not near in the plan, or could not be read or is damaged; reading it alone tells why. */
const void *gck_readahead_next(struct gck_readahead *a, const struct gck_chunk *c);
void gck_readahead_close(struct gck_readahead *a);

#endif

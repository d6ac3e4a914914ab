/* SPDX-License-Identifier: Apache-2.0
 * Chunks read before they are asked for: threads fetch what lies together in one go, decode and
 * verify it. Memory is bounded. Made after fork(), as pipeline.h. */
#ifndef GCK_READAHEAD_H
#define GCK_READAHEAD_H

#include "storage/internal.h"

struct gck_readahead;

/* objects is the table of names of the manifest, to which all chunks of the plan belong, borrowed
 * until close. The plan is asked from within this and gck_readahead_next. */
struct gck_readahead *gck_readahead_open(struct gck_store *s, const json_t *objects,
					 gck_plan_fn *plan, void *arg, struct gck_error *err);

/* The verified bytes of c, valid until the next call; what the plan has before it is left out.
 * NULL: it is not near in the plan, or could not be read or is damaged: who reads it alone learns
 * why. */
const void *gck_readahead_next(struct gck_readahead *a, const struct gck_chunk *c);

void gck_readahead_close(struct gck_readahead *a);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Objects on their way into the store. The caller's thread copies chunks into an object; threads
 * encode them, name the object when it is full and put it. Memory is bounded: whoever adds waits
 * for room. Made after fork(), by the process that uses it; all calls are the caller's thread's. */
#ifndef GCK_PIPELINE_H
#define GCK_PIPELINE_H

#include "storage/image/object_buffer.h"

struct gck_pipeline;

/* An object that is put: its chunks say where they lie. Called by the caller's thread from within
 * gck_pipeline_add and gck_pipeline_finish. */
typedef int gck_object_fn(void *arg, const struct gck_object_buffer *x, struct gck_error *err);

struct gck_pipeline_plan {
	const char *dir;  /* borrowed */
	const struct gck_options *options; /* borrowed for the call: compress and its level */
	const struct gck_job_key *seal; /* borrowed: encrypts; NULL: does not */
	unsigned cpus;    /* threads that encode at once, 1 or more */
	size_t memory;    /* bytes of objects under way; two objects at least */
	gck_object_fn *done;
	void *arg;
};

struct gck_pipeline *gck_pipeline_open(struct gck_backend *b, const struct gck_pipeline_plan *plan,
				       struct gck_error *err);

/* Copy a chunk whose hash, size and index are set. shared: into an object apart, which other ranks
 * may be making too. -1: this, or anything that was added before, failed; nothing more is put. */
int gck_pipeline_add(struct gck_pipeline *p, const void *data, const struct gck_chunk *c,
		     bool shared, struct gck_error *err);

/* End the object that is being filled. */
int gck_pipeline_cut(struct gck_pipeline *p, bool shared, struct gck_error *err);

/* Wait until all objects are put. */
int gck_pipeline_finish(struct gck_pipeline *p, struct gck_error *err);

/* Stop the threads, each after what it has in its hands, and free. */
void gck_pipeline_close(struct gck_pipeline *p);

#endif

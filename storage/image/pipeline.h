/* SPDX-License-Identifier: Apache-2.0
 * The pipeline of objects into the store. The caller's thread copies chunks into an object; threads
 * encode them, name the object when it is full and write it to the store. Memory is bounded: adding
 * waits for a free buffer. Create it after fork(), in the process that uses it; one thread makes
 * all calls. */
#ifndef GCK_PIPELINE_H
#define GCK_PIPELINE_H

#include "storage/base/backend.h"
#include "storage/image/object_buffer.h"

struct gck_pipeline;

/* An object was written; its chunks say where they lie. Called by the caller's thread from within
 * gck_pipeline_add and gck_pipeline_finish. */
typedef int gck_object_fn(void *arg, const struct gck_object_buffer *x, struct gck_error *err);

struct gck_pipeline_plan {
	const char *dir;  /* borrowed */
	const struct gck_options *options; /* borrowed for the call: compress and its level */
	const struct gck_job_key *key;     /* borrowed: encrypts; NULL: does not */
	unsigned cpus;    /* threads that encode at once, 1 or more */
	size_t memory;    /* bytes of objects in the pipeline; two objects at least */
	gck_object_fn *done;
	void *arg;
};

GCK_MUST_CHECK struct gck_pipeline *gck_pipeline_open(struct gck_backend *b,
						      const struct gck_pipeline_plan *plan,
						      struct gck_error *err);

/* Copy a chunk whose hash, size and index are set. shared: into a separate object, which other
 * ranks may be making too. -1: this or an earlier chunk failed; nothing more is written. */
GCK_MUST_CHECK int gck_pipeline_add(struct gck_pipeline *p, const void *data,
				    const struct gck_chunk *c, bool shared, struct gck_error *err);

/* End the object that is being filled. */
GCK_MUST_CHECK int gck_pipeline_cut(struct gck_pipeline *p, bool shared, struct gck_error *err);

/* Wait until all objects are written. */
GCK_MUST_CHECK int gck_pipeline_finish(struct gck_pipeline *p, struct gck_error *err);

/* Stop the threads after the work that each has begun, and free. */
void gck_pipeline_close(struct gck_pipeline *p);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * What the pipeline's two sides share: its caller's (pipeline.c) and its threads' (pipeline_work.c). */
#ifndef GCK_PIPELINE_THREADS_H
#define GCK_PIPELINE_THREADS_H

#include <pthread.h>

#include "storage/base/backend.h"
#include "storage/image/pipeline.h"

struct gck_pipeline {
	struct gck_backend *b;
	struct gck_pipeline_plan plan;
	bool encodes;
	struct gck_object_buffer *filling[2]; /* by shared; also in `going` */
	unsigned made, most;           /* parcels */
	struct gck_object_buffer *idle;

	pthread_mutex_t lock;          /* of what follows */
	pthread_cond_t task, progress;
	struct gck_object_buffer *going;      /* oldest first */
	struct gck_object_buffer *done;
	struct gck_codec **codecs;     /* free ones; their number bounds who encodes at once */
	unsigned ncodecs;
	bool stop, failed;
	struct gck_error error;        /* the first one */

	unsigned nthreads;
	pthread_t *threads;
};

/* A thread: takes what is to be done until `stop`. arg is the pipeline. */
void *gck_pipeline_thread(void *arg);

#endif

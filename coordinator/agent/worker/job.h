/* SPDX-License-Identifier: Apache-2.0
 * One function that blocks (in the store, in a name service, in /proc), run in a process of its
 * own with a time limit. */
#ifndef AGENT_JOB_H
#define AGENT_JOB_H

#include <ev.h>
#include <jansson.h>

#include "common/base/error.h"

struct job;

/* In the child: returns the result (new reference, small enough for a packet), or NULL with err
 * filled. */
typedef json_t *job_run(const void *arg, struct gck_error *err);

/* In the agent: the result (borrowed), or NULL and why. The job is freed afterwards. */
typedef void job_done(void *data, const json_t *result, const struct gck_error *why);

/* what names the job in messages (a literal). run sees arg as it is at this call. NULL with err
 * filled if it cannot fork. */
struct job *job_start(struct ev_loop *loop, const char *what, job_run *run, const void *arg,
		      double limit_s, job_done *done, void *data, struct gck_error *err);

/* Ends it; done is not called. */
void job_cancel(struct job *j);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * One function that blocks (in the store, in a name service, in /proc), run in a process of its own
 * and given a time limit. */
#ifndef AGENT_JOB_H
#define AGENT_JOB_H

#include <ev.h>
#include <jansson.h>

#include "common/base/error.h"

struct job;

/* In the child: the result (new reference; small, see packet.h), or NULL with err filled. */
typedef json_t *job_run(const void *arg, struct gck_error *err);

/* In the agent: the result (borrowed), or NULL and why. The job is gone afterwards. */
typedef void job_done(void *data, const json_t *result, const struct gck_error *why);

/* what names the job in messages (a literal). arg is seen by run as it was at this call. */
struct job *job_start(struct ev_loop *loop, const char *what, job_run *run, const void *arg,
		      double limit_s, job_done *done, void *data, struct gck_error *err);

/* End it; done is not called. */
void job_cancel(struct job *j);

#endif

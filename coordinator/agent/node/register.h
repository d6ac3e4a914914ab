/* SPDX-License-Identifier: Apache-2.0
 * `register`: who this agent is and where its ranks stand. */
#ifndef AGENT_REGISTER_H
#define AGENT_REGISTER_H

#include "coordinator/agent/base/agent.h"
#include "coordinator/agent/worker/job.h"

/* List the commits in the store (the first node's agent only). */
struct job *register_list(struct agent *a, job_done *done, void *data, struct gck_error *err);

/* The message. commits (borrowed): what was listed; NULL if it was not; why (code 0: nobody asked):
 * it failed. */
json_t *register_body(const struct agent *a, const json_t *commits, const struct gck_error *why);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The agent's `done`: answers to the coordinator's commands. */
#ifndef AGENT_ANSWER_H
#define AGENT_ANSWER_H

#include "coordinator/agent/base/agent.h"

/* Succeeded, with data (dropped; NULL: none). Returns the message, to be said
 * again (new reference). */
json_t *answer_done(struct agent *a, uint32_t seq, const char *phase, json_t *data);

/* The same, with nothing to say beside it. */
void answer_plain(struct agent *a, uint32_t seq, const char *phase);

/* Failed; rank: the rank that it is about, NULL if about none. */
void answer_failed(struct agent *a, uint32_t seq, const char *phase, const struct gck_error *why,
		   const uint32_t *rank);

#endif

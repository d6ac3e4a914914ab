/* SPDX-License-Identifier: Apache-2.0
 * Writing the commit object and removing old commits, for the agent that the coordinator chose.
 * Neither needs the checkpoint's workers: an agent that was started anew can do it. */
#ifndef AGENT_COMMIT_H
#define AGENT_COMMIT_H

#include "coordinator/agent/base/agent.h"

/* The coordinator's `commit`, answered by `done` with the hash. */
void commit_write(struct agent *a, uint32_t seq, const json_t *body);

/* The coordinator's `committed`: whoever wrote the commit removes the others but `keep`. */
void commit_made(struct agent *a, uint32_t seq, const json_t *body);

/* The coordinator's `sweep`: what it has of the user's steps that nobody else may remove. */
void commit_sweep(struct agent *a, const json_t *body);

#endif

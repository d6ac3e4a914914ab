/* SPDX-License-Identifier: Apache-2.0
 * What the coordinator orders about checkpoints. */
#ifndef AGENT_CHECKPOINT_H
#define AGENT_CHECKPOINT_H

#include "coordinator/agent/base/agent.h"

/* Obey prepare, quiesce, go, freeze, resume, write, hold, commit, committed or abort. */
void checkpoint_command(struct agent *a, const char *op, const json_t *body);

/* The coordinator's `commit`, answered by `done` with the hash. */
void commit_write(struct agent *a, uint32_t seq, const json_t *body);

/* The coordinator's `committed`: whoever wrote the commit removes the others but `keep`. */
void commit_made(struct agent *a, uint32_t seq, const json_t *body);

/* The coordinator's `sweep`: what it has of the user's steps that nobody else may remove. */
void commit_sweep(struct agent *a, const json_t *body);

/* Find out in a job what stands in the way of a checkpoint on this node, and send {"op":"able","id","items"}. */
void able_start(struct agent *a, json_int_t id);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Asking Slurm: by scontrol, since a job's owner may do so and the agent is not linked against one
 * release of libslurm. */
#ifndef AGENT_SCONTROL_H
#define AGENT_SCONTROL_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define SCONTROL_MISSING 127 /* its exit status if this node has none */

/* Run argv ("scontrol", ..., NULL), which takes as long as it takes: for job.h. The status as from wait, or
 * -1. text gets the first line of what it prints that begins so, or the first of all if none does. */
int scontrol(const char *const argv[], const char *begin, char *text, size_t size);

/* The same for a job: does it run, in its start after so many restarts or an earlier one? -1: ESTALE: Slurm says no;
 * ENOENT: this node has no scontrol; EIO: nobody knows. */
int scontrol_runs(uint32_t id, uint32_t restarts, struct gck_error *err);

/* For job.h: run `scontrol requeuehold` on the job of a struct step as its user. true, also if it does not run any
 * more. */
json_t *requeue_hold(const void *step, struct gck_error *err);

#endif

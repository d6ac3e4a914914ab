/* SPDX-License-Identifier: Apache-2.0
 * Questions and requests to Slurm, by scontrol: the owner of a job may run it, and the agent
 * needs no release of libslurm. */
#ifndef AGENT_SCONTROL_H
#define AGENT_SCONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define SCONTROL_MISSING 127 /* exit status if this node has no scontrol */

/* Runs argv ("scontrol", ..., NULL) without a limit: for job.h. Returns the wait status, or -1.
 * text gets the first line of its output that begins with `begin`, or the first of all. */
int scontrol(const char *const argv[], const char *begin, char *text, size_t size) GCK_MUST_CHECK;

/* Does job id run, after at most this many restarts? 0: yes; 1: it is suspended. -1: ESTALE: Slurm
 * says no; ECANCELED: it was requeued since; ENOENT: this node has no scontrol; EIO: not known. */
int scontrol_runs(uint32_t id, uint32_t restarts, struct gck_error *err) GCK_MUST_CHECK;

/* Is job id suspended (scontrol suspend, gang scheduling)? false also if Slurm does not tell. */
bool scontrol_suspended(uint32_t id);

/* For job.h: runs `scontrol requeuehold` on the job of a struct step, as its user. Returns true,
 * also if the job does not run any more. */
json_t *requeue_hold(const void *step, struct gck_error *err);

#endif

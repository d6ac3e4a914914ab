/* SPDX-License-Identifier: Apache-2.0
 * Giving a job back to Slurm, held, when it can neither be restored nor started cold. */
#ifndef AGENT_REQUEUE_H
#define AGENT_REQUEUE_H

#include <jansson.h>

#include "common/base/error.h"

/* For job.h: run `scontrol requeuehold` on the job of a struct step as its user. true, also if it does not run any
 * more. */
json_t *requeue_hold(const void *step, struct gck_error *err);

#endif

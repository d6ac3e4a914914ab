/* SPDX-License-Identifier: Apache-2.0
 * Restored ranks that want what their devices had: each gets a process that brings it. */
#ifndef AGENT_DEVICE_FEED_H
#define AGENT_DEVICE_FEED_H

#include "coordinator/agent/restart/rank_restart.h"

/* A rank's CUDA thread says that it wants it, the first time or because nobody brings it any more. */
void filling_wanted(struct agent *a, struct task *t);

/* The rank has all, or is given up. */
void filling_end(struct returning *one);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The stages of a restart on this node (restart.c: what takes it from one to the next). */
#ifndef AGENT_STAGES_H
#define AGENT_STAGES_H

#include "coordinator/agent/restart/rank_restart.h"

/* Tell every rank's restorer, until one cannot be told. */
void stages_tell(struct restart *r, void (*tell)(struct returning *));

/* All ranks are built: the answer to `build`. */
void stages_answer_built(struct restart *r);

/* Ranks may share files: none may run, and write, before the files of all are as they were. */
void stages_file(struct restart *r);

/* Let all of them go. */
void stages_run(struct restart *r);

/* The timer for ranks that were told to run: their restorers let them go, MPI and CUDA come back. */
void stages_on_rebuild(struct ev_loop *loop, ev_timer *w, int events);

#endif

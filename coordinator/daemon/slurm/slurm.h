/* SPDX-License-Identifier: Apache-2.0
 * Questions to Slurm that do not block. libslurm blocks, for minutes if slurmctld is away, and
 * exits if its configuration is bad. So every question is asked by a forked child with a deadline,
 * which writes the answer to a pipe. */
#ifndef GCK_SLURM_H
#define GCK_SLURM_H

#include <ev.h>

#include "coordinator/core/model/core.h"

struct gck_slurm_request;

struct gck_slurm {
	struct ev_loop *loop;
	struct gck_slurm_request *waiting, *running;
	unsigned nrunning;
};

/* Ask (request is stolen; query.h has the operations); done is called once, from the loop. */
void gck_slurm_ask(struct gck_slurm *s, json_t *request, gck_slurm_fn *done, void *arg);

/* Kill every child; done is not called. */
void gck_slurm_close(struct gck_slurm *s);

/* To be called first in a child. It closes all that it has of gpuckptd (sockets, journal, lock,
 * signal handlers) except out and err, which become stdout and stderr. The child is killed when its
 * parent ends. */
void gck_child_become(pid_t parent, int out, int err);

#endif

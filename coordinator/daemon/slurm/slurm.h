/* SPDX-License-Identifier: Apache-2.0
 * Asking Slurm without waiting for it. libslurm blocks, for minutes when slurmctld is away, and
 * ends the process when its configuration is bad; so every request is made by a forked child with
 * a deadline, which writes its answer to a pipe. */
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

/* End every child; nobody is told. */
void gck_slurm_close(struct gck_slurm *s);

/* In the child, first of all: nothing of gpuckptd's is kept (no socket, journal, lock or signal handler) but
 * out and err, as stdout and stderr; it ends with its parent. */
void gck_child_become(pid_t parent, int out, int err);

#endif

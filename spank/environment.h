/* SPDX-License-Identifier: Apache-2.0
 * The environments of common/base/control.h: what a rank finds beside the user's, and the
 * agent's. */
#ifndef GCK_SPANK_ENVIRONMENT_H
#define GCK_SPANK_ENVIRONMENT_H

#include <slurm/spank.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/options.h"

/* SLURM_RESTART_COUNT of the job, 0 if it was never requeued. */
unsigned gck_environment_restarts(spank_t spank);

/* In sbatch and salloc: drop that of the job that submits. */
void gck_environment_submit(void);

/* The job has several components (srun a : b). */
bool gck_environment_heterogeneous(spank_t spank);

/* In srun, before the step is launched: settings of Slurm's PMIx, if it has that, that a restart
 * needs. */
int gck_environment_launch(struct gck_error *err);

/* In a task: set what its preload needs. preload: one library or more, with colons between. */
int gck_environment_rank(spank_t spank, const char *preload, const char *link, unsigned restarts,
			 struct gck_error *err);

/* In a task, for the stand-in for MPI: is it wanted whatever comes (mpi=openmpi)? And for
 * `able`: why it was left out; "": it was not. */
int gck_environment_mpi(spank_t spank, bool must, const char *aside, struct gck_error *err);

/* In a task: the agent's environment and arguments, NULL-terminated. They live until the exec. */
char **gck_environment_agent(spank_t spank, const char *conf_path, const char *link,
			     const struct gck_options *o, unsigned restarts, struct gck_error *err);
char **gck_environment_arguments(spank_t spank, struct gck_error *err);

#endif

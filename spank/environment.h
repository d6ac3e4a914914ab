/* SPDX-License-Identifier: Apache-2.0
 * The environments of common/base/control.h: variables added to a rank's, and the agent's. */
#ifndef GCK_SPANK_ENVIRONMENT_H
#define GCK_SPANK_ENVIRONMENT_H

#include <slurm/spank.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/options.h"

/* SLURM_RESTART_COUNT of the job; 0: it was never requeued. */
unsigned gck_environment_restarts(spank_t spank);

/* In sbatch and salloc: remove the SLURM_RESTART_COUNT of the job that submits. */
void gck_environment_submit(void);

/* In srun of a restarted job, before it reads its environment: if the step has the option, its
 * output files are opened without emptying them, unless the user has chosen. And after that: leave
 * no trace of it in the step's environment. */
void gck_environment_keep_output(void);
void gck_environment_kept_output(void);

/* In srun: does Slurm empty the batch job's output file when it starts the job again? */
bool gck_environment_output_is_emptied(void);

/* Does the job have several components (srun a : b)? */
bool gck_environment_heterogeneous(spank_t spank);

/* In srun, before the step is launched: set what a restart needs of Slurm's PMIx, if it is used. */
GCK_MUST_CHECK int gck_environment_launch(struct gck_error *err);

/* In a task: set the variables of the rank. preload: libraries, separated by colons. */
GCK_MUST_CHECK int gck_environment_rank(spank_t spank, const char *preload, const char *link,
					unsigned restarts, struct gck_error *err);

/* In a task: tell the stand-in for MPI whether it is required (must: mpi=openmpi), and `gpuckpt
 * able` why it was left out (left_out; "": it was not). */
GCK_MUST_CHECK int gck_environment_mpi(spank_t spank, bool must, const char *left_out,
				       struct gck_error *err);

/* In a task: tell the stand-in for the CUDA driver how the driver is carried (struct gck_standins),
 * and which kernels are to have points. */
GCK_MUST_CHECK int gck_environment_cuda(spank_t spank, const char *engine, const char *kernels,
					struct gck_error *err);

/* In a task: have Slurm, and later the preload, execute gpuckpt-parent for a program that takes no
 * preload. Where that is not possible, the task stays as it is. */
void gck_environment_parent(spank_t spank, const char *agent_path);

/* In a task: the agent's environment and arguments, NULL-terminated. They live until the exec. */
char **gck_environment_agent(spank_t spank, const char *conf_path, const char *link,
			     const struct gck_options *o, unsigned restarts, struct gck_error *err);
char **gck_environment_arguments(spank_t spank, struct gck_error *err);

#endif

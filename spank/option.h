/* SPDX-License-Identifier: Apache-2.0
 * The option --gpu-ckpt of srun, sbatch and salloc, with defaults from gpuckpt.conf. */
#ifndef GCK_SPANK_OPTION_H
#define GCK_SPANK_OPTION_H

#include <slurm/spank.h>
#include <stdbool.h>

#include "common/base/conf.h"

/* Read the plugin's arguments in plugstack.conf (conf=PATH), and register the option. */
GCK_MUST_CHECK int gck_option_register(spank_t spank, int ac, char *argv[], struct gck_error *err);

/* In srun, sbatch and salloc, before they read their environment: take SLURM_GPU_CKPT,
 * SBATCH_GPU_CKPT or SALLOC_GPU_CKPT as the option. -1: no memory. */
GCK_MUST_CHECK int gck_option_environment(void);

/* In srun, before it reads its options: does its environment have the option? */
bool gck_option_inherited(void);

/* Was the option given, to srun or to the sbatch or salloc of this job? */
bool gck_option_given(void);

/* Is this "program" the option's text, which a blank separates from --gpu-ckpt? */
bool gck_option_misplaced(const char *program);

/* Read gpuckpt.conf, then set the user's options over its defaults. On failure o still has what
 * could be read, so that the caller knows `require`. */
int gck_option_read(struct gck_conf *conf, struct gck_options *o, struct gck_error *err);

const char *gck_option_conf_path(void);

#endif

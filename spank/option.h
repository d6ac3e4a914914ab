/* SPDX-License-Identifier: Apache-2.0
 * --gpu-ckpt as srun, sbatch and salloc take it, and gpuckpt.conf below it. */
#ifndef GCK_SPANK_OPTION_H
#define GCK_SPANK_OPTION_H

#include <slurm/spank.h>
#include <stdbool.h>

#include "common/base/conf.h"

/* Take the plugin's arguments in plugstack.conf (conf=PATH), and register the option. */
int gck_option_register(spank_t spank, int ac, char *argv[], struct gck_error *err);

/* Was the option given (by the user, or to sbatch or salloc around this step)? */
bool gck_option_given(void);

/* gpuckpt.conf, and its defaults with the user's text over them. o is the best that could be read
 * even on failure, so that its `require` says how bad the failure is. */
int gck_option_read(struct gck_conf *conf, struct gck_options *o, struct gck_error *err);

const char *gck_option_conf_path(void);

#endif

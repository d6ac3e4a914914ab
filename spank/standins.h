/* SPDX-License-Identifier: Apache-2.0
 * The libraries that go in front of a step's tasks: the preload, and the stand-ins for Open MPI's libraries
 * and the CUDA driver's. */
#ifndef GCK_SPANK_STANDINS_H
#define GCK_SPANK_STANDINS_H

#include <limits.h>

#include "common/base/conf.h"
#include "common/base/options.h"

struct gck_standins {
	char preload[4 * PATH_MAX + 32]; /* what goes in front of the tasks' LD_PRELOAD */
	struct gck_error aside;          /* why mpi=auto left MPI's stand-in out; code 0: it did not */
};

/* -1: one that the options ask for is not on this node. */
int gck_standins_choose(struct gck_standins *s, const struct gck_conf *c, const struct gck_options *o,
			struct gck_error *err);

/* Can the plugin's user have the file in this way (access(2))? key: where gpuckpt.conf names it. */
int gck_standins_check_access(const char *path, int mode, const char *key, struct gck_error *err);

#endif

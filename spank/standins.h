/* SPDX-License-Identifier: Apache-2.0
 * The libraries that are preloaded into a step's tasks: the preload, and the stand-ins for Open
 * MPI's libraries and the CUDA driver's. Independent of SPANK. */
#ifndef GCK_SPANK_STANDINS_H
#define GCK_SPANK_STANDINS_H

#include <limits.h>

#include "common/base/conf.h"
#include "common/base/options.h"

struct gck_standins {
	char preload[4 * (PATH_MAX + 40)]; /* put in front of the tasks' LD_PRELOAD */
	struct gck_error mpi_left_out; /* why mpi=auto left out MPI's stand-in; 0: it is in */
	const char *cuda_engine; /* how the CUDA driver may be carried, as its stand-in is told
				  * (doc/cuda.md): "auto" or "replay"; NULL: in the image */
};

/* Choose the libraries for a step. conf_path: gpuckpt.conf, for messages. -1: a library that the
 * options request does not exist on this node. */
GCK_MUST_CHECK int gck_standins_choose(struct gck_standins *s, const struct gck_conf *c,
				       const char *conf_path, const struct gck_options *o,
				       struct gck_error *err);

/* Check that the plugin's user can access a file (access(2)). key: its name in gpuckpt.conf. */
GCK_MUST_CHECK int gck_standins_check_access(const char *path, int mode, const char *key,
					     const char *conf_path, struct gck_error *err);

#define GCK_CUDA_DEVICE "/dev/nvidiactl" /* exists while the driver's module is loaded */

/* Is the stand-in for the CUDA driver loaded into a step's tasks? library: the stand-in; device:
 * GCK_CUDA_DEVICE. 1: yes, 0: no, -1: it was requested and does not exist. */
GCK_MUST_CHECK int gck_cuda_wanted(enum gck_gpu choice, const char *library, const char *device,
				   struct gck_error *err);

#endif

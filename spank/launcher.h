/* SPDX-License-Identifier: Apache-2.0
 * Steps of an MPI launcher. mpirun starts its daemons on the other nodes by srun, which inherits
 * the job's --gpu-ckpt; on its own node it starts ranks itself. Ranks of such a step are children
 * of daemons, and no checkpoint could have all of them. Independent of SPANK. */
#ifndef GCK_SPANK_LAUNCHER_H
#define GCK_SPANK_LAUNCHER_H

#include <stdbool.h>

/* Whether a step's program is an MPI launcher or its daemon. */
bool gck_launcher_is(const char *program);

/* Print a line to the user, in srun. A launcher gives srun /dev/null as standard error; the line
 * then goes to the launcher's own. */
void gck_launcher_tell(const char *text);

#endif

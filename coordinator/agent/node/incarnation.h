/* SPDX-License-Identifier: Apache-2.0
 * The end of a start of the job that is not the newest: Slurm has requeued the job, and slurmd,
 * which should have ended this start here, has not (it died, or its node stood still). */
#ifndef AGENT_INCARNATION_H
#define AGENT_INCARNATION_H

#include "coordinator/agent/base/agent.h"

/* Stops the ranks at once, ends the job's script and its srun where they are on this node (with the
 * ranks gone, the script would go on), and then the ranks. why is told to the user. Idempotent. */
void incarnation_end(struct agent *a, const char *why);

/* Does the job's script run on this node? */
bool incarnation_has_script(const struct agent *a);

/* Has it been told to end, and have all its ranks on this node ended? */
bool incarnation_is_over(const struct agent *a);

#endif

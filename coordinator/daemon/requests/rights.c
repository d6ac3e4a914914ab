/* SPDX-License-Identifier: Apache-2.0
 * Who is answered: the owner of the job or step, root, SlurmUser and the coordinator's own user. The uid is
 * munge's word. (Operators and administrators of Slurm's accounting go through one of these.) */
#include <unistd.h>

#include "coordinator/daemon/requests/request.h"

bool gck_may_see(const struct gck_daemon *d, uid_t uid, uid_t owner)
{
	return uid == 0 || uid == owner || uid == d->slurm_user || uid == geteuid();
}

/* SPDX-License-Identifier: Apache-2.0
 * What a restore knows of its processes. */
#include "config.h"

#include "shim/process/ptrace/rebuild.h"

pid_t gck_restore_pid(const struct gck_restore *r, int32_t before)
{
	pid_t found = 0;

	for (size_t i = 0; i < r->img->nchildren && !found; i++)
		if (r->img->children[i].before == before)
			found = r->img->children[i].rpid;
	for (size_t i = 0; i < r->nchildren && !found; i++)
		found = gck_restore_pid(r->children[i], before);
	return found;
}

/* SPDX-License-Identifier: Apache-2.0
 * What a restore knows of its processes. */
#include "config.h"

#include "shim/process/ptrace/rebuild.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

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

pid_t gck_restore_tid(const struct gck_restore *r, int32_t before)
{
	pid_t found = 0;

	for (size_t i = 0; i < r->img->nthreads && !found; i++)
		if (r->img->threads[i].before == before)
			found = r->img->threads[i].rtid;
	for (size_t i = 0; i < r->nchildren && !found; i++)
		found = gck_restore_tid(r->children[i], before);
	return found;
}

void gck_rebuild_clone(const struct gck_restore *r, struct gck_rebuild_clone *c, uint64_t address,
		       int32_t number)
{
	*c = (struct gck_rebuild_clone){.number = number};
	if (!r->root->keeps_numbers || !number)
		return;
	c->args.set_tid = address + offsetof(struct gck_rebuild_clone, number);
	c->args.set_tid_size = 1;
}

int gck_rebuild_cloned(const struct gck_restore *r, int64_t result, int32_t number,
		       struct gck_error *err)
{
	if (r->root->keeps_numbers && (result == -EEXIST || result == -EPERM))
		return gck_fail(err, (int)-result, "it cannot get its old number %d, which a "
				"static program may know: %s", (int)number,
				result == -EEXIST ? "another process has it" : "not permitted");
	return gck_remote_check(result, err, "it cannot be made: raise the limit of processes");
}

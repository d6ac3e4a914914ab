/* SPDX-License-Identifier: Apache-2.0
 * Restore: the state of the rank's preload (struct gck_shim_state) for the new task: its PIDs,
 * TIDs, link, standard descriptors, GPUs and environment. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shim/process/gpu/gpu.h"
#include "shim/process/ipc/ipc.h"
#include "shim/process/objects/objects.h"
#include "shim/process/restore/restore.h"

static bool add(struct gck_shim_state *s, int32_t vtid, int32_t rtid)
{
	if (s->ntids == GCK_SHIM_MAX_TIDS)
		return false;
	s->tids[s->ntids++] = (struct gck_shim_tid){vtid, rtid};
	return true;
}

/* The processes that r has made, and those below them, but the one of the table itself. */
static bool add_processes(const struct gck_restore *r, const struct gck_restore *of,
			  struct gck_shim_state *s)
{
	for (size_t i = 0; i < r->img->nchildren; i++) {
		const struct gck_child *x = &r->img->children[i];

		if ((x->rpid != of->remote.pid && !add(s, x->vpid, x->rpid)) ||
		    (x->leader && !add(s, x->leader, x->leader_rpid)))
			return false;
	}
	for (size_t i = 0; i < r->nchildren; i++)
		if (!add_processes(r->children[i], of, s))
			return false;
	return true;
}

/* Every process knows all of the rank's. */
static bool set_table(const struct gck_restore *r, struct gck_shim_state *s)
{
	const struct gck_restore *root = r->root;

	memset(s->tids, 0, sizeof s->tids);
	s->ntids = 0;
	for (size_t i = 0; i < r->img->nthreads; i++)
		if (!add(s, r->img->threads[i].vtid, r->img->threads[i].rtid))
			return false;
	return (r == root || add(s, root->img->vpid, root->remote.pid)) &&
	       add_processes(root, r, s);
}

/* Record the new task's standard input, output and error. */
static void set_stdio(const struct gck_restore *r, struct gck_shim_state *s)
{
	char path[64];
	struct stat st;

	memset(s->stdio, 0, sizeof s->stdio);
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "/proc/%d/fd/%d", r->remote.pid, r->high + i);
		if (stat(path, &st))
			continue;
		s->stdio[i][0] = st.st_dev;
		s->stdio[i][1] = st.st_ino;
	}
}

int gck_restore_state(struct gck_restore *r, struct gck_error *err)
{
	struct gck_shim_state *s = malloc(sizeof *s);
	int failed = -1;

	if (!s)
		return gck_fail(err, ENOMEM, "no memory for the shim's state");
	if (gck_remote_read(&r->remote, r->img->shim_state, s, sizeof *s, err))
		goto out;
	if (s->magic != GCK_SHIM_MAGIC || s->version != GCK_LINK_VERSION || s->size != sizeof *s) {
		gck_fail(err, ENOTSUP,
			 "the image was taken with another version of gpuckpt's preload: "
			 "restart with that version");
		goto out;
	}
	s->vpid = r->img->vpid; /* that of a child by fork is its parent's */
	s->rpid = r->remote.pid;
	s->rank_pid = r->root->remote.pid;
	s->features &= ~GCK_SHIM_SUMMONED;
	memcpy(s->link, r->link_name, sizeof s->link);
	s->helper_tid = r->helper;
	s->link_fd = -1;
	s->restarts = r->img->restarts + 1;
	s->all_restored = r->all_asked;
	s->requests[GCK_REQUEST_ONE].committed = s->requests[GCK_REQUEST_ONE].asked;
	s->linked = 0;
	s->tracer = GCK_TRACER_ANY; /* the agent of before is gone; GO names the new one */
	r->helper_entry = s->helper_entry;
	r->helper_stack = s->helper_stack_top;
	if (!set_table(r, s)) {
		gck_fail(err, E2BIG, "the rank has more than %d threads and processes",
			 GCK_SHIM_MAX_TIDS);
		goto out;
	}
	if (!gck_restore_ipc_table(r, s)) {
		gck_fail(err, E2BIG, "the rank has more than %d System V objects", GCK_SHIM_IPC);
		goto out;
	}
	set_stdio(r, s);
	gck_restore_handlers(r->img, s);
	r->has_mpi = s->mpi_state != 0;
	r->has_cuda = s->cuda_state != 0;
	if (r->has_cuda && !r->trial && gck_restore_gpus(r, s->cuda_state, err))
		goto out;
	if (gck_restore_environ(r, s, err))
		goto out;
	failed = gck_remote_write(&r->remote, r->img->shim_state, s, sizeof *s, err);
out:
	free(s);
	return failed;
}

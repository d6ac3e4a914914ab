/* SPDX-License-Identifier: Apache-2.0
 * Restore: the state of the rank's preload (struct gck_shim_state) for the new task: its PIDs,
 * TIDs, link, standard descriptors, GPUs and environment. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shim/process/gpu/gpu.h"
#include "shim/process/objects/objects.h"
#include "shim/process/restore/restore.h"

static void set_table(const struct gck_restore *r, struct gck_shim_state *s)
{
	memset(s->tids, 0, sizeof s->tids);
	for (size_t i = 0; i < r->img->nthreads; i++)
		s->tids[i] =
			(struct gck_shim_tid){r->img->threads[i].vtid, r->img->threads[i].rtid};
	for (size_t i = 0; i < r->img->nchildren; i++)
		s->tids[r->img->nthreads + i] =
			(struct gck_shim_tid){r->img->children[i].vpid, r->img->children[i].rpid};
	s->ntids = (uint32_t)(r->img->nthreads + r->img->nchildren);
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
	if (s->magic != GCK_SHIM_MAGIC || s->version != GCK_LINK_VERSION || s->size != sizeof *s ||
	    r->img->nthreads + r->img->nchildren > GCK_SHIM_MAX_TIDS) {
		gck_fail(err, ENOTSUP,
			 "the image was taken with another version of gpuckpt's preload: "
			 "restart with that version");
		goto out;
	}
	s->rpid = r->remote.pid;
	memcpy(s->link, r->link_name, sizeof s->link);
	s->helper_tid = r->helper;
	s->link_fd = -1;
	s->restarts = r->img->restarts + 1;
	s->all_restored = r->all_asked;
	s->requests[GCK_REQUEST_ONE].committed = s->requests[GCK_REQUEST_ONE].asked;
	s->linked = 0;
	r->helper_entry = s->helper_entry;
	r->helper_stack = s->helper_stack_top;
	set_table(r, s);
	set_stdio(r, s);
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

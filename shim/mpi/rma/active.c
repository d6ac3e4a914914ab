/* SPDX-License-Identifier: Apache-2.0
 * Active target synchronisation among some ranks (post, start, complete, wait) by empty messages in
 * the window's private communicator. A target sends one to each origin when it posts, an origin one
 * to each target when it completes. Messages in flight and pending receives survive a restart as
 * any others. */
#include "config.h"

#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/rma/rma.h"

enum { TAG_POSTED, TAG_COMPLETED };

/* The *n ranks of the group in the window's communicator, for the caller to free. NULL: *rc is the
 * error. */
static int *ranks_of(struct gck_mpi_win *w, MPI_Group group, int *n, int *rc)
{
	MPI_Group all = MPI_GROUP_NULL;
	int *from = NULL, *to = NULL;

	*rc = PMPI_Group_size(group, n);
	if (*rc)
		return NULL;
	*rc = PMPI_Comm_group(w->comm, &all);
	from = calloc((size_t)*n + 1, sizeof(*from));
	to = calloc((size_t)*n + 1, sizeof(*to));
	for (int i = 0; from && i < *n; i++)
		from[i] = i;
	if (!*rc)
		*rc = from && to ? PMPI_Group_translate_ranks(group, *n, from, all, to)
				 : MPI_ERR_NO_MEM;
	for (int i = 0; !*rc && i < *n; i++)
		if (to[i] == MPI_UNDEFINED)
			*rc = MPI_ERR_GROUP;
	if (all != MPI_GROUP_NULL)
		PMPI_Group_free(&all);
	free(from);
	if (!*rc)
		return to;
	free(to);
	return NULL;
}

/* ---- access --------------------------------------------------------------------------------- */

static void forget_access(struct gck_mpi_win *w)
{
	for (int i = 0; i < w->nstarted; i++)
		w->targets[w->started[i]] = GCK_MPI_TARGET_NONE;
	free(w->started);
	free(w->posts);
	w->started = NULL;
	w->posts = NULL;
	w->nstarted = 0;
	w->epoch = GCK_MPI_EPOCH_NONE;
}

static int start(struct gck_mpi_win *w, MPI_Group group, int assert)
{
	bool check = !(assert & MPI_MODE_NOCHECK);
	int rc;

	if (w->epoch != GCK_MPI_EPOCH_NONE &&
	    (w->epoch != GCK_MPI_EPOCH_FENCE || w->fence_used))
		return MPI_ERR_RMA_SYNC;
	w->started = ranks_of(w, group, &w->nstarted, &rc);
	if (rc)
		return rc;
	w->posts = calloc((size_t)w->nstarted + 1, sizeof(*w->posts));
	rc = w->posts ? MPI_SUCCESS : MPI_ERR_NO_MEM;
	w->epoch = GCK_MPI_EPOCH_STARTED;
	for (int i = 0; i < w->nstarted && !rc; i++) {
		w->posts[i] = MPI_REQUEST_NULL;
		w->targets[w->started[i]] = check ? GCK_MPI_TARGET_STARTED : GCK_MPI_TARGET_POSTED;
		if (check)
			rc = PMPI_Irecv(NULL, 0, MPI_BYTE, w->started[i], TAG_POSTED, w->comm,
					&w->posts[i]);
	}
	if (rc)
		forget_access(w);
	return rc;
}

GCK_MPI_FUNCTION(Win_start, (MPI_Group group, int assert, MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? start(w, group, assert) : MPI_ERR_WIN, "MPI_Win_start");
}

int gck_mpi_epoch_await_post(struct gck_mpi_win *w, int target)
{
	for (int i = 0; i < w->nstarted; i++) {
		int rc;

		if (w->started[i] != target)
			continue;
		rc = PMPI_Wait(&w->posts[i], MPI_STATUS_IGNORE);
		if (rc)
			return rc;
		w->targets[target] = GCK_MPI_TARGET_POSTED;
	}
	return MPI_SUCCESS;
}

static int complete(struct gck_mpi_win *w)
{
	int rc;

	if (w->epoch != GCK_MPI_EPOCH_STARTED)
		return MPI_ERR_RMA_SYNC;
	rc = PMPI_Waitall(w->nstarted, w->posts, MPI_STATUSES_IGNORE);
	if (rc)
		return rc;
	gck_mpi_enter_as("MPI_Win_complete");
	rc = gck_mpi_real.Win_flush_all(GCK_MPI_REAL_WIN(w));
	gck_mpi_leave();
	for (int i = 0; i < w->nstarted && !rc; i++)
		rc = PMPI_Send(NULL, 0, MPI_BYTE, w->started[i], TAG_COMPLETED, w->comm);
	forget_access(w);
	return rc;
}

GCK_MPI_FUNCTION(Win_complete, (MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? complete(w) : MPI_ERR_WIN, "MPI_Win_complete");
}

/* ---- exposure ------------------------------------------------------------------------------- */

static void forget_exposure(struct gck_mpi_win *w)
{
	free(w->origins);
	w->origins = NULL;
	w->nexposed = 0;
	w->exposed = false;
}

static int post(struct gck_mpi_win *w, MPI_Group group, int assert)
{
	bool check = !(assert & MPI_MODE_NOCHECK);
	int rc, n, *ranks;

	if (w->exposed)
		return MPI_ERR_RMA_SYNC;
	ranks = ranks_of(w, group, &n, &rc);
	if (rc)
		return rc;
	w->origins = calloc((size_t)n + 1, sizeof(*w->origins));
	rc = w->origins ? MPI_SUCCESS : MPI_ERR_NO_MEM;
	for (int i = 0; i < n && !rc; i++)
		rc = PMPI_Irecv(NULL, 0, MPI_BYTE, ranks[i], TAG_COMPLETED, w->comm,
				&w->origins[w->nexposed++]);
	for (int i = 0; i < n && !rc && check; i++)
		rc = PMPI_Send(NULL, 0, MPI_BYTE, ranks[i], TAG_POSTED, w->comm);
	free(ranks);
	w->exposed = true;
	if (rc)
		forget_exposure(w);
	return rc;
}

GCK_MPI_FUNCTION(Win_post, (MPI_Group group, int assert, MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? post(w, group, assert) : MPI_ERR_WIN, "MPI_Win_post");
}

static int await_origins(struct gck_mpi_win *w)
{
	int rc;

	if (!w->exposed)
		return MPI_ERR_RMA_SYNC;
	rc = PMPI_Waitall(w->nexposed, w->origins, MPI_STATUSES_IGNORE);
	if (!rc)
		forget_exposure(w);
	return rc;
}

GCK_MPI_FUNCTION(Win_wait, (MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? await_origins(w) : MPI_ERR_WIN, "MPI_Win_wait");
}

static int test_origins(struct gck_mpi_win *w, int *flag)
{
	int rc;

	if (!w->exposed)
		return MPI_ERR_RMA_SYNC;
	rc = PMPI_Testall(w->nexposed, w->origins, flag, MPI_STATUSES_IGNORE);
	if (!rc && *flag)
		forget_exposure(w);
	return rc;
}

GCK_MPI_FUNCTION(Win_test, (MPI_Win win, int *flag))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? test_origins(w, flag) : MPI_ERR_WIN, "MPI_Win_test");
}

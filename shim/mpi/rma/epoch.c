/* SPDX-License-Identifier: Apache-2.0
 * Access epochs of windows: fences, passive targets, flushes. */
#include "config.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/rma/rma.h"

int gck_mpi_epoch_check(struct gck_mpi_win *w, int target)
{
	if (target == MPI_PROC_NULL)
		return MPI_SUCCESS;
	if (target < 0 || target >= w->nranks)
		return MPI_ERR_RANK;
	switch (w->epoch) {
	case GCK_MPI_EPOCH_LOCKED_ALL:
		return MPI_SUCCESS;
	case GCK_MPI_EPOCH_LOCKED:
		return w->targets[target] ? MPI_SUCCESS : MPI_ERR_RMA_SYNC;
	case GCK_MPI_EPOCH_FENCE:
		w->fence_used = true;
		return MPI_SUCCESS;
	case GCK_MPI_EPOCH_STARTED:
		if (w->targets[target] == GCK_MPI_TARGET_STARTED)
			return gck_mpi_epoch_await_post(w, target);
		return w->targets[target] ? MPI_SUCCESS : MPI_ERR_RMA_SYNC;
	default:
		return MPI_ERR_RMA_SYNC;
	}
}

/* ---- fences --------------------------------------------------------------------------------- */

/* Completes all operations that this rank has started, here and at their targets. */
static int flush_all(struct gck_mpi_win *w, const char *function)
{
	int rc;

	gck_mpi_enter_as(function);
	rc = gck_mpi_real.Win_flush_all(GCK_MPI_REAL_WIN(w));
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(Win_fence, (int assert, MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);
	int rc = MPI_SUCCESS;

	if (!w)
		rc = MPI_ERR_WIN;
	else if (w->epoch != GCK_MPI_EPOCH_NONE && w->epoch != GCK_MPI_EPOCH_FENCE)
		rc = MPI_ERR_RMA_SYNC;
	else if (!(assert & MPI_MODE_NOPRECEDE) || w->fence_used)
		rc = flush_all(w, "MPI_Win_fence");
	if (!rc)
		rc = PMPI_Barrier(w->comm);
	if (!rc) {
		w->fence_used = false;
		w->epoch = assert & MPI_MODE_NOSUCCEED ? GCK_MPI_EPOCH_NONE : GCK_MPI_EPOCH_FENCE;
	}
	return gck_mpi_error(win, rc, "MPI_Win_fence");
}

/* ---- passive targets ------------------------------------------------------------------------ */

/* True if a passive epoch may begin. A fence with no operation after it is not an epoch. */
static bool may_begin(const struct gck_mpi_win *w)
{
	return w->epoch == GCK_MPI_EPOCH_NONE ||
	       (w->epoch == GCK_MPI_EPOCH_FENCE && !w->fence_used);
}

static int mark_locked(struct gck_mpi_win *w, int target, enum gck_mpi_target how)
{
	int rc = MPI_SUCCESS;

	pthread_mutex_lock(&w->lock);
	if (!may_begin(w) && w->epoch != GCK_MPI_EPOCH_LOCKED)
		rc = MPI_ERR_RMA_SYNC;
	else if (w->targets[target])
		rc = MPI_ERR_RMA_SYNC; /* locked already */
	if (!rc) {
		w->targets[target] = how;
		w->epoch = GCK_MPI_EPOCH_LOCKED;
		w->nlocked++;
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

static enum gck_mpi_target unmark_locked(struct gck_mpi_win *w, int target)
{
	enum gck_mpi_target was;

	pthread_mutex_lock(&w->lock);
	was = w->targets[target];
	w->targets[target] = GCK_MPI_TARGET_NONE;
	if (--w->nlocked == 0)
		w->epoch = GCK_MPI_EPOCH_NONE;
	pthread_mutex_unlock(&w->lock);
	return was;
}

static int lock_one(struct gck_mpi_win *w, int type, int target, int assert)
{
	bool exclusive = type == MPI_LOCK_EXCLUSIVE;
	enum gck_mpi_target how = exclusive ? GCK_MPI_TARGET_EXCLUSIVE : GCK_MPI_TARGET_SHARED;
	int rc;

	if (type != MPI_LOCK_EXCLUSIVE && type != MPI_LOCK_SHARED)
		return MPI_ERR_LOCKTYPE;
	if (target == MPI_PROC_NULL)
		return MPI_SUCCESS;
	if (target < 0 || target >= w->nranks)
		return MPI_ERR_RANK;
	if (w->no_locks)
		return MPI_ERR_RMA_SYNC;
	if (assert & MPI_MODE_NOCHECK)
		how = GCK_MPI_TARGET_NOCHECK;
	rc = mark_locked(w, target, how);
	if (!rc && how != GCK_MPI_TARGET_NOCHECK) {
		rc = gck_mpi_lock_acquire(w, target, exclusive, "MPI_Win_lock");
		if (rc)
			unmark_locked(w, target);
	}
	return rc;
}

GCK_MPI_FUNCTION(Win_lock, (int lock_type, int rank, int assert, MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? lock_one(w, lock_type, rank, assert) : MPI_ERR_WIN,
			     "MPI_Win_lock");
}

/* Checks for an epoch of MPI_Win_lock on this target, or of MPI_Win_lock_all. */
static int check_passive(const struct gck_mpi_win *w, int target)
{
	if (!w)
		return MPI_ERR_WIN;
	if (target != MPI_PROC_NULL && (target < 0 || target >= w->nranks))
		return MPI_ERR_RANK;
	if (w->epoch == GCK_MPI_EPOCH_LOCKED_ALL || target == MPI_PROC_NULL)
		return MPI_SUCCESS;
	return w->epoch == GCK_MPI_EPOCH_LOCKED && w->targets[target] ? MPI_SUCCESS
								      : MPI_ERR_RMA_SYNC;
}

static int flush_one(struct gck_mpi_win *w, int target, bool local, const char *function)
{
	MPI_Win real;
	int rc;

	if (target == MPI_PROC_NULL)
		return MPI_SUCCESS;
	gck_mpi_enter_as(function);
	real = GCK_MPI_REAL_WIN(w);
	rc = local ? gck_mpi_real.Win_flush_local(target, real)
		   : gck_mpi_real.Win_flush(target, real);
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(Win_unlock, (int rank, MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);
	enum gck_mpi_target was;
	int rc = check_passive(w, rank);

	if (!rc && w->epoch == GCK_MPI_EPOCH_LOCKED_ALL)
		rc = MPI_ERR_RMA_SYNC;
	if (!rc && rank != MPI_PROC_NULL) {
		rc = flush_one(w, rank, false, "MPI_Win_unlock");
		was = unmark_locked(w, rank);
		if (!rc && was != GCK_MPI_TARGET_NOCHECK)
			rc = gck_mpi_lock_release(w, rank, was == GCK_MPI_TARGET_EXCLUSIVE,
						  "MPI_Win_unlock");
	}
	return gck_mpi_error(win, rc, "MPI_Win_unlock");
}

static int lock_all(struct gck_mpi_win *w, int assert)
{
	bool checked = !(assert & MPI_MODE_NOCHECK);
	int rc;

	if (!may_begin(w) || w->no_locks)
		return MPI_ERR_RMA_SYNC;
	rc = checked ? gck_mpi_lock_acquire_all(w, "MPI_Win_lock_all") : MPI_SUCCESS;
	if (!rc) {
		w->nlocked = checked;
		w->epoch = GCK_MPI_EPOCH_LOCKED_ALL;
	}
	return rc;
}

GCK_MPI_FUNCTION(Win_lock_all, (int assert, MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? lock_all(w, assert) : MPI_ERR_WIN, "MPI_Win_lock_all");
}

static int unlock_all(struct gck_mpi_win *w)
{
	int rc;

	if (w->epoch != GCK_MPI_EPOCH_LOCKED_ALL)
		return MPI_ERR_RMA_SYNC;
	rc = flush_all(w, "MPI_Win_unlock_all");
	for (int i = 0; i < w->nranks && !rc && w->nlocked; i++)
		rc = gck_mpi_lock_release(w, i, false, "MPI_Win_unlock_all");
	w->nlocked = 0;
	w->epoch = GCK_MPI_EPOCH_NONE;
	return rc;
}

GCK_MPI_FUNCTION(Win_unlock_all, (MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? unlock_all(w) : MPI_ERR_WIN, "MPI_Win_unlock_all");
}

/* ---- flushes -------------------------------------------------------------------------------- */

GCK_MPI_FUNCTION(Win_flush, (int rank, MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);
	int rc = check_passive(w, rank);

	if (!rc)
		rc = flush_one(w, rank, false, "MPI_Win_flush");
	return gck_mpi_error(win, rc, "MPI_Win_flush");
}

GCK_MPI_FUNCTION(Win_flush_local, (int rank, MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);
	int rc = check_passive(w, rank);

	if (!rc)
		rc = flush_one(w, rank, true, "MPI_Win_flush_local");
	return gck_mpi_error(win, rc, "MPI_Win_flush_local");
}

static int check_any_passive(const struct gck_mpi_win *w)
{
	if (!w)
		return MPI_ERR_WIN;
	return w->epoch == GCK_MPI_EPOCH_LOCKED || w->epoch == GCK_MPI_EPOCH_LOCKED_ALL
		       ? MPI_SUCCESS
		       : MPI_ERR_RMA_SYNC;
}

GCK_MPI_FUNCTION(Win_flush_all, (MPI_Win win))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);
	int rc = check_any_passive(w);

	if (!rc)
		rc = flush_all(w, "MPI_Win_flush_all");
	return gck_mpi_error(win, rc, "MPI_Win_flush_all");
}

GCK_MPI_FUNCTION(Win_flush_local_all, (MPI_Win win))
{
	int rc = check_any_passive(gck_mpi_win_of(win));

	if (!rc) {
		gck_mpi_enter();
		rc = gck_mpi_real.Win_flush_local_all(GCK_MPI_REAL_WIN(win));
		gck_mpi_leave();
	}
	return gck_mpi_error(win, rc, "MPI_Win_flush_local_all");
}

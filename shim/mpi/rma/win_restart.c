/* SPDX-License-Identifier: Apache-2.0
 * Windows at a checkpoint and over a restart. Epochs and locks are in our memory, and a passive
 * epoch may be flushed at any time; so no rank has to run on for a window, and operations that
 * are under way are ended by the ranks that began them. */
#include "config.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/rma/shared.h"

/* ---- the rounds ----------------------------------------------------------------------------- */

static bool all_flushed;
static bool all_are_here; /* in the quiesce: judged once */

static bool count_one(struct gck_mpi_handle *h, void *n)
{
	*(unsigned long *)n += atomic_load_explicit(&((struct gck_mpi_win *)h)->dirty,
						    memory_order_relaxed);
	return false;
}

/* Threads may be inside, and change the list. */
static unsigned long count_dirty(void)
{
	unsigned long n = 0;

	gck_mpi_first_that(GCK_MPI_WIN, count_one, &n);
	return n;
}

static int put(struct gck_mpi_blob *b, struct gck_error *err)
{
	if (gck_mpi_blob_put(b, count_dirty()))
		return gck_fail(err, ENOMEM, "no memory for the count of windows");
	return 0;
}

static int judge(const struct gck_mpi_words *all, size_t nranks, struct gck_error *err)
{
	all_flushed = all_are_here = true;
	for (size_t r = 0; r < nranks; r++) {
		if (all[r].n > 1)
			return gck_fail(err, EBADMSG, "rank %zu's count of windows makes no sense",
					r);
		if (all[r].n && all[r].v[0])
			all_flushed = false;
	}
	return 0;
}

static bool settled(void)
{
	return all_flushed;
}

/* The flush waits for the targets' libraries to be called: their MPI threads are at this, too, or
 * have left the quiesce a moment ago (quiesce/progress.c). One that knows nothing of it yet may
 * compute for long. */
static int step(struct gck_error *err)
{
	if (!all_are_here)
		return 0;
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_WIN); h; h = h->next) {
		struct gck_mpi_win *w = (struct gck_mpi_win *)h;

		if (!atomic_load_explicit(&w->dirty, memory_order_relaxed))
			continue;
		if (gck_mpi_real.Win_flush_all(GCK_MPI_REAL_WIN(w)))
			return gck_fail(err, EIO,
					"a window of %d ranks cannot be flushed: the real "
					"library's MPI_Win_flush_all failed",
					w->nranks);
		atomic_store_explicit(&w->dirty, false, memory_order_relaxed);
	}
	return 0;
}

static bool done(void)
{
	return !count_dirty();
}

static void over(void)
{
	all_are_here = false;
}

const struct gck_mpi_pending gck_mpi_win_pending = {
    .name = "windows",
    .put = put,
    .judge = judge,
    .settled = settled,
    .step = step,
    .done = done,
    .over = over,
};

/* ---- restart -------------------------------------------------------------------------------- */

static MPI_Comm own_of(const void *win)
{
	return ((const struct gck_mpi_win *)win)->comm;
}

static int rebuild_one(void *win, struct gck_error *err)
{
	struct gck_mpi_win *w = win;

	if (w->shared && gck_mpi_shared_rebuild(w, err))
		return -1;
	if (gck_mpi_win_make_real(w))
		return gck_fail(err, EIO,
				"a window of %d ranks and %lld bytes cannot be made again: the "
				"real library refused it (is its network the same kind as before?)",
				w->nranks, (long long)w->size);
	return 0;
}

static int rebuild(struct gck_error *err)
{
	return gck_mpi_private_each(GCK_MPI_WIN, own_of, rebuild_one, err);
}

const struct gck_mpi_participant gck_mpi_win_participant = {.name = "windows", .rebuild = rebuild};

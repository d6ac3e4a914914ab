/* SPDX-License-Identifier: Apache-2.0
 * Windows at a checkpoint and over a restart. Epochs and locks are in the ranks' memory, and a
 * passive epoch can be flushed at any time. So no rank must run on for a window, and each rank
 * completes the operations that it has started. */
#include "config.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/rma/rma.h"

/* ---- the rounds ----------------------------------------------------------------------------- */

static bool all_flushed;
static bool all_quiescing; /* all ranks are in the quiesce: a round was judged */

static bool count_one(struct gck_mpi_handle *h, void *n)
{
	*(unsigned long *)n += atomic_load_explicit(&((struct gck_mpi_win *)h)->dirty,
						    memory_order_relaxed);
	return false;
}

/* Uses gck_mpi_first_that because threads may be inside MPI and change the list. */
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
	all_flushed = all_quiescing = true;
	for (size_t r = 0; r < nranks; r++) {
		if (all[r].n > 1)
			return gck_fail(err, EBADMSG, "rank %zu's count of windows is invalid", r);
		if (all[r].n && all[r].v[0])
			all_flushed = false;
	}
	return 0;
}

static bool settled(void)
{
	return all_flushed;
}

/* A flush needs progress in the targets' libraries. Their MPI threads are in this step too, or have
 * just left the quiesce (quiesce/progress.c). A rank that is not yet in the quiesce may compute for
 * long, so the flush waits until all are. */
static int step(struct gck_error *err)
{
	if (!all_quiescing)
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
	all_quiescing = false;
}

const struct gck_mpi_round_ops gck_mpi_win_round_ops = {
    .name = "windows",
    .put = put,
    .judge = judge,
    .settled = settled,
    .step = step,
    .done = done,
    .over = over,
};

/* ---- restart -------------------------------------------------------------------------------- */

static MPI_Comm comm_of(const void *win)
{
	return ((const struct gck_mpi_win *)win)->comm;
}

static int rebuild_one(void *win, struct gck_error *err)
{
	struct gck_mpi_win *w = win;

	if (gck_mpi_win_make_real(w))
		return gck_fail(err, EIO,
				"a window of %d ranks and %lld bytes cannot be made again after a "
				"restart: the real library refused it (is the network of the same "
				"kind as before?)",
				w->nranks, (long long)w->size);
	return 0;
}

static int rebuild(struct gck_error *err)
{
	return gck_mpi_private_each(GCK_MPI_WIN, comm_of, rebuild_one, err);
}

const struct gck_mpi_participant gck_mpi_win_participant = {.name = "windows", .rebuild = rebuild};

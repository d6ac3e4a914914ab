/* SPDX-License-Identifier: Apache-2.0
 * Locks of windows: a fair lock for readers and writers, as words in the target's memory, so that
 * its holder and the next one are in the image. A newcomer draws a ticket (`next`). `read` and
 * `write` say whose turn it is, to read and to write; a reader passes `read` on at once and
 * `write` when it leaves, a writer both when it leaves. (After Mellor-Crummey and Scott,
 * "Scalable Reader-Writer Synchronization for Shared-Memory Multiprocessors", PPoPP 1991; with
 * tickets.)
 *
 * The words are read and written under the exclusive lock of a real window, which is held for
 * that moment only. Atomic operations would do as well but for Open MPI 4.1: those of osc/rdma on
 * the rank itself crash over btl/vader, and those of osc/pt2pt hang. */
#include "config.h"

#include <stdlib.h>
#include <time.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/rma/rma.h"

#define SPINS 16            /* tries, one after the other, before a waiter begins to sleep */
#define DOUBLINGS 9         /* of a microsecond, then: half a millisecond */

/* What to do with the words, in one go; true: they are changed. */
typedef bool words_fn(struct gck_mpi_lock_words *w, void *arg);

/* Inside the gate and the window's mutex. */
static int exchange_words(struct gck_mpi_win *w, int target, words_fn *fn, void *arg)
{
	struct gck_mpi_lock_words words;
	MPI_Datatype type = GCK_MPI_REAL_TYPE(MPI_UINT64_T);
	const int n = sizeof(words) / sizeof(words.next);
	int rc = gck_mpi_real.Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->real_locks), rc2;

	if (rc)
		return rc;
	rc = gck_mpi_real.Get(&words, n, type, target, 0, n, type, w->real_locks);
	if (!rc)
		rc = gck_mpi_real.Win_flush(target, w->real_locks);
	if (!rc && fn(&words, arg))
		rc = gck_mpi_real.Put(&words, n, type, target, 0, n, type, w->real_locks);
	rc2 = gck_mpi_real.Win_unlock(target, w->real_locks);
	return rc ? rc : rc2;
}

static int with_words(struct gck_mpi_win *w, int target, words_fn *fn, void *arg,
		      const char *function)
{
	int rc;

	gck_mpi_enter_as(function);
	pthread_mutex_lock(&w->lock);
	rc = exchange_words(w, target, fn, arg);
	pthread_mutex_unlock(&w->lock);
	gck_mpi_leave();
	return rc;
}

struct turn {
	bool exclusive, drawn, mine;
	uint64_t ticket;
};

/* Draw a ticket if there is none; take the turn if it has come. */
static bool take_turn(struct gck_mpi_lock_words *w, void *arg)
{
	struct turn *t = arg;
	bool changed = !t->drawn;

	if (!t->drawn)
		t->ticket = w->next++;
	t->drawn = true;
	t->mine = (t->exclusive ? w->write : w->read) == t->ticket;
	if (t->mine && !t->exclusive) {
		w->read++;
		changed = true;
	}
	return changed;
}

static bool give_turn(struct gck_mpi_lock_words *w, void *arg)
{
	const struct turn *t = arg;

	if (t->exclusive)
		w->read++;
	w->write++;
	return true;
}

/* Between two tries, outside the gate: at first not at all, then longer and longer. */
static void pause_a_moment(unsigned tries)
{
	unsigned doublings = tries < SPINS ? 0 : tries - SPINS;
	struct timespec t = {0, 1000L << (doublings < DOUBLINGS ? doublings : DOUBLINGS)};

	if (tries >= SPINS)
		nanosleep(&t, NULL);
}

static int await_turn(struct gck_mpi_win *w, int target, struct turn *t, const char *function)
{
	int rc = with_words(w, target, take_turn, t, function);

	for (unsigned tries = 0; !rc && !t->mine; tries++) {
		pause_a_moment(tries);
		rc = with_words(w, target, take_turn, t, function);
	}
	return rc;
}

int gck_mpi_lock_acquire(struct gck_mpi_win *w, int target, bool exclusive, const char *function)
{
	struct turn t = {.exclusive = exclusive};

	return await_turn(w, target, &t, function);
}

/* Tickets of all first, then the waiting. */
int gck_mpi_lock_acquire_all(struct gck_mpi_win *w, const char *function)
{
	struct turn *t = calloc((size_t)w->nranks, sizeof(*t));
	int rc = t ? MPI_SUCCESS : MPI_ERR_NO_MEM;

	for (int i = 0; i < w->nranks && !rc; i++)
		rc = with_words(w, i, take_turn, &t[i], function);
	for (int i = 0; i < w->nranks && !rc; i++)
		if (!t[i].mine)
			rc = await_turn(w, i, &t[i], function);
	free(t);
	return rc;
}

int gck_mpi_lock_release(struct gck_mpi_win *w, int target, bool exclusive, const char *function)
{
	struct turn t = {.exclusive = exclusive};

	return with_words(w, target, give_turn, &t, function);
}

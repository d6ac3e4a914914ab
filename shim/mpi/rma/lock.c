/* SPDX-License-Identifier: Apache-2.0
 * Locks of windows: a fair reader-writer lock made of words in the target's memory, so that its
 * state is in the image. A rank that wants the lock takes a ticket (`next`). `read` and `write` are
 * the tickets whose turn it is to read and to write. A reader increments `read` when it acquires
 * the lock and `write` when it releases it; a writer increments both when it releases it. (After
 * Mellor-Crummey and Scott, "Scalable Reader-Writer Synchronization for Shared-Memory
 * Multiprocessors", PPoPP 1991; with tickets.)
 *
 * The words are read and written under the exclusive lock of a real window, which is held only that
 * long. Atomic operations would be simpler, but in Open MPI 4.1 those of osc/rdma on the rank
 * itself crash over btl/vader, and those of osc/pt2pt hang. */
#include "config.h"

#include <stdlib.h>
#include <time.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/rma/rma.h"

#define SPINS 16            /* tries before a waiter begins to sleep */
#define DOUBLINGS 9         /* of the first sleep, a microsecond: at most half a millisecond */

/* Reads and changes the words in one step; returns true if it changed them. */
typedef bool words_fn(struct gck_mpi_lock_words *w, void *arg);

/* Called in the gate with the window's mutex held. */
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

/* Takes a ticket if the rank has none, and the lock if its turn has come. */
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

/* Sleeps between two tries, outside the gate: first not at all, then longer each time. */
static void back_off(unsigned tries)
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
		back_off(tries);
		rc = with_words(w, target, take_turn, t, function);
	}
	return rc;
}

int gck_mpi_lock_acquire(struct gck_mpi_win *w, int target, bool exclusive, const char *function)
{
	struct turn t = {.exclusive = exclusive};

	return await_turn(w, target, &t, function);
}

/* Takes all tickets first, then waits. */
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

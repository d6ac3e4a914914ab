/* SPDX-License-Identifier: Apache-2.0
 * The collective clock counts the collective operations that a rank has entered. From the counts of
 * all ranks follows how far each must run before a checkpoint, so that every collective is either
 * complete in all ranks or can be started again by all. (After Xu and Cooperman, "Collective Vector
 * Clocks", CLUSTER 2023, extended to non-blocking collectives and to ranks that wait for messages;
 * see clock_rounds.c.)
 *
 * Every communicator has a clock; windows and files have a communicator of their own. A blocking
 * call ticks at its entry. A non-blocking collective gets a number when it starts; it is seen when
 * the real library first reports it complete. The tick comes first in a call, because it may wait
 * outside the gate and real handles must be read after it.
 *
 * The end of a clock needs no message between ranks. The last non-blocking collective of a
 * communicator is its goodbye (comm_free.c): a rank that sees it complete knows that all ranks have
 * passed everything before it. */
#ifndef GCK_MPI_CLOCK_H
#define GCK_MPI_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/mpi/base/participant.h"

struct gck_mpi_clock {
	uint64_t id;                 /* the same in all its ranks, and unique */
	unsigned ranks;              /* the number of its ranks */
	_Atomic uint64_t blocking;   /* blocking collectives entered */
	_Atomic uint64_t started;    /* non-blocking collectives started: the number of the last */
	_Atomic uint64_t seen;       /* the highest number that this rank has seen complete */
	/* results of the last round */
	uint64_t target, target_started; /* what `blocking` and `started` must reach */
	uint64_t finish; /* collectives up to this number are completed, later ones stay pending */
	struct gck_mpi_clock *next, *prev;
};

/* A call in progress that is collective over ranks without a common clock. No rank leaves it before
 * all have entered. It is on the caller's stack. */
struct gck_mpi_meeting {
	uint64_t key;     /* the same in all its ranks, and unique at that time */
	const int *ranks; /* world ranks */
	size_t nranks;
	struct gck_mpi_meeting *next, *prev;
};

/* The clocks of one rank. */
struct gck_mpi_clocks {
	pthread_mutex_t lock;
	pthread_cond_t changed;      /* the permission to enter collectives has changed */
	struct gck_mpi_clock *first;
	struct gck_mpi_meeting *meetings;
	_Atomic bool limited;        /* a quiesce runs: ticks need permission */
	/* results of the last round */
	uint64_t *called;            /* keys of meetings where others wait for this rank */
	size_t ncalled;
	bool judged, settled, any_behind;
	bool ahead;                  /* others must reach what this rank has entered */
	bool runs;                   /* not behind, but allowed to run in this round */
	bool enters;                 /* and to enter a collective */
	unsigned entries;            /* how many entries are left */
	unsigned stale;              /* rounds without progress */
	uint64_t digest;
};

extern struct gck_mpi_clocks gck_mpi_clocks;

/* Add a clock, whose id and ranks are set, and remove it. */
void gck_mpi_clock_add(struct gck_mpi_clock *c);
void gck_mpi_clock_remove(struct gck_mpi_clock *c);

/* The id for an object that the next blocking collective on c makes; the same in all its ranks. */
uint64_t gck_mpi_clock_child(const struct gck_mpi_clock *c);

/* Waits, outside the gate, until the quiesce lets this thread enter another collective. */
void gck_mpi_clock_ask(void);

/* Called before and after the real call, after a tick or gck_mpi_clock_ask; they do not wait. */
void gck_mpi_clock_meet(struct gck_mpi_meeting *m);
void gck_mpi_clock_part(struct gck_mpi_meeting *m);

static inline void gck_mpi_clock_count(_Atomic uint64_t *which)
{
	if (__builtin_expect(atomic_load_explicit(&gck_mpi_clocks.limited, memory_order_relaxed),
			     0))
		gck_mpi_clock_ask();
	/* only one thread at a time calls collectives of one communicator: no locked add */
	atomic_store_explicit(which, atomic_load_explicit(which, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* Counts a blocking collective. Called in the gate, before the real handles are read. */
static inline void gck_mpi_clock_tick(struct gck_mpi_clock *c)
{
	gck_mpi_clock_count(&c->blocking);
}

/* Takes a tick back: the call failed for wrong arguments. */
static inline void gck_mpi_clock_untick(struct gck_mpi_clock *c)
{
	atomic_fetch_sub_explicit(&c->blocking, 1, memory_order_relaxed);
}

/* Counts a non-blocking collective; returns its number. */
static inline uint64_t gck_mpi_clock_start(struct gck_mpi_clock *c)
{
	gck_mpi_clock_count(&c->started);
	return atomic_load_explicit(&c->started, memory_order_relaxed);
}

/* Takes a start back: the call failed, and other ranks must not wait for it. */
static inline void gck_mpi_clock_unstart(struct gck_mpi_clock *c)
{
	atomic_fetch_sub_explicit(&c->started, 1, memory_order_relaxed);
}

/* Notes that non-blocking collective `number` is complete. */
static inline void gck_mpi_clock_saw(struct gck_mpi_clock *c, uint64_t number)
{
	uint64_t was = atomic_load_explicit(&c->seen, memory_order_relaxed);

	while (was < number && !atomic_compare_exchange_weak_explicit(
				       &c->seen, &was, number, memory_order_relaxed,
				       memory_order_relaxed))
		;
}

static inline uint64_t gck_mpi_mix(uint64_t h, uint64_t x)
{
	h = (h + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
	h ^= (h >> 32) + x * 0x94d049bb133111ebull;
	return h ^ h >> 29;
}

/* A hash of world ranks in their order. */
uint64_t gck_mpi_members_hash(const int *ranks, size_t n);

#endif

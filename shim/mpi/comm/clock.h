/* SPDX-License-Identifier: Apache-2.0
 * The collective clock: what a rank has entered of collective operations, and how far it must run
 * on before a checkpoint, so that every collective is either complete in all ranks or can be begun
 * again by all. (After Xu and Cooperman, "Collective Vector Clocks", CLUSTER 2023, carried on to
 * non-blocking collectives and to ranks that wait for messages; clock_rounds.c says how.)
 *
 * Every communicator has a clock (windows and files have a communicator of their own). A blocking
 * call ticks at its entry; a non-blocking one is numbered when it starts, and is seen when the real
 * library says for the first time that it is complete. Ticks come first in a call: they may wait
 * outside of the gate, and real handles are read after them.
 *
 * A clock ends without a word: its last non-blocking collective is the goodbye of its communicator
 * (comm_free.c): a rank that has seen it complete knows that all have passed everything
 * before it. */
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
	uint64_t id;                 /* the same in all its ranks, and never another's */
	unsigned ranks;              /* how many these are */
	_Atomic uint64_t blocking;   /* blocking collectives entered */
	_Atomic uint64_t started;    /* non-blocking ones started: the number of the last */
	_Atomic uint64_t seen;       /* the highest number that this library has seen complete */
	/* as judged last */
	uint64_t target, target_started; /* what `blocking` and `started` must reach */
	uint64_t finish;                 /* up to this number all are completed, later ones stay pending */
	struct gck_mpi_clock *next, *prev;
};

/* A call under way that is collective over ranks without a clock in common. No rank comes out of it
 * before all have entered. It lies on the caller's stack. */
struct gck_mpi_meeting {
	uint64_t key;     /* the same in all of them, and no other meeting's at that time */
	const int *ranks; /* world ranks */
	size_t nranks;
	struct gck_mpi_meeting *next, *prev;
};

/* Of one rank. */
struct gck_mpi_clocks {
	pthread_mutex_t lock;
	pthread_cond_t changed;      /* what may enter has changed */
	struct gck_mpi_clock *first;
	struct gck_mpi_meeting *meetings;
	_Atomic bool limited;        /* a quiesce is on: ticks ask */
	/* as judged last */
	uint64_t *called;            /* keys of meetings where others wait for this rank */
	size_t ncalled;
	bool judged, settled, any_behind;
	bool ahead;                  /* this rank is where others have to get to */
	bool runs;                   /* not behind, but let on for this round */
	bool enters;                 /* and may enter a collective */
	unsigned entries;            /* how many are left of that */
	unsigned stale;              /* rounds in which nothing has moved */
	uint64_t digest;
};

extern struct gck_mpi_clocks gck_mpi_clocks;

/* A clock (id and ranks are set) begins and ends. */
void gck_mpi_clock_add(struct gck_mpi_clock *c);
void gck_mpi_clock_remove(struct gck_mpi_clock *c);

/* For the id of something that is made by the next collective call (blocking) on c: all its ranks
 * get the same. */
uint64_t gck_mpi_clock_child(const struct gck_mpi_clock *c);

/* Waits, outside of the gate, while a quiesce lets no thread enter another collective. */
void gck_mpi_clock_ask(void);

/* Around the real call, after a tick or gck_mpi_clock_ask: neither waits. */
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

/* A blocking collective: within the gate, before the real handles are read. */
static inline void gck_mpi_clock_tick(struct gck_mpi_clock *c)
{
	gck_mpi_clock_count(&c->blocking);
}

/* It came to nothing, for wrong arguments. */
static inline void gck_mpi_clock_untick(struct gck_mpi_clock *c)
{
	atomic_fetch_sub_explicit(&c->blocking, 1, memory_order_relaxed);
}

/* A non-blocking one starts; its number. */
static inline uint64_t gck_mpi_clock_start(struct gck_mpi_clock *c)
{
	gck_mpi_clock_count(&c->started);
	return atomic_load_explicit(&c->started, memory_order_relaxed);
}

/* It came to nothing: others would wait for it. */
static inline void gck_mpi_clock_unstart(struct gck_mpi_clock *c)
{
	atomic_fetch_sub_explicit(&c->started, 1, memory_order_relaxed);
}

/* Non-blocking collective `number` is complete. */
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

uint64_t gck_mpi_members_hash(const int *ranks, size_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The collective clock: what a rank has entered of collective operations, and how far it must run
 * on before a checkpoint, so that every collective is either complete in all ranks or can be begun
 * again by all. (After Xu and Cooperman, "Collective Vector Clocks", CLUSTER 2023, carried on to
 * non-blocking collectives and to ranks that wait for messages; clock_rounds.c says how.)
 *
 * Whatever has collective calls of its own has a clock: a communicator, a window, a file. A blocking
 * call ticks at its entry; a non-blocking one is numbered when it starts and is seen when the
 * real library says for the first time that it is complete. Ticks come first in a call: they may wait outside of the
 * gate, and real handles are read after them. */
#ifndef GCK_MPI_CLOCK_H
#define GCK_MPI_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "shim/mpi/part.h"

struct gck_mpi_clock {
	uint64_t id, members;        /* the same in all members; of the members alone */
	_Atomic uint64_t blocking;   /* blocking collectives entered */
	_Atomic uint64_t started;    /* non-blocking ones started: the number of the last */
	_Atomic uint64_t seen;       /* the highest number that this library has seen complete */
	/* as judged last */
	uint64_t target, target_started; /* where `blocking` and `started` must get to */
	uint64_t finish;                 /* up to this number all are completed, later ones stay pending */
	/* Of one that a rank drops once all are done with it, without a collective call: how many have
	 * it at first. Else 0. */
	unsigned ranks;
	struct gck_mpi_clock *next, *prev;
};

/* Tallies of what has no clock of its own (yet, or any more). */
enum gck_mpi_tally_kind {
	GCK_MPI_TALLY_FREED,   /* clocks removed, by their members */
	GCK_MPI_TALLY_MEETING, /* entries to calls that are collective over more than one clock's ranks */
};

struct gck_mpi_tally {
	uint64_t key, count, sum, target;
	enum gck_mpi_tally_kind kind;
	struct gck_mpi_tally *next;
	uint32_t nranks; /* of a meeting: who comes, world ranks */
	uint32_t ranks[];
};

/* Of one rank. */
struct gck_mpi_clocks {
	pthread_mutex_t lock;
	pthread_cond_t changed;      /* what may enter has changed */
	struct gck_mpi_clock *first;
	struct gck_mpi_tally *tallies;
	_Atomic bool limited;        /* a quiesce is on: ticks ask */
	/* as judged last */
	bool judged, settled, any_behind;
	bool ahead;                  /* this rank is where others have to get to */
	bool runs;                   /* not behind, but let on for this round */
	bool enters;                 /* and may enter a collective */
	unsigned entries;            /* how many are left of that */
	unsigned stale;              /* rounds in which nothing has moved */
	uint64_t digest;
};

extern struct gck_mpi_clocks gck_mpi_clocks;

/* A clock begins (its object lives in this rank) and ends. `members` is a hash of the world ranks in
 * order: gck_mpi_members_hash. -1: no memory. */
int gck_mpi_clock_add(struct gck_mpi_clock *c, uint64_t id, uint64_t members);
void gck_mpi_clock_remove(struct gck_mpi_clock *c);
void gck_mpi_clock_drop(struct gck_mpi_clock *c); /* one with `ranks` */

/* For the id of something that is made by the next collective call (blocking) on c, or by the n-th
 * such thing of a meeting: all members get the same. */
uint64_t gck_mpi_clock_child(const struct gck_mpi_clock *c, uint64_t members);

/* Wait, outside of the gate, while a quiesce wants nobody to enter one more collective. */
void gck_mpi_clock_ask(void);

/* Entry of a call whose ranks have no clock in common: these world ranks come to it, the n-th time
 * for this key. After a tick or gck_mpi_clock_ask: it does not wait. Returns n; 0: no memory. */
uint64_t gck_mpi_clock_meet(uint64_t key, const int *ranks, size_t nranks);

static inline void gck_mpi_clock_count(_Atomic uint64_t *which)
{
	if (__builtin_expect(atomic_load_explicit(&gck_mpi_clocks.limited, memory_order_relaxed), 0))
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

/* Non-blocking collective `number` is complete. */
static inline void gck_mpi_clock_saw(struct gck_mpi_clock *c, uint64_t number)
{
	uint64_t was = atomic_load_explicit(&c->seen, memory_order_relaxed);

	while (was < number && !atomic_compare_exchange_weak_explicit(
				       &c->seen, &was, number, memory_order_relaxed,
				       memory_order_relaxed))
		;
}

/* The quiesce is over, or called off: ticks wait no more. Before the gate opens for good. */
void gck_mpi_clock_resume(void);

static inline uint64_t gck_mpi_mix(uint64_t h, uint64_t x)
{
	h = (h + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
	h ^= (h >> 32) + x * 0x94d049bb133111ebull;
	return h ^ h >> 29;
}

uint64_t gck_mpi_members_hash(const int *ranks, size_t n);

/* ---- one rank's side of the rounds (clock_rounds.c): gck_mpi_clock_owed and the model test ----- */

#define GCK_MPI_CLOCKS_INIT \
	{ .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

int gck_mpi_clocks_add(struct gck_mpi_clocks *s, struct gck_mpi_clock *c);
void gck_mpi_clocks_remove(struct gck_mpi_clocks *s, struct gck_mpi_clock *c);
void gck_mpi_clocks_drop(struct gck_mpi_clocks *s, struct gck_mpi_clock *c);
uint64_t gck_mpi_clocks_meet(struct gck_mpi_clocks *s, uint64_t key, const int *ranks, size_t n);

/* out: no thread is inside the real library; active: non-blocking collectives that are under way;
 * open: those of them that are to be finished. From here on ticks are limited. */
int gck_mpi_clocks_put(struct gck_mpi_clocks *s, struct gck_mpi_blob *b, bool out, size_t active,
		       size_t open, struct gck_error *err);
int gck_mpi_clocks_judge(struct gck_mpi_clocks *s, const struct gck_mpi_words *all, size_t nranks,
			 size_t self, struct gck_error *err);
bool gck_mpi_clocks_behind(struct gck_mpi_clocks *s);
bool gck_mpi_clocks_settled(struct gck_mpi_clocks *s);
/* May a thread enter one more collective now? Takes it off what is allowed. s->lock is held. */
bool gck_mpi_clocks_may_enter(struct gck_mpi_clocks *s);
void gck_mpi_clocks_resume(struct gck_mpi_clocks *s);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The words about collective clocks that the ranks exchange in a round, and their sums.
 *
 *   out, active, open, clocks, meetings       see gck_mpi_clocks_put
 *   each clock:       id, ranks, blocking, started, seen (clocks of a single rank are left out)
 *   each meeting:     key, number of ranks, the ranks */
#ifndef GCK_MPI_CLOCK_WORDS_H
#define GCK_MPI_CLOCK_WORDS_H

#include "common/base/error.h"
#include "shim/mpi/comm/clock.h"

/* The reports of all ranks about a clock or meeting. */
struct gck_mpi_sum {
	uint64_t key;
	bool meeting;
	size_t reports, ranks;           /* how many ranks report it, and how many it has */
	uint64_t low, high;              /* a clock's `blocking` */
	uint64_t low_started, high_seen;
};

struct gck_mpi_sums {
	struct gck_mpi_sum *v;
	size_t capacity, n;              /* the capacity is a power of two */
	bool out, active, open;          /* out: in all ranks; the others: in any */
};

/* Writes this rank's words to b. The caller holds s->lock. -1: no memory. */
GCK_MUST_CHECK int gck_mpi_clock_words_put(const struct gck_mpi_clocks *s, struct gck_mpi_blob *b,
					   bool out, size_t active, size_t open);

/* Sums all ranks' words. Returns 0, ENOMEM or EBADMSG; the caller frees m->v in each case. */
GCK_MUST_CHECK int gck_mpi_sums_take(struct gck_mpi_sums *m, const struct gck_mpi_words *all,
				     size_t nranks);

/* The sum for a clock or meeting; its reports is 0 if no rank reported it. */
struct gck_mpi_sum *gck_mpi_sum_of(const struct gck_mpi_sums *m, bool meeting, uint64_t key);

/* True if a rank must run on for it. */
bool gck_mpi_sum_behind(const struct gck_mpi_sum *e);

/* A hash of the words that change from round to round while ranks run. */
uint64_t gck_mpi_clock_words_digest(const struct gck_mpi_words *all, size_t nranks);

/* Calls fn with the key of each meeting of `rank` in one rank's words, which have been checked.
 * Returns 0, or the first other result of fn. */
GCK_MUST_CHECK int gck_mpi_clock_words_calls(const struct gck_mpi_words *w, size_t rank,
					     int (*fn)(void *arg, uint64_t key), void *arg);

#endif

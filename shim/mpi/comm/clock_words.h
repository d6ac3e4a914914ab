/* SPDX-License-Identifier: Apache-2.0
 * What the ranks tell each other of their collective clocks in a round, and what it adds up to.
 *
 *   out, active, open, clocks, meetings       see gck_mpi_clocks_put
 *   of each clock:    id, ranks, blocking, started, seen (of clocks of one rank nothing is told)
 *   of each meeting:  key, ranks, and these */
#ifndef GCK_MPI_CLOCK_WORDS_H
#define GCK_MPI_CLOCK_WORDS_H

#include "shim/mpi/comm/clock.h"

/* What all ranks together say of a clock or meeting. */
struct gck_mpi_sum {
	uint64_t key;
	bool meeting;
	size_t reports, ranks;           /* who says it, of how many */
	uint64_t low, high;              /* of a clock: blocking */
	uint64_t low_started, high_seen;
};

struct gck_mpi_sums {
	struct gck_mpi_sum *v;
	size_t capacity, n;                  /* room: a power of two */
	bool out, active, open;          /* all are; any is */
};

/* This rank's words; s->lock is held. -1: no memory. */
int gck_mpi_clock_words_put(const struct gck_mpi_clocks *s, struct gck_mpi_blob *b, bool out,
			    size_t active, size_t open);

/* All ranks' words. 0, or ENOMEM, or EBADMSG. free m->v. */
int gck_mpi_sums_take(struct gck_mpi_sums *m, const struct gck_mpi_words *all, size_t nranks);

/* What is said of a clock or meeting; nothing: reports is 0. */
struct gck_mpi_sum *gck_mpi_sum_of(const struct gck_mpi_sums *m, bool meeting, uint64_t key);

/* Must a rank run on for it? */
bool gck_mpi_sum_behind(const struct gck_mpi_sum *e);

/* A hash of what may change from round to round while ranks run on. */
uint64_t gck_mpi_clock_words_digest(const struct gck_mpi_words *all, size_t nranks);

/* Calls fn with the key of each meeting in one rank's (well-formed) words that names `rank`. 0, or
 * what fn returned. */
int gck_mpi_clock_words_calls(const struct gck_mpi_words *w, size_t rank,
			      int (*fn)(void *arg, uint64_t key), void *arg);

#endif

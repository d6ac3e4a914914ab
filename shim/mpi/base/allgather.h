/* SPDX-License-Identifier: Apache-2.0
 * How the ranks of a job exchange their words in a round of a quiesce (an allgather): through
 * PMIx's collecting fence, through the coordinator, or (tests) through files. */
#ifndef GCK_MPI_ALLGATHER_H
#define GCK_MPI_ALLGATHER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct gck_mpi_words {
	const unsigned long *v;
	size_t n;
};

struct gck_mpi_blob {
	unsigned long *v;
	size_t n, capacity;
};

/* Appends a word. -1: no memory. */
int gck_mpi_blob_put(struct gck_mpi_blob *b, unsigned long word);

struct gck_mpi_allgather {
	size_t nranks, rank;
	/* This rank is ready for a round, with these words (kept until the round is over). */
	int (*give)(struct gck_mpi_allgather *x, uint32_t round, const struct gck_mpi_blob *mine,
		    struct gck_error *err);
	/* Wait up to ms for the others. 1: all[0..nranks) is filled, and lives until the next give;
	 * 0: not yet; -1: failed, ECANCELED if the quiesce was called off. */
	int (*take)(struct gck_mpi_allgather *x, int ms, struct gck_mpi_words *all,
		    struct gck_error *err);
};

/* Every blob of a job is one text of words: rank, number of words, words; ranks in any order, those
 * that are missing have none. Checked as data from outside: EBADMSG. The words point into bytes,
 * which has the alignment of a word. */
int gck_mpi_allgather_split(const void *bytes, size_t size, size_t nranks,
			   struct gck_mpi_words *all, struct gck_error *err);

/* CLOCK_MONOTONIC. */
int64_t gck_mpi_now_ns(void);

/* For a job of one rank: no other rank is asked. */
void gck_mpi_allgather_alone(struct gck_mpi_allgather *x);

#endif

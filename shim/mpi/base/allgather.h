/* SPDX-License-Identifier: Apache-2.0
 * The allgather by which the ranks of a job exchange their words in a round of a quiesce. It goes
 * through PMIx's collecting fence, through the coordinator or, in tests, through files. */
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
GCK_MUST_CHECK int gck_mpi_blob_put(struct gck_mpi_blob *b, unsigned long word);

struct gck_mpi_allgather {
	size_t nranks, rank;
	/* Report that this rank is ready for a round. `mine` stays valid until the round's end. */
	int (*give)(struct gck_mpi_allgather *x, uint32_t round, const struct gck_mpi_blob *mine,
		    struct gck_error *err);
	/* Wait up to ms for the other ranks. 1: all[0..nranks) is filled and valid until the next
	 * give; 0: words are missing; -1: failed, with ECANCELED if the quiesce was called off. */
	int (*take)(struct gck_mpi_allgather *x, int ms, struct gck_mpi_words *all,
		    struct gck_error *err);
};

/* Splits the blobs of a job, joined as (rank, number of words, words)..., ranks in any order. A
 * rank that is missing gets no words. Invalid data fail with EBADMSG. all[] points into bytes,
 * which must be aligned as a word. */
GCK_MUST_CHECK int gck_mpi_allgather_split(const void *bytes, size_t size, size_t nranks,
					   struct gck_mpi_words *all, struct gck_error *err);

/* CLOCK_MONOTONIC. */
int64_t gck_mpi_now_ns(void);

/* Sets x up for a job of one rank, which asks no other rank. */
void gck_mpi_allgather_alone(struct gck_mpi_allgather *x);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * What all ways of exchanging words share. */
#include "shim/mpi/base/allgather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIRST_CAPACITY 256

int64_t gck_mpi_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

int gck_mpi_blob_put(struct gck_mpi_blob *b, unsigned long word)
{
	if (b->n == b->capacity) {
		size_t capacity = b->capacity ? b->capacity * 2 : FIRST_CAPACITY;
		unsigned long *v = realloc(b->v, capacity * sizeof *v);

		if (!v)
			return -1;
		b->v = v;
		b->capacity = capacity;
	}
	b->v[b->n++] = word;
	return 0;
}

int gck_mpi_allgather_split(const void *bytes, size_t size, size_t nranks,
			   struct gck_mpi_words *all, struct gck_error *err)
{
	const unsigned long *v = bytes;
	size_t n = size / sizeof *v, at = 0;

	memset(all, 0, nranks * sizeof *all);
	if (size % sizeof *v)
		return gck_fail(err, EBADMSG, "the ranks' words in the quiesce are truncated");
	while (at < n) {
		if (n - at < 2 || v[at] >= nranks || v[at + 1] > n - at - 2 || all[v[at]].v)
			return gck_fail(err, EBADMSG, "the ranks' words in the quiesce are invalid "
						      "at word %zu of %zu", at, n);
		all[v[at]] = (struct gck_mpi_words){&v[at + 2], v[at + 1]};
		at += 2 + v[at + 1];
	}
	return 0;
}

/* ---- a job of one rank ---------------------------------------------------------------------- */

static const struct gck_mpi_blob *own_words;

static int give_alone(struct gck_mpi_allgather *x, uint32_t round, const struct gck_mpi_blob *mine,
		      struct gck_error *err)
{
	(void)x;
	(void)round;
	(void)err;
	own_words = mine;
	return 0;
}

static int take_alone(struct gck_mpi_allgather *x, int ms, struct gck_mpi_words *all,
		      struct gck_error *err)
{
	(void)x;
	(void)ms;
	(void)err;
	all[0] = (struct gck_mpi_words){own_words->v, own_words->n};
	return 1;
}

void gck_mpi_allgather_alone(struct gck_mpi_allgather *x)
{
	*x = (struct gck_mpi_allgather){
		.nranks = 1, .rank = 0, .give = give_alone, .take = take_alone};
}

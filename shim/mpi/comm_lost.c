/* SPDX-License-Identifier: Apache-2.0
 * In each round every rank tells of its communicators that others may have no more: those that live
 * on though they are freed, and persistent collectives' own. */
#include "config.h"

#include "shim/mpi/comm_lost.h"

#include <stdlib.h>
#include <string.h>

#include "shim/mpi/gate.h"
#include "shim/mpi/init.h"

#define HEAD_WORDS 3 /* id, local ranks, remote ranks; then these */

struct lost {
	struct gck_mpi_comm body;
	struct lost *next;
	int ranks[]; /* local, then remote */
};

static struct lost *first;

struct gck_mpi_comm *gck_mpi_comm_lost_first(void)
{
	return first ? &first->body : NULL;
}

struct gck_mpi_comm *gck_mpi_comm_lost_next(struct gck_mpi_comm *c)
{
	struct lost *l = (void *)((char *)c - offsetof(struct lost, body));

	return l->next ? &l->next->body : NULL;
}

static bool is_unseen(const struct gck_mpi_comm *c)
{
	return c && (c->freed || c->hidden);
}

static int put_ranks(struct gck_mpi_blob *b, const int *ranks, int n)
{
	for (int i = 0; i < n; i++)
		if (gck_mpi_blob_put(b, (unsigned)ranks[i]))
			return -1;
	return 0;
}

static int put(struct gck_mpi_blob *b, struct gck_error *err)
{
	/* the list, and the real library, are the program's while it is inside; there will be another
	 * round then */
	if (!gck_mpi_gate_empty() || !gck_mpi_running())
		return 0;
	gck_mpi_comm_sweep();
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_COMM); h; h = h->next) {
		const struct gck_mpi_comm *c = h->body;

		if (!is_unseen(c) || c->dynamic)
			continue;
		if (gck_mpi_blob_put(b, c->clock.id) || gck_mpi_blob_put(b, c->size) ||
		    gck_mpi_blob_put(b, c->remote_size) || put_ranks(b, c->local, c->size) ||
		    (c->inter && put_ranks(b, c->peers, c->remote_size)))
			return gck_fail(err, ENOMEM, "freed communicators: no memory to tell of them");
	}
	return 0;
}

/* ---- judge ---------------------------------------------------------------------------------- */

static bool is_unseen_with(struct gck_mpi_handle *h, void *id)
{
	const struct gck_mpi_comm *c = h->body;

	return is_unseen(c) && c->clock.id == *(const uint64_t *)id;
}

/* Threads may be inside, and change the list. */
static bool known(uint64_t id)
{
	for (struct lost *l = first; l; l = l->next)
		if (l->body.clock.id == id)
			return true;
	return gck_mpi_first_that(GCK_MPI_COMM, is_unseen_with, &id);
}

static int find(const unsigned long *ranks, unsigned long n, unsigned long rank)
{
	for (unsigned long i = 0; i < n; i++)
		if (ranks[i] == rank)
			return i;
	return -1;
}

/* A communicator as one of its ranks tells of it, seen from this rank if it is a member. */
static int take_in(const unsigned long *v, int self)
{
	unsigned long id = v[0], here = v[1], there = v[2];
	const unsigned long *one = v + HEAD_WORDS, *other = one + here;
	int rank = find(one, here, self);
	struct lost *l;

	if (rank < 0) {
		rank = find(other, there, self);
		one = other;
		other = v + HEAD_WORDS;
		here = v[2];
		there = v[1];
	}
	if (rank < 0 || known(id))
		return 0;
	l = calloc(1, sizeof *l + (here + there) * sizeof l->ranks[0]);
	if (!l)
		return -1;
	for (unsigned long i = 0; i < here; i++)
		l->ranks[i] = one[i];
	for (unsigned long i = 0; i < there; i++)
		l->ranks[here + i] = other[i];
	l->body.clock.id = id;
	l->body.rank = rank;
	l->body.size = here;
	l->body.remote_size = there;
	l->body.inter = there > 0;
	l->body.local = l->ranks;
	l->body.peers = there ? l->ranks + here : l->ranks;
	l->next = first;
	first = l;
	return 0;
}

static int judge_one(struct gck_mpi_words w, size_t nranks, int self, struct gck_error *err)
{
	while (w.n) {
		size_t length = HEAD_WORDS;

		if (w.n >= HEAD_WORDS && w.v[1] <= nranks && w.v[2] <= nranks)
			length += w.v[1] + w.v[2];
		if (w.n < length || length == HEAD_WORDS)
			return gck_fail(err, EBADMSG, "what another rank tells of freed communicators makes "
					"no sense: are all ranks' libgpuckpt-mpi.so of one version?");
		if (take_in(w.v, self))
			return gck_fail(err, ENOMEM, "freed communicators of other ranks: no memory");
		w.v += length;
		w.n -= length;
	}
	return 0;
}

static int judge(const struct gck_mpi_words *all, size_t nranks, struct gck_error *err)
{
	int self = gck_mpi_comm_of(MPI_COMM_WORLD)->rank;

	while (first) {
		struct lost *l = first;

		first = l->next;
		free(l);
	}
	if (!gck_mpi_gate_empty())
		return 0;
	for (size_t r = 0; r < nranks; r++)
		if (judge_one(all[r], nranks, self, err))
			return -1;
	return 0;
}

static bool settled(void)
{
	return true;
}

const struct gck_mpi_owed gck_mpi_comm_owed = {
	.name = "communicators",
	.put = put,
	.judge = judge,
	.settled = settled,
};

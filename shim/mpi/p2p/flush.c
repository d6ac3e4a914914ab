// SPDX-License-Identifier: Apache-2.0
/* Finds which messages are under way in a quiesce and takes them in. Each rank reports how many
 * messages it has sent to and received from every other rank. Sends count when they begin, receives
 * when their data has arrived; the difference is under way in the real library of either rank. */
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/base/gate.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/p2p/flushed.h"
#include "shim/mpi/p2p/message.h"
#include "shim/mpi/p2p/request.h"
#include "shim/mpi/p2p/request_pool.h"

/* Messages to and from each rank of MPI_COMM_WORLD, over all communicators. */
struct traffic {
	uint64_t *sent, *received; /* [nranks] */
};

/* A rank's words: the number of its operations that must still end, the numbers of ranks that it
 * has sent to and received from, and for each of these the rank and the number of messages, by
 * rank. */
enum { OPEN, SENT_TO, RECEIVED_FROM, PAIRS };

struct pair {
	unsigned long rank, messages;
};

static uint64_t *expected; /* [nranks] messages that each sent to this rank, as judged last */
static bool none_missing;  /* all expected messages were received; counts only grow */
static struct traffic total;
static size_t arriving;    /* messages still arriving in this rank, as of the last step */
static bool settled;

static bool must_end(const struct gck_mpi_request *r)
{
	if (r->state != GCK_MPI_REQUEST_ACTIVE)
		return false;
	switch (r->what) {
	case GCK_MPI_REQUEST_SEND:
	case GCK_MPI_REQUEST_MATCHED:
		return true;
	case GCK_MPI_REQUEST_RECV:
		return r->from != NULL;
	case GCK_MPI_REQUEST_CLASS:
		return r->class->ends_alone;
	default:
		return false;
	}
}

static void count_open(struct gck_mpi_request *r, void *n)
{
	*(size_t *)n += must_end(r);
}

/* A communicator that all its ranks have left is counted by none of them, so messages that nobody
 * received there do not hold up the quiesce. */
static bool add_comm(struct gck_mpi_handle *h, void *to)
{
	const struct gck_mpi_comm *c = h->body;
	const struct traffic *t = to;

	if (!c || c->dynamic || c->life == GCK_MPI_COMM_LEFT)
		return false;
	for (int i = 0; i < c->npeers; i++) {
		if (t->sent)
			t->sent[c->peers[i]] += c->sent[i];
		t->received[c->peers[i]] += c->received[i];
	}
	return false;
}

static void add_all(struct traffic t)
{
	add_comm((struct gck_mpi_handle *)MPI_COMM_WORLD, &t);
	add_comm((struct gck_mpi_handle *)MPI_COMM_SELF, &t);
	gck_mpi_first_that(GCK_MPI_COMM, add_comm, &t);
}

/* Computes total; threads may be inside. -1: no memory. */
static int add_up(void)
{
	size_t n = (size_t)gck_mpi_pool.nranks;

	if (!total.sent) {
		total.sent = calloc(n, 2 * sizeof(*total.sent));
		if (!total.sent)
			return -1;
		total.received = total.sent + n;
	}
	memset(total.sent, 0, 2 * n * sizeof(*total.sent));
	add_all(total);
	return 0;
}

static size_t pairs(const uint64_t *counts)
{
	size_t n = 0;

	for (int i = 0; i < gck_mpi_pool.nranks; i++)
		n += counts[i] != 0;
	return n;
}

static int put_pairs(struct gck_mpi_blob *b, const uint64_t *counts)
{
	for (int i = 0; i < gck_mpi_pool.nranks; i++)
		if (counts[i] &&
		    (gck_mpi_blob_put(b, (unsigned long)i) || gck_mpi_blob_put(b, counts[i])))
			return -1;
	return 0;
}

static int put(struct gck_mpi_blob *b, struct gck_error *err)
{
	size_t n = arriving;

	/* while the program is inside, its threads use the requests; another round follows then */
	if (gck_mpi_gate_empty())
		gck_mpi_request_each(count_open, &n);
	if (add_up() || gck_mpi_blob_put(b, n) || gck_mpi_blob_put(b, pairs(total.sent)) ||
	    gck_mpi_blob_put(b, pairs(total.received)) || put_pairs(b, total.sent) ||
	    put_pairs(b, total.received))
		return gck_fail(err, ENOMEM, "no memory for the message counts");
	return 0;
}

static int by_rank(const void *a, const void *b)
{
	unsigned long x = ((const struct pair *)a)->rank, y = ((const struct pair *)b)->rank;

	return (x > y) - (x < y);
}

/* Returns the count for `rank` in one of the two lists of a rank's words. */
static unsigned long messages(const struct gck_mpi_words *w, int list, unsigned long rank)
{
	const struct pair *first = (const struct pair *)(w->v + PAIRS), *found;
	const struct pair key = { .rank = rank };

	if (list == RECEIVED_FROM)
		first += w->v[SENT_TO];
	found = bsearch(&key, first, w->v[list], sizeof(key), by_rank);
	return found ? found->messages : 0;
}

static bool is_valid(const struct gck_mpi_words *w, size_t nranks)
{
	const struct pair *p;

	if (w->n < PAIRS || w->v[SENT_TO] > nranks || w->v[RECEIVED_FROM] > nranks ||
	    w->n != PAIRS + 2 * (w->v[SENT_TO] + w->v[RECEIVED_FROM]))
		return false;
	p = (const struct pair *)(w->v + PAIRS);
	for (size_t i = 0; i < w->v[SENT_TO] + w->v[RECEIVED_FROM]; i++) {
		bool first = i == 0 || i == w->v[SENT_TO];

		if (p[i].rank >= nranks || (!first && p[i].rank <= p[i - 1].rank))
			return false;
	}
	return true;
}

/* True if nothing must still end in the rank and all messages that it sent were received. */
static bool rank_settled(const struct gck_mpi_words *all, size_t rank)
{
	const struct gck_mpi_words *w = &all[rank];
	const struct pair *sent = (const struct pair *)(w->v + PAIRS);

	for (size_t i = 0; i < w->v[SENT_TO]; i++)
		if (messages(&all[sent[i].rank], RECEIVED_FROM, rank) != sent[i].messages)
			return false;
	return w->v[OPEN] == 0;
}

static int judge(const struct gck_mpi_words *all, size_t nranks, struct gck_error *err)
{
	if (nranks != (size_t)gck_mpi_pool.nranks)
		return gck_fail(err, EPROTO, "message counts of %zu ranks were received, but the "
					     "job has %d ranks",
				nranks, gck_mpi_pool.nranks);
	for (size_t i = 0; i < nranks; i++)
		if (!is_valid(&all[i], nranks))
			return gck_fail(err, EPROTO,
					"rank %zu's message counts are invalid (%zu words): do all "
					"ranks have one version of libgpuckpt-mpi.so?",
					i, all[i].n);
	if (!expected && !(expected = calloc(nranks, sizeof(*expected))))
		return gck_fail(err, ENOMEM, "no memory for the message counts");
	settled = true;
	none_missing = false;
	for (size_t i = 0; i < nranks; i++) {
		expected[i] = messages(&all[i], SENT_TO,
				       (unsigned long)gck_mpi_comm_of(MPI_COMM_WORLD)->rank);
		settled = settled && rank_settled(all, i);
	}
	return 0;
}

static bool all_settled(void)
{
	return settled;
}

/* Called often, also while this rank only waits for others, so it adds up only while messages are
 * missing. total is allocated: put() comes before judge(), which allocates owed. */
static bool check_received(void)
{
	bool received_all = true;

	if (!expected || none_missing)
		return true;
	memset(total.received, 0, (size_t)gck_mpi_pool.nranks * sizeof(*total.received));
	add_all((struct traffic){ .received = total.received });
	for (int i = 0; i < gck_mpi_pool.nranks; i++)
		received_all = received_all && total.received[i] >= expected[i];
	return none_missing = received_all;
}

static bool done(void)
{
	size_t n = arriving;

	if (!gck_mpi_gate_empty())
		return false;
	gck_mpi_request_each(count_open, &n);
	return n == 0 && check_received();
}

/* Polls posted receives as well, because a message that arrives for one must be counted. Requests
 * of other parts are polled only if they end alone. */
static void poll_one(struct gck_mpi_request *r, void *arg)
{
	(void)arg;
	if (r->state == GCK_MPI_REQUEST_ACTIVE && (must_end(r) || r->what == GCK_MPI_REQUEST_RECV))
		gck_mpi_request_poll(r);
}

static int take_in_comm(MPI_Comm comm, bool missing, struct gck_error *err)
{
	/* the real library cannot probe a communicator that MPI_Comm_idup is making */
	if (!gck_mpi_real_of(comm) || gck_mpi_comm_of(comm)->making)
		return 0;
	if (missing && gck_mpi_flushed_take_in(comm, err))
		return -1;
	arriving += gck_mpi_flushed_arriving(gck_mpi_comm_of(comm));
	return 0;
}

static int step(struct gck_error *err)
{
	bool missing;

	if (gck_mpi_flushed_init(false, err))
		return -1;
	gck_mpi_request_each(poll_one, NULL);
	gck_mpi_progress(); /* other ranks may wait for it */
	arriving = 0;
	missing = !check_received();
	if (gck_mpi_messages_take_in(&arriving, err) ||
	    take_in_comm(MPI_COMM_WORLD, missing, err) ||
	    take_in_comm(MPI_COMM_SELF, missing, err))
		return -1;
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_COMM); h; h = h->next)
		if (take_in_comm((MPI_Comm)h, missing, err))
			return -1;
	return 0;
}

const struct gck_mpi_round_ops gck_mpi_flush_round_ops = {
	.name = "messages",
	.put = put,
	.judge = judge,
	.settled = all_settled,
	.step = step,
	.done = done,
};

/* SPDX-License-Identifier: Apache-2.0
 * The rounds of a quiesce. In each round, with the gate closed, every rank reports what it has
 * begun and seen end, and all judge the same words. A rank that is behind runs on for a moment; the
 * others call the real library so that what is under way makes progress. The quiesce ends with a
 * round in which nothing is under way: the gates stay closed, so nothing new can begin. */
#include "shim/mpi/quiesce/quiesce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/fault.h"
#include "shim/mpi/base/gate.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/base/mpi_thread.h"

#define RUN_ON_NS 20000000  /* a rank that is behind runs this long before it reports again */
#define ADVANCE_NS 5000000  /* the same for a rank that completes what is under way */
#define PAUSE_NS 50000
#define GRACE_PART 4        /* grace is this part of the limit: the rank at fault reports first */
#define GRACE_NS 1000000000 /* the longest grace */
#define CHECK_MS 20         /* between checks whether the quiesce was called off */

/* Flags in the first of a rank's words. */
enum {
	THREAD_INSIDE = 1,
	BEHIND = 2,
	FLAGS = 3,
};

struct quiesce {
	struct gck_mpi_allgather *x;
	int64_t deadline_ns, grace_ns;
	uint32_t round;
	int64_t took_ns;             /* from the round's start to all ranks' words, or until now */
	size_t nparts;
	struct gck_mpi_blob mine;
	struct gck_mpi_words *all;   /* of every rank */
	struct gck_mpi_words *parts; /* [part * nranks + rank] */
	bool any_inside;             /* in some rank a thread was inside the real library */
	bool behind;                 /* this rank is behind, by the last judgement */
	bool any_busy;               /* some rank, perhaps this one, is behind or inside */
};

static void pause_a_moment(void)
{
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static bool is_behind(void)
{
	for (const struct gck_mpi_round_ops *const *o = gck_mpi_all_round_ops; *o; o++)
		if ((*o)->behind && (*o)->behind())
			return true;
	return false;
}

/* The name of a part that is not at rest in some rank; NULL: all are. */
static const char *unsettled(void)
{
	for (const struct gck_mpi_round_ops *const *o = gck_mpi_all_round_ops; *o; o++)
		if ((*o)->settled && !(*o)->settled())
			return (*o)->name;
	return NULL;
}

/* After MPI_Finalize has passed the gate no MPI function may be called, and it waits for ranks that
 * the quiesce holds. (An MPI_Finalize that waits at the gate is like any other call.) */
static int check_finalize(const struct quiesce *q, struct gck_error *err)
{
	if (!gck_mpi_leaving())
		return 0;
	return gck_fail(err, EAGAIN, "rank %zu is in MPI_Finalize: try again when all ranks "
					"have left it; they are then checkpointed like programs "
					"without MPI",
			q->x->rank);
}

/* ---- this rank's words ---------------------------------------------------------------------- */

static int put_part(const struct gck_mpi_round_ops *o, struct gck_mpi_blob *b,
		    struct gck_error *err)
{
	size_t at = b->n;

	if (gck_mpi_blob_put(b, 0))
		return gck_fail(err, ENOMEM, "no memory for this rank's words");
	if (o->put && o->put(b, err))
		return gck_fail_in(err, "%s", o->name);
	b->v[at] = b->n - at - 1;
	return 0;
}

static int put_all(struct quiesce *q, struct gck_error *err)
{
	unsigned long flags = (gck_mpi_gate_empty() ? 0 : THREAD_INSIDE) |
			      (q->behind ? BEHIND : 0);

	q->mine.n = 0;
	if (gck_mpi_blob_put(&q->mine, flags))
		return gck_fail(err, ENOMEM, "no memory for this rank's words");
	for (const struct gck_mpi_round_ops *const *o = gck_mpi_all_round_ops; *o; o++)
		if (put_part(*o, &q->mine, err))
			return -1;
	return 0;
}

/* ---- all ranks' words ----------------------------------------------------------------------- */

static int split_rank(struct quiesce *q, size_t rank, struct gck_error *err)
{
	struct gck_mpi_words w = q->all[rank];
	size_t at = 1;

	if (w.v[0] & ~(unsigned long)FLAGS)
		return gck_fail(err, EBADMSG, "rank %zu's words in the quiesce are invalid", rank);
	for (size_t p = 0; p < q->nparts; p++) {
		struct gck_mpi_words *part = &q->parts[p * q->x->nranks + rank];

		if (at >= w.n || w.v[at] > w.n - at - 1)
			return gck_fail(err, EBADMSG, "rank %zu's words in the quiesce are "
						      "truncated: does it have another version of "
						      "libgpuckpt-mpi.so?", rank);
		*part = (struct gck_mpi_words){&w.v[at + 1], w.v[at]};
		at += 1 + w.v[at];
	}
	return 0;
}

static int judge(struct quiesce *q, struct gck_error *err)
{
	size_t n = q->x->nranks;

	q->any_inside = q->any_busy = false;
	for (size_t r = 0; r < n; r++) {
		if (!q->all[r].n)
			return gck_fail(err, EAGAIN,
					"rank %zu is past MPI_Finalize, or has ended: ranks inside "
					"MPI cannot be restarted without it; try again when all "
					"ranks have left MPI_Finalize",
					r);
		if (split_rank(q, r, err))
			return -1;
		q->any_inside |= q->all[r].v[0] & THREAD_INSIDE;
		q->any_busy |= q->all[r].v[0] != 0;
	}
	for (size_t p = 0; p < q->nparts; p++)
		if (gck_mpi_all_round_ops[p]->judge &&
		    gck_mpi_all_round_ops[p]->judge(q->parts + p * n, n, err))
			return gck_fail_in(err, "%s", gck_mpi_all_round_ops[p]->name);
	q->behind = is_behind();
	return 0;
}

/* ---- between rounds ------------------------------------------------------------------------- */

/* The real library may be called here while no other thread is inside it and it is not finalized.
 * The gate is read first: a thread that leaves in between may come from MPI_Finalize. */
static int step(const struct quiesce *q, struct gck_error *err)
{
	bool empty = gck_mpi_gate_empty();

	if (check_finalize(q, err))
		return -1;
	if (!empty)
		return 0;
	for (const struct gck_mpi_round_ops *const *o = gck_mpi_all_round_ops; *o; o++)
		if ((*o)->step && (*o)->step(err))
			return gck_fail_in(err, "%s", (*o)->name);
	return 0;
}

static bool is_done(void)
{
	for (const struct gck_mpi_round_ops *const *o = gck_mpi_all_round_ops; *o; o++)
		if ((*o)->step && !((*o)->done && (*o)->done()))
			return false;
	return gck_mpi_gate_empty();
}

static int advance(struct quiesce *q, struct gck_error *err)
{
	int64_t end = gck_mpi_now_ns() + ADVANCE_NS;

	GCK_FAULT(GCK_FAULT_MPI_BRING_ON);
	while (!is_done() && gck_mpi_now_ns() < end) {
		if (step(q, err))
			return -1;
		if (!gck_mpi_gate_empty())
			pause_a_moment();
	}
	return 0;
}

static void run_on(void)
{
	int64_t end = gck_mpi_now_ns() + RUN_ON_NS;

	gck_mpi_gate_open();
	while (is_behind() && gck_mpi_now_ns() < end)
		pause_a_moment();
	gck_mpi_gate_close();
}

static int fail_inside(size_t rank, struct gck_error *err)
{
	char where[128];

	gck_mpi_gate_where(where, sizeof where);
	return gck_fail(err, ETIMEDOUT, "rank %zu is inside %s, which does not end: try again "
			"later, or raise hold=", rank, *where ? where : "an MPI call");
}

/* MPI threads answer whatever their programs do, so no MPI call delays a round. */
static int fail_slow_round(const struct quiesce *q, struct gck_error *err)
{
	return gck_fail(err, ETIMEDOUT,
			"rank %zu: round %u of the ranks' words takes %.1f s: an MPI thread or "
			"PMIx does not answer or gets no CPU time: try again later, or raise hold=",
			q->x->rank, q->round, (double)q->took_ns / 1e9);
}

/* The rank at fault reports the failure; the others give it the time for that. */
static int give_up(const struct quiesce *q, struct gck_error *err)
{
	bool empty = gck_mpi_gate_empty();
	const char *what = unsettled();

	if (q->took_ns > q->grace_ns)
		return fail_slow_round(q, err);
	if (empty && (!q->behind || gck_mpi_gate_waited()))
		return gck_fail(err, ETIMEDOUT, "rank %zu waits for other ranks%s, which did not "
						"reach a point where MPI can be quiesced (under "
						"way: %s)",
				q->x->rank, q->any_busy ? " that are in MPI calls" : "",
				what ? what : "a call");
	if (empty)
		return gck_fail(err, ETIMEDOUT, "rank %zu computes, and others wait in a "
				"collective call that it has not reached: try again later, or "
				"raise hold=", q->x->rank);
	return fail_inside(q->x->rank, err);
}

/* Others may need progress of this rank's library, so it makes that while it waits for them. */
static int exchange(struct quiesce *q, struct gck_error *err)
{
	int64_t began = gck_mpi_now_ns();
	int rc;

	if (check_finalize(q, err) || put_all(q, err) || q->x->give(q->x, q->round, &q->mine, err))
		return -1;
	do {
		rc = q->x->take(q->x, 1, q->all, err);
		q->took_ns = gck_mpi_now_ns() - began;
		if (rc == 0 && step(q, err))
			rc = -1;
		if (rc == 0 && gck_mpi_now_ns() > q->deadline_ns + q->grace_ns)
			rc = give_up(q, err);
	} while (rc == 0);
	return rc < 0 ? -1 : 0;
}

/* Ranks that compute while others wait give up first, then ranks that wait inside a call. */
static int64_t grace_ns(const struct quiesce *q)
{
	if (gck_mpi_gate_empty())
		return q->behind && !gck_mpi_gate_waited() ? 0 : q->grace_ns;
	return q->grace_ns / 2;
}

static int rounds(struct quiesce *q, struct gck_error *err)
{
	for (q->round = 1;; q->round++) {
		if (exchange(q, err) || judge(q, err))
			return -1;
		if (!q->any_inside && !unsettled())
			return 0;
		if (gck_mpi_now_ns() > q->deadline_ns + grace_ns(q))
			return give_up(q, err);
		if (q->behind)
			run_on();
		else if (advance(q, err))
			return -1;
	}
}

/* ---- the quiesce ---------------------------------------------------------------------------- */

void gck_mpi_report_obstacles(gck_mpi_obstacle_fn *report, void *arg)
{
	for (const struct gck_mpi_participant *const *p = gck_mpi_participants; *p; p++)
		if ((*p)->report_obstacles)
			(*p)->report_obstacles(report, arg);
}

static void note_obstacle(void *arg, const char *object, const char *reason, const char *remedy)
{
	struct gck_error *first = arg;

	if (!first->code)
		gck_fail(first, EBUSY, "%s: %s; %s", object, reason, remedy);
}

int gck_mpi_quiesce(struct gck_mpi_allgather *x, int64_t deadline_ns, struct gck_error *err)
{
	struct quiesce q = {.x = x, .deadline_ns = deadline_ns};
	struct gck_error obstacle = {0};
	int rc;

	gck_mpi_report_obstacles(note_obstacle, &obstacle);
	if (obstacle.code)
		return gck_fail(err, EBUSY, "%s", obstacle.text);
	q.grace_ns = (deadline_ns - gck_mpi_now_ns()) / GRACE_PART;
	q.grace_ns = q.grace_ns < GRACE_NS ? q.grace_ns : GRACE_NS;
	while (gck_mpi_all_round_ops[q.nparts])
		q.nparts++;
	q.all = calloc(x->nranks, sizeof *q.all);
	q.parts = calloc(x->nranks * (q.nparts + 1), sizeof *q.parts);
	gck_mpi_gate_close();
	rc = q.all && q.parts ? rounds(&q, err)
			      : gck_fail(err, ENOMEM, "no memory for %zu ranks' words", x->nranks);
	GCK_FAULT(GCK_FAULT_MPI_SAVE);
	if (rc == 0)
		rc = check_finalize(&q, err) ? -1 : gck_mpi_participants_save(false, err);
	free(q.all);
	free(q.parts);
	free(q.mine.v);
	return rc;
}

int gck_mpi_quiesce_uninitialized(struct gck_mpi_thread_state *k, int64_t deadline_ns,
				  int (*called_off)(void *arg, struct gck_error *err), void *arg,
				  struct gck_error *err)
{
	gck_mpi_gate_close();
	while (!gck_mpi_gate_wait_empty(CHECK_MS)) {
		if (called_off(arg, err))
			return -1;
		if (gck_mpi_now_ns() > deadline_ns)
			return fail_inside((size_t)k->rank, err);
	}
	if (gck_mpi_thread_stage(k, 0) == GCK_MPI_UNINITIALIZED)
		return gck_mpi_participants_save(true, err);
	gck_mpi_resume();
	return 1;
}

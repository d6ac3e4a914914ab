/* SPDX-License-Identifier: Apache-2.0
 * A quiesce that the agent requests: READY and GO go over the link, the words over the link or
 * through PMIx. After QUIESCED the thread waits for RESUME with the gate closed; the image is taken
 * meanwhile. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fault.h"
#include "shim/mpi/base/gate.h"
#include "shim/mpi/base/pmix.h"
#include "shim/mpi/base/mpi_thread.h"
#include "shim/mpi/quiesce/quiesce.h"
#include "shim/namespace/namespace.h"

#define LOOK_MS 20        /* between checks of the stage and of the link */
#define HOLD_MS 1000
#define SERIAL_SHIFT 24   /* bits of a fence's serial for the round of a quiesce */

struct asked {
	struct gck_mpi_allgather x; /* first */
	struct gck_mpi_thread_state *k;
	uint64_t seq;
	uint32_t round, via;
	int64_t lease_ns, heard_ns;
	bool fencing; /* a fence was begun and has not succeeded */
	const struct gck_mpi_blob *mine;
	struct gck_inside_message words; /* all[] points into it */
};

/* 1: a message for the caller; 0: none; -1: the quiesce is called off, or must be. */
static int listen(struct asked *a, struct gck_inside_message *m, int ms, struct gck_error *err)
{
	int rc = gck_inside_link_receive(&a->k->link, m, ms);

	if (gck_mpi_thread_stopping(a->k))
		rc = gck_fail(err, ECANCELED, "the program is ending");
	else if (rc < 0)
		gck_fail(err, ECANCELED, "the link to the agent has ended");
	if (rc < 0) {
		gck_inside_link_drop(m);
		return -1;
	}
	if (rc > 0)
		a->heard_ns = gck_mpi_now_ns();
	else if (gck_mpi_now_ns() - a->heard_ns > a->lease_ns)
		return gck_fail(err, ETIMEDOUT, "nothing was heard of the agent for %lld ms",
				(long long)a->lease_ns / 1000000);
	if (rc > 0 && m->head.type == GCK_LINK_MPI_RESUME) {
		gck_inside_link_drop(m);
		return gck_fail(err, ECANCELED, "called off");
	}
	return rc;
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* With words, the agent forwards them to all ranks as (rank, count, words). */
static int give(struct gck_mpi_allgather *x, uint32_t round, const struct gck_mpi_blob *mine,
		struct gck_error *err)
{
	struct asked *a = (struct asked *)x;
	struct gck_thread_msg m = {.type = GCK_LINK_MPI_READY, .seq = a->seq, .round = round};
	bool with_words = a->via == GCK_LINK_MPI_COORDINATOR;

	a->round = round;
	a->mine = mine;
	a->fencing = false;
	GCK_FAULT(GCK_FAULT_MPI_ROUND);
	if (gck_inside_link_send(&a->k->link, &m, mine->v,
			      with_words ? mine->n * sizeof *mine->v : 0))
		return gck_fail(err, ECANCELED, "the link to the agent has ended");
	GCK_FAULT(GCK_FAULT_MPI_READY);
	return 0;
}

static int begin_fence(struct asked *a, struct gck_error *err)
{
	int rc = gck_mpi_pmix_begin(a->seq << SERIAL_SHIFT | a->round, a->mine, err);

	GCK_FAULT(GCK_FAULT_MPI_FENCE);
	return rc;
}

static int go(struct asked *a, struct gck_inside_message *m, struct gck_mpi_words *all,
	      struct gck_error *err)
{
	if (m->head.round != a->round || m->head.seq != a->seq)
		return 0;
	if (a->via == GCK_LINK_MPI_PMIX) {
		a->fencing = true;
		return begin_fence(a, err);
	}
	gck_inside_link_drop(&a->words);
	a->words = *m;
	m->data = NULL;
	return gck_mpi_allgather_split(a->words.data, a->words.head.total, a->x.nranks, all, err)
	       ? -1 : 1;
}

static int take(struct gck_mpi_allgather *x, int ms, struct gck_mpi_words *all,
		struct gck_error *err)
{
	struct asked *a = (struct asked *)x;
	struct gck_inside_message m = {.data = NULL};
	int rc = a->fencing ? gck_mpi_pmix_end(ms, x->nranks, all, err) : 0;

	if (rc > 0)
		a->fencing = false;
	if (rc)
		return rc;
	rc = listen(a, &m, a->fencing ? 0 : ms, err);
	if (rc > 0) {
		rc = m.head.type == GCK_LINK_MPI_GO ? go(a, &m, all, err) : 0;
		gck_inside_link_drop(&m);
	}
	return rc;
}

/* ---- the quiesce ---------------------------------------------------------------------------- */

static int begin(struct asked *a, struct gck_mpi_thread_state *k,
		 const struct gck_inside_message *m,
		 struct gck_link_mpi_quiesce *q, struct gck_error *err)
{
	if (m->head.total != sizeof *q)
		return gck_fail(err, EPROTO, "the agent's word makes no sense");
	memcpy(q, m->data, sizeof *q);
	*a = (struct asked){.k = k, .seq = m->head.seq, .via = m->head.value,
			    .lease_ns = q->watchdog_ms * 1000000ll, .heard_ns = gck_mpi_now_ns()};
	return 0;
}

/* Inside MPI: together with all other ranks. */
static int quiesce_inside(struct asked *a, int64_t until_ns, struct gck_error *err)
{
	int rc;

	a->x = (struct gck_mpi_allgather){.nranks = (size_t)a->k->size, .rank = (size_t)a->k->rank,
					 .give = give, .take = take};
	if (a->k->size == 1)
		gck_mpi_allgather_alone(&a->x);
	else if (a->via == GCK_LINK_MPI_PMIX && !gck_mpi_pmix_usable())
		return gck_fail(err, EAGAIN,
				"PMIx cannot be used any more in this step: try again");
	rc = gck_mpi_quiesce(&a->x, until_ns, err);
	if (a->fencing && rc) {
		gck_mpi_pmix_give_up();
		gck_mpi_thread_tell(a->k, false); /* the agent is to know at once */
	}
	return rc;
}

/* Outside MPI the thread sends nothing to the agent, but listens. */
static int called_off(void *asked, struct gck_error *err)
{
	struct gck_inside_message m = {.data = NULL};
	int rc = listen(asked, &m, 0, err);

	gck_inside_link_drop(&m);
	return rc < 0 ? -1 : 0;
}

/* Quiesces by the program's stage of MPI. 1: try again. */
static int quiesce_as_is(struct asked *a, int64_t until_ns, struct gck_error *err)
{
	switch (gck_mpi_thread_stage(a->k, LOOK_MS)) {
	case GCK_MPI_INSIDE:
		return quiesce_inside(a, until_ns, err);
	case GCK_MPI_OUTSIDE:
		return gck_mpi_quiesce_outside(a->k, until_ns, called_off, a, err);
	default:
		break;
	}
	if (called_off(a, err))
		return -1;
	if (gck_mpi_now_ns() < until_ns)
		return 1;
	return gck_fail(err, ETIMEDOUT,
			"it is inside MPI_Init, which does not end: all ranks must have come "
			"through it");
}

/* The real library's own threads are held while the image is taken. */
static int quiesce(struct asked *a, const struct gck_link_mpi_quiesce *q, struct gck_error *err)
{
	int64_t until_ns = gck_mpi_now_ns() + q->limit_ms * 1000000ll;
	int rc;

	do
		rc = quiesce_as_is(a, until_ns, err);
	while (rc > 0);
	if (rc == 0)
		rc = gck_mpi_ns_hold(HOLD_MS, err);
	if (rc == 0)
		__atomic_store_n(&gck_mpi_state.closed_for, a->seq, __ATOMIC_SEQ_CST);
	GCK_FAULT(GCK_FAULT_MPI_QUIESCED);
	return rc;
}

static int answer(struct asked *a, int failed, const struct gck_error *err)
{
	struct gck_thread_msg m = {.type = GCK_LINK_MPI_QUIESCED, .seq = a->seq,
				 .value = failed ? (uint32_t)err->code : 0};

	return gck_inside_link_send(&a->k->link, &m, err->text, failed ? strlen(err->text) + 1 : 0);
}

/* Waits for RESUME, or a failed link. True: the process was restored from an image. */
static bool wait_resume(struct asked *a)
{
	int rc = 0;

	while (rc == 0) {
		struct gck_inside_message m = {.data = NULL};

		rc = listen(a, &m, LOOK_MS, NULL);
		if (gck_mpi_thread_restored(a->k)) {
			gck_inside_link_drop(&m);
			return true;
		}
		if (rc > 0) {
			rc = 0; /* HOLD, or a late message */
			gck_inside_link_drop(&m);
		}
	}
	return false;
}

/* closed_for is cleared first: an image taken from now on is not at rest. */
static void let_go(void)
{
	__atomic_store_n(&gck_mpi_state.closed_for, 0, __ATOMIC_SEQ_CST);
	gck_mpi_ns_release();
	gck_mpi_resume();
}

bool gck_mpi_serve_quiesce(struct gck_mpi_thread_state *k, const struct gck_inside_message *m)
{
	struct gck_link_mpi_quiesce q;
	struct asked a = {.k = k, .seq = m->head.seq};
	struct gck_error err = {0};
	bool restored = false;
	int failed = begin(&a, k, m, &q, &err) || gck_mpi_thread_stops_at_exit(&err);

	if (!failed)
		failed = quiesce(&a, &q, &err);
	if (failed) {
		gck_mpi_peer_progress_begin(k);
		gck_mpi_resume();
	}
	if (answer(&a, failed, &err) == 0 && !failed)
		restored = wait_resume(&a);
	gck_inside_link_drop(&a.words);
	if (!failed && !restored)
		let_go();
	return restored;
}

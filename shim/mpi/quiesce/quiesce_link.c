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

#define CHECK_MS 20       /* between checks of the stage and of the link */
#define HOLD_MS 1000
#define SERIAL_SHIFT 24   /* bits of a fence's serial for the round of a quiesce */

struct quiesce_request {
	struct gck_mpi_allgather x; /* first */
	struct gck_mpi_thread_state *k;
	uint64_t seq;
	uint32_t round, via;
	int64_t watchdog_ns, heard_ns;
	bool fence_pending; /* a fence was begun and has not succeeded */
	const struct gck_mpi_blob *mine;
	struct gck_inside_message words; /* all[] points into it */
};

/* 1: a message for the caller; 0: none; -1: the quiesce is called off, or must be. */
static int listen(struct quiesce_request *r, struct gck_inside_message *m, int ms,
		  struct gck_error *err)
{
	int rc = gck_inside_link_receive(&r->k->link, m, ms);

	if (gck_mpi_thread_stopping(r->k))
		rc = gck_fail(err, ECANCELED, "the program is exiting");
	else if (rc < 0)
		gck_fail(err, ECANCELED, "the link to the agent has ended");
	if (rc < 0) {
		gck_inside_link_drop(m);
		return -1;
	}
	if (rc > 0)
		r->heard_ns = gck_mpi_now_ns();
	else if (gck_mpi_now_ns() - r->heard_ns > r->watchdog_ns)
		return gck_fail(err, ETIMEDOUT, "the agent was silent for %lld ms",
				(long long)r->watchdog_ns / 1000000);
	if (rc > 0 && m->head.type == GCK_LINK_MPI_RESUME) {
		gck_inside_link_drop(m);
		return gck_fail(err, ECANCELED, "the quiesce was called off");
	}
	return rc;
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* With words, the agent forwards them to all ranks as (rank, count, words). */
static int give(struct gck_mpi_allgather *x, uint32_t round, const struct gck_mpi_blob *mine,
		struct gck_error *err)
{
	struct quiesce_request *r = (struct quiesce_request *)x;
	struct gck_thread_msg m = {.type = GCK_LINK_MPI_READY, .seq = r->seq, .round = round};
	bool with_words = r->via == GCK_LINK_MPI_COORDINATOR;

	r->round = round;
	r->mine = mine;
	r->fence_pending = false;
	GCK_FAULT(GCK_FAULT_MPI_ROUND);
	if (gck_inside_link_send(&r->k->link, &m, mine->v,
			      with_words ? mine->n * sizeof *mine->v : 0))
		return gck_fail(err, ECANCELED, "the link to the agent has ended");
	GCK_FAULT(GCK_FAULT_MPI_READY);
	return 0;
}

static int begin_fence(struct quiesce_request *r, struct gck_error *err)
{
	int rc = gck_mpi_pmix_begin(r->seq << SERIAL_SHIFT | r->round, r->mine, err);

	GCK_FAULT(GCK_FAULT_MPI_FENCE);
	return rc;
}

static int go(struct quiesce_request *r, struct gck_inside_message *m, struct gck_mpi_words *all,
	      struct gck_error *err)
{
	if (m->head.round != r->round || m->head.seq != r->seq)
		return 0;
	if (r->via == GCK_LINK_MPI_PMIX) {
		r->fence_pending = true;
		return begin_fence(r, err);
	}
	gck_inside_link_drop(&r->words);
	r->words = *m;
	m->data = NULL;
	return gck_mpi_allgather_split(r->words.data, r->words.head.total, r->x.nranks, all, err)
	       ? -1 : 1;
}

static int take(struct gck_mpi_allgather *x, int ms, struct gck_mpi_words *all,
		struct gck_error *err)
{
	struct quiesce_request *r = (struct quiesce_request *)x;
	struct gck_inside_message m = {.data = NULL};
	int rc = r->fence_pending ? gck_mpi_pmix_end(ms, x->nranks, all, err) : 0;

	if (rc > 0)
		r->fence_pending = false;
	if (rc)
		return rc;
	rc = listen(r, &m, r->fence_pending ? 0 : ms, err);
	if (rc > 0) {
		rc = m.head.type == GCK_LINK_MPI_GO ? go(r, &m, all, err) : 0;
		gck_inside_link_drop(&m);
	}
	return rc;
}

/* ---- the quiesce ---------------------------------------------------------------------------- */

static int begin(struct quiesce_request *r, struct gck_mpi_thread_state *k,
		 const struct gck_inside_message *m,
		 struct gck_link_mpi_quiesce *q, struct gck_error *err)
{
	if (m->head.total != sizeof *q)
		return gck_fail(err, EPROTO, "the agent's QUIESCE message has a wrong size");
	memcpy(q, m->data, sizeof *q);
	*r = (struct quiesce_request){.k = k, .seq = m->head.seq, .via = m->head.value,
				       .watchdog_ns = q->watchdog_ms * 1000000ll,
				       .heard_ns = gck_mpi_now_ns()};
	return 0;
}

/* Inside MPI: together with all other ranks. */
static int quiesce_with_ranks(struct quiesce_request *r, int64_t deadline_ns, struct gck_error *err)
{
	int rc;

	r->x = (struct gck_mpi_allgather){.nranks = (size_t)r->k->size, .rank = (size_t)r->k->rank,
					 .give = give, .take = take};
	if (r->k->size == 1)
		gck_mpi_allgather_alone(&r->x);
	else if (r->via == GCK_LINK_MPI_PMIX && !gck_mpi_pmix_usable())
		return gck_fail(err, EAGAIN,
				"PMIx is no longer usable in this step: " GCK_MPI_PMIX_AGAIN);
	rc = gck_mpi_quiesce(&r->x, deadline_ns, err);
	if (r->fence_pending && rc) {
		gck_mpi_pmix_give_up();
		gck_mpi_thread_set_reported(r->k, false); /* report it to the agent at once */
	}
	return rc;
}

/* Outside MPI the thread sends nothing to the agent, but listens. */
static int called_off(void *quiesce_request, struct gck_error *err)
{
	struct gck_inside_message m = {.data = NULL};
	int rc = listen(quiesce_request, &m, 0, err);

	gck_inside_link_drop(&m);
	return rc < 0 ? -1 : 0;
}

/* Quiesces by the program's stage of MPI. 1: try again. */
static int quiesce_by_stage(struct quiesce_request *r, int64_t deadline_ns, struct gck_error *err)
{
	switch (gck_mpi_thread_stage(r->k, CHECK_MS)) {
	case GCK_MPI_INITIALIZED:
		return quiesce_with_ranks(r, deadline_ns, err);
	case GCK_MPI_UNINITIALIZED:
		return gck_mpi_quiesce_uninitialized(r->k, deadline_ns, called_off, r, err);
	default:
		break;
	}
	if (called_off(r, err))
		return -1;
	if (gck_mpi_now_ns() < deadline_ns)
		return 1;
	return gck_fail(err, ETIMEDOUT,
			"it is inside MPI_Init, which does not end: try again when all ranks have "
			"left it");
}

/* The real library's own threads are held while the image is taken. */
static int quiesce(struct quiesce_request *r, const struct gck_link_mpi_quiesce *q,
		   struct gck_error *err)
{
	int64_t deadline_ns = gck_mpi_now_ns() + q->limit_ms * 1000000ll;
	int rc;

	do
		rc = quiesce_by_stage(r, deadline_ns, err);
	while (rc > 0);
	if (rc == 0)
		rc = gck_namespace_hold(HOLD_MS, err);
	if (rc == 0)
		__atomic_store_n(&gck_mpi_state.closed_for, r->seq, __ATOMIC_SEQ_CST);
	GCK_FAULT(GCK_FAULT_MPI_QUIESCED);
	return rc;
}

static int answer(struct quiesce_request *r, int failed, const struct gck_error *err)
{
	struct gck_thread_msg m = {.type = GCK_LINK_MPI_QUIESCED, .seq = r->seq,
				 .value = failed ? (uint32_t)err->code : 0};

	return gck_inside_link_send(&r->k->link, &m, err->text, failed ? strlen(err->text) + 1 : 0);
}

/* Waits for RESUME, or a failed link. True: the process was restored from an image. */
static bool wait_resume(struct quiesce_request *r)
{
	int rc = 0;

	while (rc == 0) {
		struct gck_inside_message m = {.data = NULL};

		rc = listen(r, &m, CHECK_MS, NULL);
		if (gck_mpi_thread_restored(r->k)) {
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
static void release(void)
{
	__atomic_store_n(&gck_mpi_state.closed_for, 0, __ATOMIC_SEQ_CST);
	gck_namespace_release();
	gck_mpi_resume();
}

bool gck_mpi_serve_quiesce(struct gck_mpi_thread_state *k, const struct gck_inside_message *m)
{
	struct gck_link_mpi_quiesce q;
	struct quiesce_request r = {.k = k, .seq = m->head.seq};
	struct gck_error err = {0};
	bool restored = false;
	int failed = begin(&r, k, m, &q, &err) || gck_mpi_thread_stops_at_exit(&err);

	if (!failed)
		failed = quiesce(&r, &q, &err);
	if (failed) {
		gck_mpi_peer_progress_begin(k);
		gck_mpi_resume();
	}
	if (answer(&r, failed, &err) == 0 && !failed)
		restored = wait_resume(&r);
	gck_inside_link_drop(&r.words);
	if (!failed && !restored)
		release();
	return restored;
}

/* SPDX-License-Identifier: Apache-2.0
 * MPI is quiesced on this node. */
#include "config.h"

#include "coordinator/agent/checkpoint/quiesce.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/encoding.h"
#include "common/wire/wire.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/ranks/thread_link.h"
#include "coordinator/agent/upstream/upstream.h"

#define PIECE (384u << 10)     /* bytes of words in one frame to the coordinator */
#define TOO_MANY "the ranks' words are too many for an exchange through the coordinator: start " \
		 "the step with --mpi=pmix"
#define ANSWER_PART 0.95       /* of hold: so that a rank at fault answers before it is given up */

void quiesce_order(struct transaction *t, const json_t *body)
{
	bool pmix = !strcmp(packet_text(body, "via", ""), "pmix");

	t->quiesce.via = pmix ? GCK_LINK_MPI_PMIX : GCK_LINK_MPI_COORDINATOR;
	t->quiesce.limit_ms = (uint32_t)packet_int(body, "limit_ms",
						   (json_int_t)(t->hold_s * 1000));
}

static bool takes_part(const struct rank_checkpoint *m)
{
	return m->asked_mpi && !m->carried && !m->answer[PHASE_QUIESCE];
}

static void fail(struct transaction *t, const struct rank_checkpoint *m, int code, const char *why)
{
	struct gck_error err = { 0 };

	gck_fail(&err, code, "%s", why);
	transaction_fail(t, m, &err, false);
}

/* Words are numbered by the step's ranks, but MPI finds them by its own, which mpirun may have
 * started in the rank. */
static bool is_rank_of_step(const struct rank_checkpoint *m)
{
	const struct gck_link_mpi_hello *hello = &m->task->mpi->hello;

	return hello->size <= 1 || (hello->rank == m->task->rank &&
				    hello->size == m->t->agent->step->ntasks);
}

/* From here on ranks wait at MPI's gate, which is a hold: the freeze gets what is left of its
 * time. They are let go if no freeze follows, whether another node is late or the coordinator
 * away. */
void quiesce_start(struct transaction *t)
{
	struct gck_thread_msg m = { .type = GCK_LINK_MPI_QUIESCE, .seq = t->seq,
				  .value = t->quiesce.via };
	struct gck_link_mpi_quiesce q = { .limit_ms = t->quiesce.limit_ms,
		.watchdog_ms = t->held_ms + TRANSACTION_WATCHDOG_MORE_MS };

	t->quiesce.began = ev_now(t->agent->loop);
	transaction_limit(t, ANSWER_PART * t->hold_s);
	transaction_bound_hold(t, t->hold_s);
	ev_timer_again(t->agent->loop, &t->tick);
	for (size_t i = 0; i < t->n; i++) {
		struct rank_checkpoint *one = &t->ranks[i];

		one->asked_mpi = !one->carried && one->task->mpi;
		if (one->asked_mpi && !is_rank_of_step(one)) {
			fail(t, one, ENOTSUP, "its MPI_COMM_WORLD has other ranks than the step: "
			     "start the program with srun itself");
			return;
		}
		if (one->asked_mpi)
			thread_link_send(one->task->mpi, &m, &q, sizeof q);
		else
			one->answer[PHASE_QUIESCE] = json_object();
	}
}

static void tell(struct transaction *t, const struct gck_thread_msg *m, const void *data,
		 size_t size)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->ranks[i].asked_mpi && t->ranks[i].task->mpi)
			thread_link_send(t->ranks[i].task->mpi, m, data, size);
}

void quiesce_hold(struct transaction *t)
{
	tell(t, &(struct gck_thread_msg){ .type = GCK_LINK_MPI_HOLD, .seq = t->seq }, NULL, 0);
}

void quiesce_resume(struct transaction *t)
{
	tell(t, &(struct gck_thread_msg){ .type = GCK_LINK_MPI_RESUME, .seq = t->seq }, NULL, 0);
	for (size_t i = 0; i < t->n; i++)
		t->ranks[i].asked_mpi = false;
}

void quiesce_clear(struct transaction *t)
{
	free(t->quiesce.ours.v);
	free(t->quiesce.all.v);
	t->quiesce.ours = t->quiesce.all = (struct words){ 0 };
}

/* ---- rounds, to the coordinator ------------------------------------------------------------ */

static int append(struct words *w, const void *data, size_t size)
{
	unsigned char *v;

	if (size > GCK_WIRE_MAX_BULK - w->n)
		return EMSGSIZE;
	v = realloc(w->v, w->n + size + 1);
	if (!v)
		return ENOMEM;
	memcpy(v + w->n, data, size);
	w->v = v;
	w->n += size;
	return 0;
}

static void send_piece(struct transaction *t, size_t at, size_t n)
{
	char *text = gck_base64_text(t->quiesce.ours.v + at, n);

	upstream_send(t->agent, json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "op", "ready", "seq",
		      (json_int_t)t->seq, "round", (json_int_t)t->quiesce.round, "at",
		      (json_int_t)at, "total", (json_int_t)t->quiesce.ours.n, "data",
		      text ? text : ""));
	free(text);
}

/* Sends a round once every rank that takes part waits for it. (A rank outside of MPI answers
 * without any round.) */
static void send_round(struct transaction *t)
{
	size_t at = 0;
	bool any = false;

	for (size_t i = 0; i < t->n; i++) {
		if (!takes_part(&t->ranks[i]))
			continue;
		if (t->ranks[i].round != t->quiesce.round)
			return;
		any = true;
	}
	if (!any || !t->quiesce.round || t->quiesce.sent == t->quiesce.round)
		return;
	t->quiesce.sent = t->quiesce.round;
	do {
		size_t left = t->quiesce.ours.n - at;

		send_piece(t, at, left < PIECE ? left : PIECE);
		at += PIECE;
	} while (at < t->quiesce.ours.n);
	t->quiesce.ours.n = t->quiesce.all.n = 0;
}

void quiesce_ready(struct agent *a, struct task *task, const struct gck_thread_msg *head,
		   const void *words)
{
	struct rank_checkpoint *m = transaction_rank(a, task);
	uint64_t count = head->total / sizeof(uint64_t);
	const uint64_t before[2] = { task->rank, count };
	struct transaction *t = a->transaction;

	if (!m || t->asked != PHASE_QUIESCE || head->seq != t->seq || !takes_part(m) || t->failed)
		return;
	if (head->round != m->round + 1 || head->total % sizeof(uint64_t)) {
		fail(t, m, EPROTO, "its MPI thread sent an invalid message");
		return;
	}
	m->round = head->round;
	t->quiesce.round = head->round;
	if (t->quiesce.via == GCK_LINK_MPI_COORDINATOR) {
		int rc = append(&t->quiesce.ours, before, sizeof before);

		rc = rc ? rc : append(&t->quiesce.ours, words, head->total);
		if (rc) {
			fail(t, m, rc, rc == EMSGSIZE ? TOO_MANY : "no memory for its words");
			return;
		}
	}
	send_round(t);
}

/* ---- rounds, from the coordinator ---------------------------------------------------------- */

static int take_words(struct transaction *t, const json_t *body)
{
	const char *text = packet_text(body, "data", "");
	size_t length = strlen(text);
	unsigned char *bytes;
	long n;
	int rc;

	if ((size_t)packet_int(body, "at", -1) != t->quiesce.all.n)
		return -1;
	bytes = malloc(GCK_BASE64_BYTES_MAX(length) + 1);
	if (!bytes)
		return -1;
	n = gck_base64_bytes(text, length, bytes);
	rc = n < 0 ? -1 : append(&t->quiesce.all, bytes, (size_t)n);
	free(bytes);
	return rc;
}

void quiesce_go(struct transaction *t, const json_t *body)
{
	uint32_t round = (uint32_t)packet_int(body, "round", 0);
	struct gck_thread_msg m = { .type = GCK_LINK_MPI_GO, .seq = t->seq, .round = round };

	if (t->asked != PHASE_QUIESCE || t->failed || round != t->quiesce.round)
		return;
	if (take_words(t, body)) {
		fail(t, NULL, EPROTO, "the coordinator sent invalid words");
		return;
	}
	if (t->quiesce.all.n == (size_t)packet_int(body, "total", 0)) {
		for (size_t i = 0; i < t->n; i++)
			if (takes_part(&t->ranks[i]) && t->ranks[i].task->mpi)
				thread_link_send(t->ranks[i].task->mpi, &m, t->quiesce.all.v,
					 t->quiesce.all.n);
		t->quiesce.all.n = 0;
	}
}

/* ---- answers ------------------------------------------------------------------------------- */

void quiesce_answered(struct agent *a, struct task *task, uint64_t seq, const struct gck_error *why)
{
	struct rank_checkpoint *m = transaction_rank(a, task);

	if (!m || m->t->asked != PHASE_QUIESCE || seq != m->t->seq || !takes_part(m))
		return;
	if (why) {
		transaction_fail(m->t, m, why, false);
		return;
	}
	m->answer[PHASE_QUIESCE] = json_object();
	send_round(m->t);
	m->t->ops->advance(m->t);
}

/* All others wait for it, so it fails at once. */
void quiesce_ended(const struct rank_checkpoint *m)
{
	if (m->task->in_mpi)
		fail(m->t, m, ESRCH, "it ended without MPI_Finalize: the others cannot be restored "
		     "without it");
	else
		fail(m->t, m, EAGAIN, "it ended while its MPI was brought to rest: try again");
}

/* A rank whose image is taken is frozen, or not needed any more. */
void quiesce_lost(struct agent *a, struct task *task)
{
	struct rank_checkpoint *m = transaction_rank(a, task);

	if (!m || m->carried || m->t->failed || !m->asked_mpi || m->answer[PHASE_FREEZE])
		return;
	if (rank_checkpoint_gone(m))
		quiesce_ended(m);
	else
		fail(m->t, m, EAGAIN, "its MPI thread went away (exit(), or another "
		     "program was executed): try again");
}

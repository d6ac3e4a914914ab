/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/agent/cuda.h"

#include <string.h>

#include "common/log.h"
#include "coordinator/agent/restart.h"

/* ---- orders ---------------------------------------------------------------------------------- */

void cuda_drain(struct transaction *t, double seconds)
{
	struct gck_link_mpi m = { .type = GCK_LINK_CUDA_DRAIN, .seq = t->seq };
	struct gck_link_cuda_drain d = { .limit_ms = (uint32_t)(seconds * 1000),
		.lease_ms = phase_held_ms(t) + PHASE_LEASE_MORE_MS };

	for (size_t i = 0; i < t->n; i++) {
		struct member *one = &t->members[i];

		if (one->carried || !one->task->cuda)
			continue;
		one->cuda = CUDA_DRAINS;
		thread_link_send(one->task->cuda, &m, &d, sizeof d);
	}
}

const struct member *cuda_awaited(const struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct member *m = &t->members[i];

		if (!m->carried && (m->cuda == CUDA_DRAINS || m->cuda == CUDA_RESUMES))
			return m;
	}
	return NULL;
}

static void tell(const struct member *m, uint32_t type)
{
	if (m->task->cuda)
		thread_link_send(m->task->cuda, &(struct gck_link_mpi){ .type = type,
				 .seq = m->t->seq }, NULL, 0);
}

void cuda_hold(struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->members[i].cuda == CUDA_DRAINS || t->members[i].cuda == CUDA_DRAINED)
			tell(&t->members[i], GCK_LINK_CUDA_HOLD);
}

void cuda_resume(struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct member *m = &t->members[i];

		if (m->cuda != CUDA_DRAINS && m->cuda != CUDA_DRAINED)
			continue;
		tell(m, GCK_LINK_CUDA_RESUME);
		m->cuda = m->task->cuda ? CUDA_RESUMES : CUDA_RUNS;
	}
}

/* ---- answers --------------------------------------------------------------------------------- */

static void drained(struct agent *a, struct task *task, uint64_t seq, const struct gck_error *why)
{
	struct member *m = transaction_member(a, task);

	if (!m || m->cuda != CUDA_DRAINS || seq != m->t->seq)
		return;
	m->cuda = why ? CUDA_RUNS : CUDA_DRAINED;
	if (why)
		transaction_fail(m->t, m, why, false);
	else if (!m->t->failed && m->t->asked == PHASE_FREEZE)
		phase_freeze(m->t);
}

/* After a checkpoint, be it one before this; after a restart; a rank whose lease ended says so as well.
 * Where the GPU does not come back the rank waits at the gate for ever: the step cannot go on. */
static void resumed(struct agent *a, struct task *task, uint64_t seq, const struct gck_error *why)
{
	struct member *m = transaction_member(a, task);

	restart_back(a, task, RESTART_CUDA, why);
	if (!m || m->cuda == CUDA_RUNS || why || seq != m->t->seq)
		return;
	m->cuda = CUDA_RUNS;
	phase_settle(m->t);
}

/* Its program ended, or executed another one. A rank whose image is taken is needed no more. */
static void lost(struct agent *a, struct task *task)
{
	struct member *m = transaction_member(a, task);
	struct gck_error err = { 0 };

	if (!m || m->cuda == CUDA_RUNS)
		return;
	gck_fail(&err, ECONNRESET, "its CUDA thread went away: try again");
	if (m->cuda == CUDA_DRAINS)
		transaction_fail(m->t, m, &err, false);
	m->cuda = CUDA_RUNS;
	if (!m->t->failed)
		phase_settle(m->t);
}

/* A rank whose GPU is not back yet, or could not be brought back, says `restored` in every HELLO. */
static void take_hello(struct thread_link *l)
{
	struct gck_link_cuda_hello hello;

	if (l->head.total == sizeof hello)
		memcpy(&hello, l->data, sizeof hello);
	if (l->head.total != sizeof hello || hello.version != GCK_LINK_VERSION) {
		gck_warn("rank %u: its CUDA thread is of another release", l->task->rank);
		thread_link_lost(l);
	} else if (!hello.restored) {
		restart_back(l->agent, l->task, RESTART_CUDA, NULL);
	}
}

static void take(struct thread_link *l)
{
	struct gck_error err = { 0 };

	if (l->head.value)
		thread_link_failure(l, &err);
	switch (l->head.type) {
	case GCK_LINK_CUDA_HELLO:
		take_hello(l);
		break;
	case GCK_LINK_CUDA_DRAINED:
		drained(l->agent, l->task, l->head.seq, l->head.value ? &err : NULL);
		break;
	case GCK_LINK_CUDA_RESUMED:
		resumed(l->agent, l->task, l->head.seq, l->head.value ? &err : NULL);
		break;
	case GCK_LINK_CUDA_ITEM:
		thread_link_item(l);
		break;
	case GCK_LINK_CUDA_LOOKED:
		l->looked = true;
		break;
	default:
		gck_warn("rank %u: its CUDA thread said what is not known", l->task->rank);
		thread_link_lost(l);
	}
}

/* ---- links ----------------------------------------------------------------------------------- */

static struct thread_link **slot(struct task *t)
{
	return &t->cuda;
}

static const struct thread_kind cuda = { "CUDA", slot, take, lost };

void cuda_adopt(struct agent *a, int fd, pid_t pid, const struct gck_link_mpi *m, size_t size)
{
	thread_link_adopt(a, fd, pid, &cuda, m, size);
}

void cuda_look(struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		if (a->tasks.v[i]->cuda)
			thread_link_look(a->tasks.v[i]->cuda, GCK_LINK_CUDA_LOOK);
}

bool cuda_looked(const struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		if (a->tasks.v[i]->cuda && !a->tasks.v[i]->ended && !a->tasks.v[i]->cuda->looked)
			return false;
	return true;
}

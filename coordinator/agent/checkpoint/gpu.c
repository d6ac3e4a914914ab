/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/agent/checkpoint/gpu.h"

#include <string.h>

#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"

#define EXPECT_LEAST (64u << 20) /* bytes of host memory: less is there in no time */

static int64_t now_ns(void)
{
	return (int64_t)(ev_time() * 1e9);
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Not where it is held, nor where nothing could be read of its devices. */
static bool may_keep(const struct member *m, bool held)
{
	return !held && m->device.rank[0] >= 0;
}

static json_int_t host_needs(const struct member *m, bool held)
{
	json_int_t has = m->carried ? 0 : packet_int(m->answer[PHASE_PREPARE], "device", 0);

	return has && may_keep(m, held) ? has - m->finds_room : has;
}

json_int_t cuda_host_needs(const struct transaction *t, bool held)
{
	json_int_t sum = 0;

	for (size_t i = 0; i < t->n; i++)
		sum += host_needs(&t->members[i], held);
	return sum;
}

static struct gck_link_cuda_drain order(const struct member *m, bool held, double seconds)
{
	struct gck_link_cuda_drain d = {
		.limit_ms = (uint32_t)(seconds * 1000), .host_most = (uint64_t)host_needs(m, held),
	};

	if (may_keep(m, held))
		memcpy(d.keep_most, m->keep_most, sizeof d.keep_most);
	return d;
}

/* What nobody needs, as far as was known then, is each rank's to the same part. */
static uint64_t spare_memory(const struct transaction *t, bool held)
{
	json_int_t spare = packet_int(t->checked, "memory", 0) - cuda_host_needs(t, held);

	return spare > 0 ? (uint64_t)spare / t->n : 0;
}

bool cuda_expect(struct transaction *t, bool held, double seconds)
{
	struct gck_link_mpi m = { .type = GCK_LINK_CUDA_EXPECT, .seq = t->seq };

	for (size_t i = 0; i < t->n; i++) {
		struct member *one = &t->members[i];
		struct gck_link_cuda_drain d = order(one, held, seconds);

		if (one->carried || one->expects || !one->task->cuda || d.host_most < EXPECT_LEAST)
			continue;
		one->expects = true;
		one->cuda = CUDA_EXPECTS;
		thread_link_send(one->task->cuda, &m, &d, sizeof d);
	}
	return cuda_awaited(t) != NULL;
}

void cuda_drain(struct transaction *t, double seconds)
{
	struct gck_link_mpi m = { .type = GCK_LINK_CUDA_DRAIN, .seq = t->seq };
	uint64_t spare = spare_memory(t, t->held_write);

	for (size_t i = 0; i < t->n; i++) {
		struct member *one = &t->members[i];
		struct gck_link_cuda_drain d = order(one, t->held_write, seconds);

		d.lease_ms = t->held_ms + TRANSACTION_LEASE_MORE_MS;
		d.host_most += spare;
		if (one->carried || !one->task->cuda)
			continue;
		if (!t->gpu_first_ns)
			t->gpu_first_ns = now_ns();
		one->cuda = CUDA_DRAINS;
		one->expects = false;
		thread_link_send(one->task->cuda, &m, &d, sizeof d);
	}
}

bool cuda_keeps(const struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->members[i].keeps)
			return true;
	return false;
}

const struct member *cuda_awaited(const struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct member *m = &t->members[i];

		if (!m->carried && m->cuda != CUDA_RUNS && m->cuda != CUDA_DRAINED)
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

/* What is kept for an image that is still to be had is wanted; else it goes as the rank goes on. */
static void resume_one(struct member *m)
{
	struct gck_link_mpi order = { .type = GCK_LINK_CUDA_RESUME, .seq = m->t->seq };

	m->brings = m->keeps && m->device.rank[0] >= 0 && m->task->cuda && !m->t->failed &&
		    !m->t->aborted;
	if (m->brings)
		thread_link_give(m->task->cuda, &order, m->device.rank);
	else
		tell(m, GCK_LINK_CUDA_RESUME);
	m->cuda = m->task->cuda ? CUDA_RESUMES : CUDA_RUNS;
}

static void expect_no_more(struct member *m)
{
	tell(m, GCK_LINK_CUDA_RESUME);
	m->expects = false;
	m->cuda = CUDA_RUNS;
}

void cuda_resume(struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->members[i].cuda == CUDA_DRAINS || t->members[i].cuda == CUDA_DRAINED)
			resume_one(&t->members[i]);
		else if (t->members[i].expects)
			expect_no_more(&t->members[i]);
}

/* ---- answers --------------------------------------------------------------------------------- */

void cuda_drained(struct agent *a, const struct task *task, uint64_t seq, bool keeps,
		  const struct gck_error *why)
{
	struct member *m = transaction_member(a, task);

	if (!m || m->cuda != CUDA_DRAINS || seq != m->t->seq)
		return;
	m->cuda = why ? CUDA_RUNS : CUDA_DRAINED;
	m->keeps = keeps && !why;
	if (why)
		transaction_fail(m->t, m, why, false);
	else if (!m->t->failed && m->t->asked == PHASE_FREEZE)
		m->t->ops->drained(m->t);
}

void cuda_expected(struct agent *a, const struct task *task, uint64_t seq)
{
	struct member *m = transaction_member(a, task);

	if (!m || m->cuda != CUDA_EXPECTS || seq != m->t->seq)
		return;
	m->cuda = CUDA_RUNS;
	m->t->ops->settle(m->t);
}

void cuda_resumed(struct agent *a, const struct task *task, uint64_t seq)
{
	struct member *m = transaction_member(a, task);

	if (!m || m->cuda == CUDA_RUNS || seq != m->t->seq)
		return;
	m->cuda = CUDA_RUNS;
	m->t->gpu_last_ns = now_ns();
	m->t->ops->settle(m->t);
}

void cuda_lost(struct agent *a, const struct task *task)
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
		m->t->ops->settle(m->t);
}

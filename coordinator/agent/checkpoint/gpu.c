/* SPDX-License-Identifier: Apache-2.0
 * The GPUs of this node's ranks in a checkpoint. */
#include "config.h"

#include "coordinator/agent/checkpoint/gpu.h"

#include <string.h>

#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/transaction.h"

#define PREPARE_MIN (64u << 20) /* less host memory is allocated fast enough */

static int64_t now_ns(void)
{
	return (int64_t)(ev_time() * 1e9);
}

/* ---- the processes ------------------------------------------------------------------------- */

/* Where a search through the GPUs of all ranks is. It begins as {0}. */
struct place {
	size_t rank, gpu;
};

/* The next process that uses CUDA of a rank that takes part; NULL: no more. */
static struct gpu_process *next(const struct transaction *t, struct place *at)
{
	for (; at->rank < t->n; at->rank++, at->gpu = 0) {
		const struct rank_checkpoint *m = &t->ranks[at->rank];

		if (!m->carried && at->gpu < m->ngpus)
			return &m->gpus[at->gpu++];
	}
	return NULL;
}

/* The rank of the process that next() has found. */
static struct rank_checkpoint *rank_at(const struct transaction *t, const struct place *at)
{
	return &t->ranks[at->rank];
}

static struct thread_link *link_of(const struct rank_checkpoint *m, pid_t number)
{
	struct thread_link *l = m->task->cuda;

	while (l && thread_link_number(l) != number)
		l = l->next;
	return l;
}

bool gpu_is_linked(const struct rank_checkpoint *m, pid_t number)
{
	return link_of(m, number);
}

/* Enter the processes that have begun to use CUDA since. */
static void enter_linked(struct transaction *t)
{
	struct gck_error err = { 0 };

	for (size_t i = 0; i < t->n && !t->failed; i++) {
		const struct thread_link *l = t->ranks[i].carried ? NULL : t->ranks[i].task->cuda;

		for (; l && !t->failed; l = l->next)
			if (!rank_checkpoint_add_gpu(&t->ranks[i], thread_link_number(l), &err))
				transaction_fail(t, &t->ranks[i], &err, false);
	}
}

/* ---- orders -------------------------------------------------------------------------------- */

/* Whether copies may stay on the devices: not while ranks are held for the write, nor without a
 * channel to read them. */
static bool may_copy_on_devices(const struct gpu_process *g, bool held)
{
	return !held && g->device.rank[0] >= 0;
}

static json_int_t host_needs(const struct gpu_process *g, bool held)
{
	return g->bytes && may_copy_on_devices(g, held) ? g->bytes - g->fits_device : g->bytes;
}

json_int_t gpu_host_needs(const struct transaction *t, bool held)
{
	const struct gpu_process *g;
	struct place at = { 0 };
	json_int_t sum = 0;

	while ((g = next(t, &at)))
		sum += host_needs(g, held);
	return sum;
}

static struct gck_link_cuda_drain order(const struct gpu_process *g, bool held, double seconds)
{
	struct gck_link_cuda_drain d = {
		.limit_ms = (uint32_t)(seconds * 1000),
		.host_copy_max = (uint64_t)host_needs(g, held),
	};

	if (may_copy_on_devices(g, held))
		memcpy(d.device_copy_max, g->device_copy_max, sizeof d.device_copy_max);
	return d;
}

/* Memory that, as far as is known, no rank needs, divided equally among processes with CUDA. */
static uint64_t spare_memory(const struct transaction *t, bool held)
{
	json_int_t spare = packet_int(t->checked, "memory", 0) - gpu_host_needs(t, held);
	struct place at = { 0 };
	uint64_t n = 0;

	while (next(t, &at))
		n++;
	return n && spare > 0 ? (uint64_t)spare / n : 0;
}

bool gpu_prepare(struct transaction *t, bool held, double seconds)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_PREPARE, .seq = t->seq };
	struct gpu_process *g;
	struct place at = { 0 };

	enter_linked(t);
	while (!t->failed && (g = next(t, &at))) {
		struct gck_link_cuda_drain d = order(g, held, seconds);
		struct thread_link *l = link_of(rank_at(t, &at), g->number);

		if (g->announced || !l)
			continue;
		if (d.host_copy_max < PREPARE_MIN)
			d.host_copy_max = 0;
		g->announced = true;
		g->state = GPU_PREPARES;
		thread_link_send(l, &m, &d, sizeof d);
	}
	return t->failed || gpu_awaited(t);
}

void gpu_drain(struct transaction *t, double seconds)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_DRAIN, .seq = t->seq };
	struct gpu_process *g;
	struct place at = { 0 };
	uint64_t spare;

	enter_linked(t);
	spare = spare_memory(t, t->held_write);
	while (!t->failed && (g = next(t, &at))) {
		struct gck_link_cuda_drain d = order(g, t->held_write, seconds);
		struct thread_link *l = link_of(rank_at(t, &at), g->number);

		d.watchdog_ms = t->held_ms + TRANSACTION_WATCHDOG_MORE_MS;
		d.host_copy_max += spare;
		if (!l)
			continue;
		if (!t->gpu_first_ns)
			t->gpu_first_ns = now_ns();
		g->state = GPU_DRAINS;
		g->announced = false;
		thread_link_send(l, &m, &d, sizeof d);
	}
}

bool gpu_has_copies(const struct transaction *t)
{
	const struct gpu_process *g;
	struct place at = { 0 };

	while ((g = next(t, &at)))
		if (g->device_copy)
			return true;
	return false;
}

const struct rank_checkpoint *gpu_awaited(const struct transaction *t)
{
	const struct gpu_process *g;
	struct place at = { 0 };

	while ((g = next(t, &at)))
		if (g->state != GPU_RUNS && g->state != GPU_DRAINED)
			return rank_at(t, &at);
	return NULL;
}

static void tell(const struct rank_checkpoint *m, const struct gpu_process *g, uint32_t type)
{
	struct thread_link *l = link_of(m, g->number);

	if (l)
		thread_link_send(l, &(struct gck_thread_msg){ .type = type, .seq = m->t->seq },
				 NULL, 0);
}

void gpu_hold(struct transaction *t)
{
	const struct gpu_process *g;
	struct place at = { 0 };

	while ((g = next(t, &at)))
		if (g->state == GPU_DRAINS || g->state == GPU_DRAINED)
			tell(rank_at(t, &at), g, GCK_LINK_CUDA_HOLD);
}

/* Device copies are sent to the worker if the image is still wanted; else they are freed when the
 * process resumes. */
static void resume_one(struct rank_checkpoint *m, struct gpu_process *g)
{
	struct gck_thread_msg order = { .type = GCK_LINK_CUDA_RESUME, .seq = m->t->seq };
	struct thread_link *l = link_of(m, g->number);

	g->sends_device_copy = g->device_copy && g->device.rank[0] >= 0 && l && !m->t->failed &&
			       !m->t->aborted;
	if (g->sends_device_copy)
		thread_link_give(l, &order, g->device.rank);
	else
		tell(m, g, GCK_LINK_CUDA_RESUME);
	g->state = l ? GPU_RESUMES : GPU_RUNS;
}

static void expect_no_more(struct rank_checkpoint *m, struct gpu_process *g)
{
	tell(m, g, GCK_LINK_CUDA_RESUME);
	g->announced = false;
	g->state = GPU_RUNS;
}

void gpu_resume(struct transaction *t)
{
	struct gpu_process *g;
	struct place at = { 0 };

	while ((g = next(t, &at)))
		if (g->state == GPU_DRAINS || g->state == GPU_DRAINED)
			resume_one(rank_at(t, &at), g);
		else if (g->announced)
			expect_no_more(rank_at(t, &at), g);
}

bool gpu_may_be_drained(const struct rank_checkpoint *m)
{
	for (size_t i = 0; i < m->ngpus; i++)
		if (m->gpus[i].state >= GPU_DRAINS)
			return true;
	return false;
}

json_t *gpu_senders(const struct rank_checkpoint *m)
{
	json_t *numbers = json_array();

	for (size_t i = 0; i < m->ngpus; i++)
		if (m->gpus[i].sends_device_copy)
			json_array_append_new(numbers, json_integer(m->gpus[i].number));
	return numbers;
}

bool gpu_drains(const struct thread_link *l)
{
	const struct rank_checkpoint *m = transaction_rank(l->agent, l->task);
	const struct gpu_process *g = m ? rank_checkpoint_gpu(m, thread_link_number(l)) : NULL;

	return g && g->state == GPU_DRAINS;
}

/* ---- answers ------------------------------------------------------------------------------- */

/* The process of a link whose message is of this checkpoint; NULL: it is not, or has no part. */
static struct gpu_process *process_of(const struct rank_checkpoint *m, const struct thread_link *l)
{
	return m && l->head.seq == m->t->seq ? rank_checkpoint_gpu(m, thread_link_number(l)) : NULL;
}

void gpu_drained(const struct thread_link *l, bool copies, const struct gck_error *why)
{
	struct rank_checkpoint *m = transaction_rank(l->agent, l->task);
	struct gpu_process *g = process_of(m, l);

	if (!g || g->state != GPU_DRAINS)
		return;
	g->state = why ? GPU_RUNS : GPU_DRAINED;
	g->device_copy = copies && !why;
	if (why)
		transaction_fail(m->t, m, why, false);
	else if (!m->t->failed && m->t->asked == PHASE_FREEZE)
		m->t->ops->drained(m->t);
}

void gpu_prepared(const struct thread_link *l, const struct gck_error *why)
{
	struct rank_checkpoint *m = transaction_rank(l->agent, l->task);
	struct gpu_process *g = process_of(m, l);

	if (!g || g->state != GPU_PREPARES)
		return;
	g->state = GPU_RUNS;
	if (why)
		transaction_fail(m->t, m, why, false);
	else
		m->t->ops->advance(m->t);
}

void gpu_resumed(const struct thread_link *l)
{
	struct rank_checkpoint *m = transaction_rank(l->agent, l->task);
	struct gpu_process *g = process_of(m, l);

	if (!g || g->state == GPU_RUNS)
		return;
	g->state = GPU_RUNS;
	m->t->gpu_last_ns = now_ns();
	m->t->ops->advance(m->t);
}

/* The worker finds out whether a descendant that was to drain has ended: one that runs is not
 * drained. */
void gpu_lost(const struct thread_link *l)
{
	struct rank_checkpoint *m = transaction_rank(l->agent, l->task);
	struct gpu_process *g = m ? rank_checkpoint_gpu(m, thread_link_number(l)) : NULL;
	bool drains = g && g->state == GPU_DRAINS;

	if (!g || g->state == GPU_RUNS)
		return;
	g->state = GPU_RUNS;
	if (m->t->failed)
		return;
	if (drains && l->pid == l->task->pid)
		m->t->ops->await_status(m);
	else if (drains)
		m->t->ops->drained(m->t);
	else
		m->t->ops->advance(m->t);
}

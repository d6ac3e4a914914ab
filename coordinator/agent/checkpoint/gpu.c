/* SPDX-License-Identifier: Apache-2.0
 * The GPUs of this node's ranks in a checkpoint. */
#include "config.h"

#include "coordinator/agent/checkpoint/gpu.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/transaction.h"

#define PREPARE_MIN (64u << 20) /* less host memory is allocated fast enough */

static int64_t now_ns(void)
{
	return (int64_t)(ev_time() * 1e9);
}

/* ---- orders -------------------------------------------------------------------------------- */

/* Whether copies may stay on the devices: not while ranks are held for the write, nor without a
 * channel to read them. */
static bool may_copy_on_devices(const struct rank_checkpoint *m, bool held)
{
	return !held && m->device.rank[0] >= 0;
}

static json_int_t host_needs(const struct rank_checkpoint *m, bool held)
{
	json_int_t has = m->carried ? 0 : packet_int(m->answer[PHASE_PREPARE], "device", 0);

	return has && may_copy_on_devices(m, held) ? has - m->fits_device : has;
}

json_int_t gpu_host_needs(const struct transaction *t, bool held)
{
	json_int_t sum = 0;

	for (size_t i = 0; i < t->n; i++)
		sum += host_needs(&t->ranks[i], held);
	return sum;
}

static struct gck_link_cuda_drain order(const struct rank_checkpoint *m, bool held, double seconds)
{
	struct gck_link_cuda_drain d = {
		.limit_ms = (uint32_t)(seconds * 1000),
		.host_copy_max = (uint64_t)host_needs(m, held),
	};

	if (may_copy_on_devices(m, held))
		memcpy(d.device_copy_max, m->device_copy_max, sizeof d.device_copy_max);
	return d;
}

/* Memory that, as far as is known, no rank needs, divided equally. */
static uint64_t spare_memory(const struct transaction *t, bool held)
{
	json_int_t spare = packet_int(t->checked, "memory", 0) - gpu_host_needs(t, held);

	return spare > 0 ? (uint64_t)spare / t->n : 0;
}

bool gpu_prepare(struct transaction *t, bool held, double seconds)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_PREPARE, .seq = t->seq };

	for (size_t i = 0; i < t->n; i++) {
		struct rank_checkpoint *one = &t->ranks[i];
		struct gck_link_cuda_drain d = order(one, held, seconds);

		if (one->carried || one->announced || !one->task->cuda)
			continue;
		if (d.host_copy_max < PREPARE_MIN)
			d.host_copy_max = 0;
		one->announced = true;
		one->gpu = GPU_PREPARES;
		thread_link_send(one->task->cuda, &m, &d, sizeof d);
	}
	return gpu_awaited(t) != NULL;
}

void gpu_drain(struct transaction *t, double seconds)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_DRAIN, .seq = t->seq };
	uint64_t spare = spare_memory(t, t->held_write);

	for (size_t i = 0; i < t->n; i++) {
		struct rank_checkpoint *one = &t->ranks[i];
		struct gck_link_cuda_drain d = order(one, t->held_write, seconds);

		d.watchdog_ms = t->held_ms + TRANSACTION_WATCHDOG_MORE_MS;
		d.host_copy_max += spare;
		if (one->carried || !one->task->cuda)
			continue;
		if (!t->gpu_first_ns)
			t->gpu_first_ns = now_ns();
		one->gpu = GPU_DRAINS;
		one->announced = false;
		thread_link_send(one->task->cuda, &m, &d, sizeof d);
	}
}

bool gpu_has_copies(const struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->ranks[i].device_copy)
			return true;
	return false;
}

const struct rank_checkpoint *gpu_awaited(const struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct rank_checkpoint *m = &t->ranks[i];

		if (!m->carried && m->gpu != GPU_RUNS && m->gpu != GPU_DRAINED)
			return m;
	}
	return NULL;
}

static void tell(const struct rank_checkpoint *m, uint32_t type)
{
	if (m->task->cuda)
		thread_link_send(m->task->cuda, &(struct gck_thread_msg){ .type = type,
				 .seq = m->t->seq }, NULL, 0);
}

void gpu_hold(struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->ranks[i].gpu == GPU_DRAINS || t->ranks[i].gpu == GPU_DRAINED)
			tell(&t->ranks[i], GCK_LINK_CUDA_HOLD);
}

/* Device copies are sent to the worker if the image is still wanted; else they are freed when the
 * rank resumes. */
static void resume_one(struct rank_checkpoint *m)
{
	struct gck_thread_msg order = { .type = GCK_LINK_CUDA_RESUME, .seq = m->t->seq };

	m->sends_device_copy = m->device_copy && m->device.rank[0] >= 0 && m->task->cuda &&
		!m->t->failed &&
		    !m->t->aborted;
	if (m->sends_device_copy)
		thread_link_give(m->task->cuda, &order, m->device.rank);
	else
		tell(m, GCK_LINK_CUDA_RESUME);
	m->gpu = m->task->cuda ? GPU_RESUMES : GPU_RUNS;
}

static void expect_no_more(struct rank_checkpoint *m)
{
	tell(m, GCK_LINK_CUDA_RESUME);
	m->announced = false;
	m->gpu = GPU_RUNS;
}

void gpu_resume(struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->ranks[i].gpu == GPU_DRAINS || t->ranks[i].gpu == GPU_DRAINED)
			resume_one(&t->ranks[i]);
		else if (t->ranks[i].announced)
			expect_no_more(&t->ranks[i]);
}

/* ---- answers ------------------------------------------------------------------------------- */

void gpu_drained(struct agent *a, const struct task *task, uint64_t seq, bool copies,
		  const struct gck_error *why)
{
	struct rank_checkpoint *m = transaction_rank(a, task);

	if (!m || m->gpu != GPU_DRAINS || seq != m->t->seq)
		return;
	m->gpu = why ? GPU_RUNS : GPU_DRAINED;
	m->device_copy = copies && !why;
	if (why)
		transaction_fail(m->t, m, why, false);
	else if (!m->t->failed && m->t->asked == PHASE_FREEZE)
		m->t->ops->drained(m->t);
}

void gpu_prepared(struct agent *a, const struct task *task, uint64_t seq,
		  const struct gck_error *why)
{
	struct rank_checkpoint *m = transaction_rank(a, task);

	if (!m || m->gpu != GPU_PREPARES || seq != m->t->seq)
		return;
	m->gpu = GPU_RUNS;
	if (why)
		transaction_fail(m->t, m, why, false);
	else
		m->t->ops->advance(m->t);
}

void gpu_resumed(struct agent *a, const struct task *task, uint64_t seq)
{
	struct rank_checkpoint *m = transaction_rank(a, task);

	if (!m || m->gpu == GPU_RUNS || seq != m->t->seq)
		return;
	m->gpu = GPU_RUNS;
	m->t->gpu_last_ns = now_ns();
	m->t->ops->advance(m->t);
}

void gpu_lost(struct agent *a, const struct task *task)
{
	struct rank_checkpoint *m = transaction_rank(a, task);
	bool drains = m && m->gpu == GPU_DRAINS;

	if (!m || m->gpu == GPU_RUNS)
		return;
	m->gpu = GPU_RUNS;
	if (m->t->failed)
		return;
	if (drains)
		m->t->ops->await_status(m);
	else
		m->t->ops->advance(m->t);
}

/* ---- memory for copies --------------------------------------------------------------------- */

/* A device: the bytes of its ranks' data there, and the free bytes in the last rank's report. */
struct device {
	const char *uuid;
	json_int_t bytes, free_bytes;
	size_t ranks;
};

struct devices {
	struct device *v;
	size_t n, capacity;
};

/* Read a rank's report on one device; false: it has no data there. */
static bool read_one(const json_t *said, struct device *d)
{
	*d = (struct device){ .uuid = packet_text(said, "uuid", ""),
			      .bytes = packet_int(said, "bytes", 0),
			      .free_bytes = packet_int(said, "room", 0), .ranks = 1 };
	return d->bytes > 0;
}

static struct device *find(const struct devices *all, const char *uuid)
{
	for (size_t i = 0; i < all->n; i++)
		if (!strcmp(all->v[i].uuid, uuid))
			return &all->v[i];
	return NULL;
}

static int add(struct devices *all, const struct device *one)
{
	size_t capacity = all->capacity ? 2 * all->capacity : 16;
	struct device *d = find(all, one->uuid), *v;

	if (d) {
		d->free_bytes = d->free_bytes < one->free_bytes ? d->free_bytes : one->free_bytes;
		d->bytes += one->bytes;
		d->ranks++;
		return 0;
	}
	if (all->n == all->capacity) {
		v = realloc(all->v, capacity * sizeof *v);
		if (!v)
			return -1;
		all->v = v;
		all->capacity = capacity;
	}
	all->v[all->n++] = *one;
	return 0;
}

static int count(const struct transaction *t, struct devices *all)
{
	struct device one;
	const json_t *said;
	size_t k;

	for (size_t i = 0; i < t->n; i++) {
		if (t->ranks[i].carried)
			continue;
		json_array_foreach(json_object_get(t->ranks[i].answer[PHASE_PREPARE], "devices"), k,
				   said)
			if (read_one(said, &one) && add(all, &one) < 0)
				return -1;
	}
	return 0;
}

static void share(struct rank_checkpoint *m, const struct devices *all)
{
	struct device one;
	const json_t *said;
	size_t i;

	json_array_foreach(json_object_get(m->answer[PHASE_PREPARE], "devices"), i, said) {
		const struct device *d;

		if (i >= GCK_LINK_CUDA_DEVICES || !read_one(said, &one))
			continue;
		d = find(all, one.uuid);
		if (d->bytes > d->free_bytes)
			one.bytes = (json_int_t)((double)one.bytes / (double)d->bytes *
						 (double)d->free_bytes);
		m->device_copy_max[i] = d->ranks > 1 ? (uint64_t)one.bytes : UINT64_MAX;
		m->fits_device += one.bytes;
	}
}

void gpu_share_memory(struct transaction *t)
{
	struct devices all = { .v = NULL };
	bool counted = count(t, &all) == 0;

	for (size_t i = 0; i < t->n; i++) {
		struct rank_checkpoint *m = &t->ranks[i];

		memset(m->device_copy_max, 0, sizeof m->device_copy_max);
		m->fits_device = 0;
		if (counted && !m->carried)
			share(m, &all);
	}
	free(all.v);
}

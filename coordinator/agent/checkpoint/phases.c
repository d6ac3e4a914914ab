/* SPDX-License-Identifier: Apache-2.0
 * The phases of a checkpoint on this node: orders to the workers, and the answer to the coordinator
 * once all workers have done them. */
#include "config.h"

#include "coordinator/agent/checkpoint/phases.h"

#include "common/base/fault.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/resources.h"
#include "coordinator/agent/checkpoint/checkpoint.h"
#include "coordinator/agent/checkpoint/gpu.h"
#include "coordinator/agent/checkpoint/gpu_memory.h"
#include "coordinator/agent/checkpoint/prepare.h"
#include "coordinator/agent/checkpoint/quiesce.h"
#include "coordinator/agent/ranks/thread_link.h"
#include "coordinator/agent/upstream/upstream.h"
#include "shim/process/process.h"
#include "storage/store/store.h"

#define DRAIN_PART 0.7 /* of the time for which ranks may be held */
#define PREPARE_PART 0.9 /* of what is left of the phase */
#define COPY_PART 0.2 /* of what is left: to copy memory that ranks rewrite all the time */

/* ---- commands ------------------------------------------------------------------------------ */

static void tell_all(struct transaction *t, const char *op)
{
	for (size_t i = 0; i < t->n; i++)
		if (!t->ranks[i].carried)
			rank_checkpoint_tell(&t->ranks[i], json_pack("{s:s}", "op", op));
}

/* What is left of the time for which ranks may be held, once MPI is quiesced. */
static double hold_left(const struct transaction *t)
{
	double used = t->quiesce.began ? ev_now(t->agent->loop) - t->quiesce.began : 0;

	return used < 0.99 * t->hold_s ? t->hold_s - used : 0.01 * t->hold_s;
}

static int check_memory(const struct transaction *t, bool held, struct gck_error *err);

/* The bound on the hold starts before the first rank is stopped. A rank that cannot be stopped
 * fails a little earlier, so that it is named, and a GPU that cannot be drained earlier still.
 * With keep_held it bounds the coordinator's silence. */
static void freeze(struct transaction *t)
{
	struct gck_error err = { 0 };

	if (check_memory(t, t->held_write, &err) < 0) {
		transaction_fail(t, NULL, &err, false);
		return;
	}
	transaction_limit(t, 0.9 * hold_left(t));
	transaction_bound_hold(t, t->keep_held ? t->timeout_s : hold_left(t));
	ev_timer_again(t->agent->loop, &t->tick);
	gpu_drain(t, DRAIN_PART * hold_left(t));
	if (!t->failed)
		phase_freeze(t);
}

/* Ranks that are held until their images are written have no clone to be copied for. */
void phase_freeze(struct transaction *t)
{
	double left = t->held_write ? 0 : ev_timer_remaining(t->agent->loop, &t->limit);

	if (gpu_awaited(t))
		return;
	for (size_t i = 0; i < t->n; i++) {
		t->ranks[i].told_freeze = true;
		json_decref(t->ranks[i].memory);
		t->ranks[i].memory = NULL; /* it is reported anew */
		if (!t->ranks[i].carried)
			rank_checkpoint_tell(&t->ranks[i], json_pack("{s:s, s:I}", "op", "freeze",
					     "copy_ms", (json_int_t)(1000 * COPY_PART * left)));
	}
	GCK_FAULT(GCK_FAULT_AGENT_FREEZE);
}

/* The ranks may go: from here on the phase has its own limit. */
static void resume(struct transaction *t)
{
	ev_timer_stop(t->agent->loop, &t->hold);
	transaction_limit(t, t->hold_s);
	tell_all(t, "resume");
	quiesce_resume(t);
	gpu_resume(t);
	GCK_FAULT(GCK_FAULT_AGENT_RESUME);
}

/* The least (sign 1) or greatest (sign -1) value of key in all answers; 0 if there is none. */
static json_int_t extreme(const struct transaction *t, enum phase p, const char *key, int sign)
{
	json_int_t best = 0;

	for (size_t i = 0; i < t->n; i++) {
		json_int_t v = packet_int(t->ranks[i].answer[p], key, 0);

		if (v && (!best || sign * v < sign * best))
			best = v;
	}
	return best;
}

/* With a stage, writing to it and uploading from it are limited separately. */
void phase_write_more(struct transaction *t)
{
	json_int_t chunks = extreme(t, PHASE_PREPARE, "chunks", -1);
	unsigned most = node_share_of_writers(t->agent->step, (uint64_t)chunks).at_once;
	unsigned writing = 0, uploading = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct rank_checkpoint *m = &t->ranks[i];

		writing += m->told_write && !m->staged && !m->answer[PHASE_WRITE];
		uploading += m->staged && m->told_upload && !m->answer[PHASE_WRITE];
	}
	for (size_t i = 0; i < t->n; i++) {
		struct rank_checkpoint *m = &t->ranks[i];

		if (!m->carried && !m->told_write && writing < most) {
			m->told_write = true;
			writing++;
			rank_checkpoint_tell(m, json_pack("{s:s, s:b, s:o, s:I}", "op", "write",
						 "held", rank_checkpoint_held(m), "device",
						 gpu_senders(m), "chunks", chunks));
		} else if (m->staged && !m->told_upload && uploading < most) {
			m->told_upload = true;
			uploading++;
			rank_checkpoint_tell(m, json_pack("{s:s}", "op", "upload"));
		}
	}
}

/* Ranks that are still held when the write begins wait for its end. */
static void write_images(struct transaction *t)
{
	struct gck_error err = { 0 };

	t->write_began = ev_now(t->agent->loop);
	if (!t->answers[PHASE_RESUME] && gpu_has_copies(t)) {
		gck_fail(&err, EPROTO, "the write finds ranks held that keep data on their GPUs, "
			 "which the freeze did not announce: is gpuckptd of another release?");
		transaction_fail(t, NULL, &err, false);
		return;
	}
	for (size_t i = 0; i < t->n; i++)
		t->ranks[i].all = (uint64_t)packet_int(t->ranks[i].answer[PHASE_PREPARE],
							 "expected", 0);
	if (!t->answers[PHASE_RESUME]) {
		t->keep_held = true;
		transaction_bound_hold(t, t->timeout_s);
	}
	transaction_limit(t, t->timeout_s);
	ev_timer_again(t->agent->loop, &t->tick);
	phase_write_more(t);
	GCK_FAULT(GCK_FAULT_AGENT_WRITE);
}

static const struct {
	enum phase before;
	void (*act)(struct transaction *t);
} commands[PHASES] = {
	[PHASE_PREPARE] = { PHASES, prepare_start },
	[PHASE_QUIESCE] = { PHASE_PREPARE, quiesce_start },
	[PHASE_FREEZE] = { PHASE_PREPARE, freeze },
	[PHASE_RESUME] = { PHASE_FREEZE, resume },
	[PHASE_WRITE] = { PHASE_FREEZE, write_images },
};

enum phase phase_before(enum phase p)
{
	return commands[p].before;
}

void phase_start(struct transaction *t, enum phase p)
{
	t->asked = p;
	commands[p].act(t);
	phase_advance(t);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void answer(struct transaction *t, enum phase p, json_t *data)
{
	ev_timer_stop(t->agent->loop, &t->limit);
	t->asked = PHASES;
	json_decref(t->answers[p]);
	t->answers[p] = answer_done(t->agent, t->seq, phase_names[p], data);
}

static bool all_answered(const struct transaction *t, enum phase p)
{
	for (size_t i = 0; i < t->n; i++)
		if (!rank_checkpoint_answered(&t->ranks[i], p) || t->ranks[i].gone)
			return false;
	return true;
}

/* What was waited for: a text, or null. */
static json_t *waited_for(const struct transaction *t)
{
	return t->in_init ? json_sprintf("rank %u on %s: it was in MPI_Init",
					 t->in_init->task->rank, t->agent->step->node)
			  : json_null();
}

static json_t *carried(const struct transaction *t)
{
	json_t *all = json_array();

	for (size_t i = 0; i < t->n; i++)
		if (t->ranks[i].carried)
			json_array_append_new(all, json_pack("{s:I, s:i}", "rank",
				(json_int_t)t->ranks[i].task->rank, "status",
				t->ranks[i].task->status));
	return all;
}

static json_int_t sum(const struct transaction *t, enum phase p, const char *key)
{
	json_int_t total = 0;

	for (size_t i = 0; i < t->n; i++)
		total += packet_int(t->ranks[i].answer[p], key, 0);
	return total;
}

/* Only the write can show the space needed if there is an earlier checkpoint, since only changes
 * are stored, or if chunks are compressed. */
static int check_space(const struct transaction *t, json_int_t expected, struct gck_error *err)
{
	json_int_t space = packet_int(t->checked, "space", 0);
	const struct gck_options *o = &t->agent->step->options;

	if (!packet_bool(t->checked, "first") || space >= expected ||
	    o->compress != GCK_COMPRESS_NONE)
		return 0;
	return gck_fail(err, ENOSPC,
			"store %s: %lld MiB are free, the image needs up to %lld: make room "
			"or set another store=", o->store, (long long)space >> 20,
			(long long)expected >> 20);
}

/* GPU data for which a device has no free memory is copied to host memory. Slurm would kill a
 * job that exceeds its memory. */
static int check_memory(const struct transaction *t, bool held, struct gck_error *err)
{
	json_int_t memory = packet_int(t->checked, "memory", 0), needs = gpu_host_needs(t, held);

	if (memory >= needs)
		return 0;
	return gck_fail(err, ENOMEM,
			"%lld MiB of host memory are free, and a copy of what its GPUs have "
			"%sneeds up to %lld: ask for more memory (--mem)", (long long)memory >> 20,
			held ? "" : "and cannot keep ", (long long)needs >> 20);
}

/* What ranks are known to need of hold=auto: twice the measured time, for slower machines. */
static json_int_t hold_needs(const struct transaction *t)
{
	uint64_t managed = (uint64_t)extreme(t, PHASE_PREPARE, "managed", -1);

	return (json_int_t)(2 * gck_managed_hold_ms(managed) + common_memory_hold_ms(t));
}

/* Every page that a rank writes while its clone exists is copied and charged to the step. Unless
 * there is memory for all pages, the ranks are held for the write. */
static void prepared(struct transaction *t)
{
	json_int_t expected = sum(t, PHASE_PREPARE, "expected");
	json_int_t memory = packet_int(t->checked, "memory", 0);
	struct gck_error err = { 0 };
	json_int_t host;
	bool pmix;
	unsigned mpi = thread_links_mpi(t->agent, &pmix);

	if (common_memory_reserve(t))
		return;
	expected -= (json_int_t)t->counted_again;
	if (gpu_share_memory(t, &err) < 0) {
		transaction_fail(t, NULL, &err, false);
		return;
	}
	host = expected - sum(t, PHASE_PREPARE, "device") + gpu_host_needs(t, false);
	if (check_space(t, expected, &err) < 0 ||
	    check_memory(t, t->keep_held || memory < host, &err) < 0) {
		transaction_fail(t, NULL, &err, false);
		return;
	}
	if (gpu_prepare(t, t->keep_held || memory < host,
			PREPARE_PART * ev_timer_remaining(t->agent->loop, &t->limit)))
		return;
	GCK_FAULT(GCK_FAULT_AGENT_PREPARED);
	answer(t, PHASE_PREPARE,
	       json_pack("{s:I, s:I, s:o, s:b, s:I, s:I, s:I, s:b, s:o}", "hold_ms", hold_needs(t),
			 "expected", expected, "exited", carried(t), "needs_hold", memory < host,
			 "memory", memory, "space", packet_int(t->checked, "space", 0), "mpi",
			 (json_int_t)mpi, "pmix", pmix, "waited_for", waited_for(t)));
}

static void quiesced(struct transaction *t)
{
	answer(t, PHASE_QUIESCE, json_pack("{s:o}", "exited", carried(t)));
}

static void frozen(struct transaction *t)
{
	if (common_memory_copy(t))
		return;
	GCK_FAULT(GCK_FAULT_AGENT_FROZEN);
	answer(t, PHASE_FREEZE, json_pack("{s:I, s:I, s:I, s:o}", "first_ns",
	       extreme(t, PHASE_FREEZE, "first_ns", 1), "gpu_first_ns", (json_int_t)t->gpu_first_ns,
	       "asked",
	       extreme(t, PHASE_FREEZE, "asked_all", -1), "exited", carried(t)));
}

static void resumed(struct transaction *t)
{
	ev_timer_stop(t->agent->loop, &t->hold);
	GCK_FAULT(GCK_FAULT_AGENT_RESUMED);
	answer(t, PHASE_RESUME, json_pack("{s:I, s:I, s:I}", "first_ns",
	       extreme(t, PHASE_RESUME, "first_ns", 1), "last_ns",
	       extreme(t, PHASE_RESUME, "last_ns", -1), "gpu_last_ns", (json_int_t)t->gpu_last_ns));
}

static void written(struct transaction *t)
{
	json_t *ranks = json_array(), *common = json_object();
	uint64_t stored = 0;

	for (size_t i = 0; i < t->n; i++) {
		const json_t *image = t->ranks[i].answer[PHASE_WRITE];

		if (t->ranks[i].carried)
			continue;
		json_array_append_new(ranks, json_pack("{s:I, s:O}", "rank",
				      (json_int_t)t->ranks[i].task->rank, "manifest",
				      json_object_get(image, "manifest")));
		stored += gck_shared_objects_count(common, GCK_SHARED_OBJECTS_STEP,
						   json_object_get(image, "common"),
					   (uint64_t)packet_int(image, "stored", 0));
	}
	GCK_FAULT(GCK_FAULT_AGENT_WRITTEN);
	answer(t, PHASE_WRITE,
	       json_pack("{s:o, s:I, s:I, s:o, s:f, s:I, s:o, s:I}", "ranks", ranks, "put",
	       sum(t, PHASE_WRITE, "put"), "stored", (json_int_t)stored, "common", common,
	       "seconds",
	       ev_now(t->agent->loop) - t->write_began, "staged", (json_int_t)t->staged,
	       "unstaged", packet_string(t->unstaged), "free_ns",
	       extreme(t, PHASE_WRITE, "free_ns", -1)));
}

void phase_advance(struct transaction *t)
{
	static void (*const complete[PHASES])(struct transaction *) = {
		[PHASE_PREPARE] = prepared, [PHASE_QUIESCE] = quiesced, [PHASE_FREEZE] = frozen,
		[PHASE_RESUME] = resumed, [PHASE_WRITE] = written,
	};

	if (t->failed || t->asked >= PHASE_COMMIT)
		return;
	if ((t->asked == PHASE_PREPARE && prepare_refused(t)) || !all_answered(t, t->asked))
		return;
	if (t->asked == PHASE_PREPARE && (!t->checked || prepare_waits(t)))
		return;
	if (t->asked == PHASE_RESUME && gpu_awaited(t))
		return;
	complete[t->asked](t);
}

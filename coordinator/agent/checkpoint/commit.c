/* SPDX-License-Identifier: Apache-2.0
 * Writes the commit object, for the agent that the coordinator chose, and removes old commits. */
#include "coordinator/agent/checkpoint/checkpoint.h"

#include "common/base/fault.h"
#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/upstream/upstream.h"
#include "coordinator/agent/worker/job.h"
#include "coordinator/agent/worker/store_job.h"

#define PRUNE_LIMIT_S 600.

/* One agent, one step: one commit at a time. */
static struct {
	uint32_t seq;         /* the last one ordered */
	bool under_way, done;
} last;

static void on_written(void *data, const json_t *result, const struct gck_error *why)
{
	struct agent *a = data;

	GCK_FAULT(GCK_FAULT_AGENT_COMMITTED);
	last.under_way = false;
	last.done = result != NULL;
	if (result)
		json_decref(answer_done(a, last.seq, "commit", json_incref((json_t *)result)));
	else
		answer_failed(a, last.seq, "commit", why, NULL);
}

void commit_write(struct agent *a, uint32_t seq, const json_t *body)
{
	const struct store_request r = { .step = a->step, .seq = seq,
					 .document = json_object_get(body, "document") };
	struct gck_error err = { 0 };

	if (last.under_way && last.seq == seq)
		return; /* in progress */
	last.seq = seq;
	last.done = false;
	last.under_way = job_start(a->loop, "the commit", store_commit, &r,
				   a->step->options.timeout_ms / 1000., on_written, a, &err);
	if (!last.under_way)
		answer_failed(a, seq, "commit", &err, NULL);
	GCK_FAULT(GCK_FAULT_AGENT_COMMIT);
}

static void on_pruned(void *data, const json_t *result, const struct gck_error *why)
{
	(void)data;
	if (!result)
		gck_warn("old commits are still in the store: %s", why->text);
}

static void on_staged_kept(void *data, const json_t *result, const struct gck_error *why)
{
	(void)data;
	if (!result)
		gck_warn("old data is still in the stage: %s", why->text);
}

static void on_swept(void *data, const json_t *result, const struct gck_error *why)
{
	const char *left = result ? packet_text(result, "left", NULL) : why->text;

	if (result)
		upstream_send(data, json_pack("{s:s, s:O}", "op", "swept", "steps",
			      json_object_get(result, "steps")));
	if (left)
		gck_warn("expired checkpoints are still in the store: %s", left);
}

void commit_sweep(struct agent *a, const json_t *body)
{
	const struct store_request r = { .step = a->step,
					 .document = json_object_get(body, "steps") };
	struct gck_error err = { 0 };

	if (json_array_size(r.document) && !job_start(a->loop, "removing expired checkpoints",
						  store_sweep, &r, PRUNE_LIMIT_S, on_swept, a,
						  &err))
		gck_warn("%s", err.text);
}

void commit_made(struct agent *a, uint32_t seq, const json_t *body)
{
	const struct store_request r = { .step = a->step, .seq = seq,
					 .document = json_object_get(body, "keep") };
	struct gck_error err = { 0 };

	gck_info("checkpoint %u is committed", seq);
	answer_plain(a, seq, "committed");
	if (*a->step->options.stage &&
	    !job_start(a->loop, "tidying the stage", store_keep_staged, &r, PRUNE_LIMIT_S,
		       on_staged_kept, a, &err))
		gck_warn("%s", err.text);
	if (!last.done || last.seq != seq || !json_array_size(r.document))
		return;
	if (!job_start(a->loop, "removing old commits", store_prune, &r, PRUNE_LIMIT_S, on_pruned,
		       a, &err))
		gck_warn("%s", err.text);
}

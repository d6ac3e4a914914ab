/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/core/agents/epoch.h"

#include "common/base/log.h"
#include "coordinator/core/retention/import.h"

/* Epochs are times. No agent can use up the numbers. */
#define AHEAD_S (366 * 86400)

/* Starts of jobs may have had ranks that the journal does not know, and steps, commits. */
static void begin_doubt(struct gck_state *s, int64_t since)
{
	s->doubt = since;
	for (struct gck_job *job = s->jobs; job; job = job->next)
		for (struct gck_step *step = job->steps; step; step = step->next)
			step->listed = false;
}

void gck_epoch_begin(struct gck_core *core, bool current)
{
	struct gck_state *s = &core->state;
	int64_t now_ms = core->world->now_ms();

	gck_import_lost_all(s, now_ms);
	if (!current)
		begin_doubt(s, core->since);
	s->epoch = now_ms / 1000 > (int64_t)s->epoch ? (uint32_t)(now_ms / 1000) : s->epoch + 1;
}

void gck_epoch_told(struct gck_core *core, const json_t *registration, int64_t up_ms,
		    const char *host)
{
	json_int_t now = core->world->now_ms() / 1000;
	json_int_t epoch = json_integer_value(json_object_get(registration, "epoch"));
	json_int_t ago_ms = json_integer_value(json_object_get(registration, "epoch_ms"));

	if (epoch <= core->state.epoch)
		return;
	if (ago_ms > up_ms && epoch < now + AHEAD_S) {
		gck_core_note(core, json_pack("{s:s, s:I, s:I}", "t", "epoch", "epoch", epoch + 1,
					      "time", now), true);
		gck_warn("the agent at %s has obeyed a coordinator of epoch %lld before this one "
			 "started: this one has epoch %u now", host, (long long)epoch,
			 core->state.epoch);
		return;
	}
	gck_error_log("the agent at %s has heard a younger coordinator than this one; is there "
		      "another gpuckptd with another StateDir?", host);
}

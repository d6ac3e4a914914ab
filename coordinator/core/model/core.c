/* SPDX-License-Identifier: Apache-2.0
 * Records go to the journal first, then to the state. Events wait in a queue, since an action may
 * raise one. */
#include "coordinator/core/model/core.h"

#include "common/base/log.h"
#include "coordinator/core/model/record.h"

/* After a failed write the journal may lack a record or end in a torn one: rewrite it first. */
static int catch_up(struct gck_core *core, struct gck_error *err)
{
	if (!core->behind)
		return 0;
	if (core->world->rewrite(core, err))
		return -1;
	core->behind = false;
	return 0;
}

int gck_core_record(struct gck_core *core, json_t *record, bool sync, struct gck_error *err)
{
	int rc;

	if (!record)
		return gck_fail(err, ENOMEM, "no memory for a record of the journal");
	rc = catch_up(core, err);
	if (rc == 0) {
		rc = core->world->journal(core, record, sync, err);
		if (rc == 0)
			rc = gck_record_apply(&core->state, record, err);
		/* The journal may hold a part of the record, or one that cannot be applied. */
		core->behind = rc != 0;
	}
	json_decref(record);
	return rc;
}

void gck_core_note(struct gck_core *core, json_t *record, bool sync)
{
	struct gck_error err = {0};

	json_incref(record);
	if (gck_core_record(core, record, sync, &err)) {
		gck_error_log("%s", err.text);
		(void)!gck_record_apply(&core->state, record, NULL); /* logged above */
		core->behind = true;
	}
	json_decref(record);
}

bool gck_slurm_refused(const struct gck_slurm_answer *answer)
{
	return answer->code == ENOENT || answer->code == EALREADY || answer->code == EPERM;
}

void gck_core_requeue(struct gck_core *core, const struct gck_job *job, bool hold,
		      const char *comment, gck_slurm_fn *done, void *arg)
{
	core->world->slurm(core, json_pack("{s:s, s:I, s:b, s:s}", "op", "requeue", "job",
					   (json_int_t)job->id, "hold", hold, "comment", comment),
			   done, arg);
}

bool gck_core_doubts(const struct gck_core *core, const struct gck_job *job)
{
	int64_t now = core->world->now_ms() / 1000, doubt = core->state.doubt;

	/* A time to come: the clock was set back since. */
	return doubt && (job->submit <= doubt || job->submit > now);
}

json_t *gck_record(const struct gck_step *step, const char *type)
{
	return json_pack("{s:s, s:I, s:I}", "t", type, "job", (json_int_t)step->job->id, "step",
			 (json_int_t)step->id);
}

json_t *gck_record_seq(const struct gck_step *step, const char *type, uint32_t seq)
{
	json_t *r = gck_record(step, type);

	json_object_set_new(r, "seq", json_integer(seq));
	return r;
}

/* ---- events -------------------------------------------------------------------------------- */

static void empty_queue(struct gck_core *core)
{
	core->emptying = true;
	while (core->count > 0) {
		struct gck_step *step = core->queue[core->head].step;
		enum gck_event event = core->queue[core->head].event;

		core->head = (core->head + 1) % GCK_EVENT_QUEUE;
		core->count--;
		if (step->live)
			core->transition(core, step, event);
	}
	core->emptying = false;
}

void gck_raise(struct gck_core *core, struct gck_step *step, enum gck_event event)
{
	unsigned last;

	if (core->count == GCK_EVENT_QUEUE) {
		gck_error_log("too many events at once; \"%s\" of step %u.%u is dropped",
			      gck_event_name(event), step->job->id, step->id);
		return;
	}
	last = (core->head + core->count++) % GCK_EVENT_QUEUE;
	core->queue[last].step = step;
	core->queue[last].event = event;
	if (!core->emptying)
		empty_queue(core);
}

bool gck_defer(struct gck_core *core)
{
	bool was = core->emptying;

	core->emptying = true;
	return was;
}

void gck_undefer(struct gck_core *core, bool was)
{
	if (!was)
		empty_queue(core);
}

/* ---- names ---------------------------------------------------------------------------------- */

const char *gck_phase_name(enum gck_phase phase)
{
	static const char *const names[GCK_PHASES] = {
		"gathering",     "building",         "cutting files back",
		"starting",      "doomed",           "running",
		"over",          "calling agents",   "preparing",
		"prepared",      "quiescing MPI",    "quiesced",
		"freezing",      "frozen",           "resuming",
		"resumed",       "writing",          "committing",
		"aborting",      "held, writing",    "held, committing",
		"held",          "releasing",        "ending",
		"recovering",
	};

	return names[phase];
}

const char *gck_event_name(enum gck_event event)
{
	static const char *const names[GCK_EVENTS] = {
		"start", "all",	      "met",      "met, held", "failed",    "timeout", "lost",
		"back",	 "cancel",    "release",  "terminate", "taken",	  "restore",
		"runs",	 "none left", "refused",  "found",     "missing", "ended",
	};

	return names[event];
}

bool gck_phase_holds(enum gck_phase phase)
{
	return phase == GCK_FREEZING || phase == GCK_FROZEN || phase == GCK_RESUMING ||
	       (phase >= GCK_HELD_WRITING && phase <= GCK_ENDING);
}

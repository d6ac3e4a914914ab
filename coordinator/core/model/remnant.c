/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/core/model/remnant.h"

#include <string.h>

#include "coordinator/core/model/live.h"

#define SLACK_MS 3000     /* an agent's timers, and clocks that read whole seconds */
#define DAY_S 86400
#define UNFENCED_MS 15000 /* nodes are not isolated: for agents that come back to be told */

/* How long a node's ranks run when it hears nothing. */
static int64_t fence_ms(const struct gck_core *core)
{
	if (core->slurmd_timeout_s <= 0 || !strcmp(core->conf->cut_off, "run"))
		return UNFENCED_MS;
	return core->slurmd_timeout_s * 2000 / 3 + SLACK_MS;
}

/* ---- what is left behind -------------------------------------------------------------------- */

static bool may_run(const struct gck_step *step, uint32_t node)
{
	const struct gck_node *n = step->live ? &step->live->nodes[node] : NULL;

	if (step->over && step->over[node])
		return false;
	return !n || !n->known || n->welcomed || gck_node_runs(n);
}

/* When its agent was last here. */
static int64_t heard_ms(const struct gck_core *core, const struct gck_step *step, uint32_t node)
{
	const struct gck_node *n = step->live ? &step->live->nodes[node] : NULL;

	if (n && n->agent)
		return core->world->now_ms();
	return n && n->left_ms ? n->left_ms : core->since * 1000;
}

static void add_step(const struct gck_core *core, const struct gck_step *step, json_t *nodes,
		     int64_t *heard)
{
	for (uint32_t i = 0; i < step->nodes; i++) {
		int64_t at = heard_ms(core, step, i);

		if (!may_run(step, i))
			continue;
		json_array_append_new(nodes, json_pack("{s:I, s:I, s:s}", "step",
			(json_int_t)step->id, "node", (json_int_t)i, "name",
			step->live ? step->live->nodes[i].name : ""));
		*heard = at > *heard ? at : *heard;
	}
}

/* The former start of the job began before the journal was in doubt: it may have had ranks that the
 * journal does not know. Agents that reach Slurm reach the coordinator within a day. */
static bool has_unknown(const struct gck_core *core, const struct gck_job *former, int64_t queued)
{
	int64_t doubt = core->state.doubt;

	return doubt && (!former || gck_core_doubts(core, former)) && queued < doubt + DAY_S;
}

static void add_unknown(const struct gck_core *core, json_t *nodes, int64_t *heard)
{
	json_array_append_new(nodes, json_pack("{s:i, s:i, s:s}", "step", -1, "node", -1, "name",
					       ""));
	*heard = core->state.doubt * 1000 > *heard ? core->state.doubt * 1000 : *heard;
}

static void add_known(const struct gck_core *core, const struct gck_job *former, json_t *nodes,
		      int64_t *heard)
{
	for (const struct gck_step *step = former->steps; step; step = step->next)
		if (step->restarts == former->restarts && json_is_object(step->fingerprint) &&
		    gck_step_ended(step) < step->ntasks)
			add_step(core, step, nodes, heard);
}

/* Those of the start before stay, unless their time is over. */
void gck_remnants_note(const struct gck_core *core, const struct gck_job *former, json_t *record)
{
	int64_t now = core->world->now_ms(), until;
	int64_t heard = json_integer_value(json_object_get(record, "submit")) * 1000;
	bool older = former && former->remnants && former->remnants_until_ms > now;
	json_t *nodes = older ? json_copy(former->remnants) : json_array();

	if (heard > now)
		heard = now; /* the clock was set back since */
	if (former)
		add_known(core, former, nodes, &heard);
	if (json_integer_value(json_object_get(record, "restarts")) > 0 &&
	    has_unknown(core, former, heard / 1000))
		add_unknown(core, nodes, &heard);
	until = heard + fence_ms(core);
	if (older && until < former->remnants_until_ms)
		until = former->remnants_until_ms;
	if (json_array_size(nodes) || (former && former->remnants)) {
		json_object_set_new(record, "until_ms", json_integer(until));
		json_object_set(record, "nodes", nodes);
	}
	json_decref(nodes);
}

static json_t *record(const struct gck_job *job, json_t *nodes)
{
	return json_pack("{s:s, s:I, s:I, s:o}", "t", "remnants", "job", (json_int_t)job->id,
			 "until_ms", (json_int_t)job->remnants_until_ms, "nodes", nodes);
}

/* ---- confirmed ------------------------------------------------------------------------------ */

bool gck_remnants_confirm(struct gck_core *core, const struct gck_job *job, json_int_t step,
			  json_int_t node)
{
	json_t *left = json_array(), *one;
	bool found;
	size_t i;

	json_array_foreach(job->remnants, i, one)
		if (json_integer_value(json_object_get(one, "step")) != step ||
		    json_integer_value(json_object_get(one, "node")) != node)
			json_array_append(left, one);
	found = json_array_size(left) < json_array_size(job->remnants);
	if (found)
		gck_core_note(core, record(job, left), false);
	else
		json_decref(left);
	return found;
}

/* ---- what is awaited ------------------------------------------------------------------------ */

int64_t gck_remnants_left_ms(const struct gck_core *core, const struct gck_job *job)
{
	int64_t left = job->remnants_until_ms - core->world->now_ms();

	return json_array_size(job->remnants) && left > 0 ? left : 0;
}

json_t *gck_remnants_text(const struct gck_job *job, int64_t left_ms)
{
	const json_t *first = json_array_get(job->remnants, 0);
	const char *name = json_string_value(json_object_get(first, "name"));

	if (json_integer_value(json_object_get(first, "step")) < 0)
		return json_sprintf("it waits until ranks of a former start of the job have ended "
				    "that gpuckptd may not know, since its journal is new or was "
				    "put back: %lld s at most", (long long)(left_ms + 999) / 1000);
	return json_sprintf("it waits until the ranks of the job's former start have ended on "
			    "node %s%s, where Slurm has not ended them: %lld s at most",
			    name && *name ? name : "(unknown)",
			    json_array_size(job->remnants) > 1 ? " and others" : "",
			    (long long)(left_ms + 999) / 1000);
}

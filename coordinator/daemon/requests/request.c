/* SPDX-License-Identifier: Apache-2.0
 * Requests of the CLI: one table, and a function for each. */
#include "config.h"

#include "coordinator/daemon/requests/requests.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/retention/needed.h"
#include "coordinator/core/retention/removal.h"
#include "coordinator/daemon/objects/objects.h"

struct request {
	struct gck_peer *peer;
	const json_t *body;
	const char *op;
	struct gck_job *job;    /* NULL: none was named */
	uint32_t step;          /* or GCK_EVERY_STEP */
};

static void refuse(const struct request *r, const struct gck_error *err)
{
	gck_info("%s by user %u is refused: %s", r->op, (unsigned)r->peer->uid, err->text);
	gck_peer_end(r->peer, err->text, NULL);
}

/* ---- create, vacate, requeue --------------------------------------------------------------- */

static void on_event(void *arg, const char *text, const json_t *data)
{
	json_t *body = json_pack("{s:s, s:s, s:O}", "op", "event", "text", text, "data", data);

	gck_peer_send(arg, body);
	json_decref(body);
}

static void on_end(void *arg, const char *error, const json_t *steps)
{
	gck_peer_end(arg, error, json_pack("{s:O}", "steps", steps));
}

/* The names of all who may act on a job (gck_may_see) are known. None is looked up, since that may
 * take its time. */
static const char *name_of_peer(const struct request *r)
{
	const struct gck_daemon *d = r->peer->daemon;
	uid_t uid = r->peer->uid;

	if (uid == r->job->uid)
		return r->job->user;
	if (uid == 0)
		return "root";
	return uid == geteuid() ? d->conf.user : d->slurm_user_name;
}

static void begin(const struct request *r, enum gck_verb verb)
{
	struct gck_error err = {0};
	struct gck_waiter waiter = {.arg = r->peer, .event = on_event, .end = on_end};
	char reason[96];

	waiter.wait = waiter.patient = json_is_true(json_object_get(r->body, "wait"));
	snprintf(reason, sizeof reason, "%s by %s", r->op, name_of_peer(r));
	if (gck_operation_begin(&r->peer->daemon->core, verb, r->job->id, r->step, reason, &waiter,
				&err))
		refuse(r, &err);
}

static void do_create(const struct request *r)
{
	begin(r, GCK_CREATE);
}

static void do_vacate(const struct request *r)
{
	begin(r, GCK_VACATE);
}

static void do_requeue(const struct request *r)
{
	begin(r, GCK_REQUEUE);
}

/* ---- disable, enable, remove --------------------------------------------------------------- */

static bool is_meant(const struct request *r, const struct gck_step *step)
{
	return (r->step == GCK_EVERY_STEP || r->step == step->id) &&
	       gck_may_see(r->peer->daemon, r->peer->uid, step->uid);
}

static void set_disabled(const struct request *r, bool value)
{
	struct gck_error err = {0};
	bool found = false;

	for (struct gck_step *step = r->job->steps; step; step = step->next) {
		json_t *record = is_meant(r, step) ? gck_record(step, "disable") : NULL;

		if (!record)
			continue;
		found = true;
		json_object_set_new(record, "value", json_boolean(value));
		if (gck_core_record(&r->peer->daemon->core, record, true, &err)) {
			refuse(r, &err);
			return;
		}
		gck_info("step %u.%u: checkpoints are %s by user %u", step->job->id, step->id,
			 value ? "disabled" : "enabled", (unsigned)r->peer->uid);
	}
	if (found) {
		gck_peer_end(r->peer, NULL, NULL);
		return;
	}
	gck_fail(&err, ENOENT, "job %u has no such step under gpuckpt's care", r->job->id);
	refuse(r, &err);
}

static void do_disable(const struct request *r)
{
	set_disabled(r, true);
}

static void do_enable(const struct request *r)
{
	set_disabled(r, false);
}

static const struct gck_step *one_step(const struct request *r, struct gck_error *err)
{
	const struct gck_step *found = NULL;

	for (const struct gck_step *step = r->job->steps; step; step = step->next) {
		if (!is_meant(r, step) || (r->step == GCK_EVERY_STEP && !step->commits))
			continue;
		if (found) {
			gck_fail(err, EINVAL,
				 "job %u has several steps with commits; name one as %u.%u",
				 r->job->id, r->job->id, step->id);
			return NULL;
		}
		found = step;
	}
	if (!found)
		gck_fail(err, ENOENT, "job %u has no such step, or no commits", r->job->id);
	return found;
}

static int choose_removed(const struct request *r, const struct gck_step *step, json_t *seqs,
			  struct gck_error *err)
{
	const struct gck_core *core = &r->peer->daemon->core;
	uint32_t only = (uint32_t)json_integer_value(json_object_get(r->body, "seq"));
	const struct gck_step *needs = only ? gck_commit_needed(core, step, only) : NULL;

	if (step->intent.import)
		return gck_fail(err, EBUSY,
				"checkpoint %u of step %u.%u is being imported; commits can be "
				"removed when that has ended",
				step->intent.seq, step->job->id, step->id);
	if (only && !gck_step_commit(step, only))
		return gck_fail(err, ENOENT, "step %u.%u has no commit %u", step->job->id, step->id,
				only);
	if (needs && needs != step)
		return gck_fail(err, EBUSY,
				"step %u.%u runs from commit %u of step %u.%u, or is to; it can be "
				"removed when that has a commit of its own, or its job has ended",
				needs->job->id, needs->id, only, step->job->id, step->id);
	if (needs)
		return gck_fail(err, EBUSY,
				"commit %u is what step %u.%u would be restarted from; it can "
				"be removed when Slurm no longer knows the job",
				only, step->job->id, step->id);
	for (const struct gck_commit *c = step->commits; c; c = c->older)
		if ((!only || c->seq == only) && !gck_commit_needed(core, step, c->seq))
			json_array_append_new(seqs, json_integer(c->seq));
	return 0;
}

/* The CLI is told what to remove, as an agent is. If it fails to, one of the user's agents removes
 * it, or gpuckptd itself from an object store. */
static void do_remove(const struct request *r)
{
	struct gck_error err = {0};
	const struct gck_step *step = one_step(r, &err);
	json_t *seqs = json_array(), *order;

	if (!step || choose_removed(r, step, seqs, &err)) {
		refuse(r, &err);
		json_decref(seqs);
		return;
	}
	if (gck_core_record(&r->peer->daemon->core, gck_removal(step, seqs), true, &err)) {
		refuse(r, &err);
	} else {
		order = gck_sweep_order(step);
		json_object_set(order, "remove", seqs);
		gck_peer_end(r->peer, NULL, order);
		gck_sweep_start(r->peer->daemon);
	}
	json_decref(seqs);
}

/* A user cannot report that an object store is swept. */
static void do_swept(const struct request *r)
{
	const struct gck_step *step = gck_state_step(&r->peer->daemon->core.state, r->job->id,
						     r->step);

	if (step && !gck_s3_is(step->store))
		gck_swept(&r->peer->daemon->core, r->job->id, r->step,
			  (uint32_t)json_integer_value(json_object_get(r->body, "removals")));
	gck_peer_end(r->peer, NULL, NULL);
}

/* ---- able, list, show, status -------------------------------------------------------------- */

static void do_able(const struct request *r)
{
	gck_able_ask(r->peer, r->job, r->step);
}

static struct gck_report_range range_of(const struct request *r)
{
	json_int_t from = json_integer_value(json_object_get(r->body, "from"));

	if (r->job)
		return (struct gck_report_range){r->job->id, r->job->id, r->step};
	return (struct gck_report_range){from > 0 && from <= UINT32_MAX ? (uint32_t)from : 0,
					 UINT32_MAX, r->step};
}

static void do_list(const struct request *r)
{
	struct gck_report_range range = range_of(r);

	gck_peer_end(r->peer, NULL, gck_report_list(r->peer->daemon, r->peer->uid, &range));
}

static void do_status(const struct request *r)
{
	struct gck_report_range range = range_of(r);

	gck_peer_end(r->peer, NULL, gck_report_status(r->peer->daemon, r->peer->uid, &range));
}

/* The number of an array is not that of a job: job is not looked up. */
static void do_tasks(const struct request *r)
{
	json_int_t id = json_integer_value(json_object_get(r->body, "job"));

	gck_peer_end(r->peer, NULL,
		     gck_report_tasks(r->peer->daemon, r->peer->uid, (uint32_t)id));
}

static void do_show(const struct request *r)
{
	struct gck_error err = {0};
	const struct gck_step *step = one_step(r, &err);
	uint32_t seq = (uint32_t)json_integer_value(json_object_get(r->body, "seq"));
	const struct gck_commit *c = NULL;

	if (step)
		c = seq ? gck_step_commit(step, seq) : step->commits;
	if (step && !c)
		gck_fail(&err, ENOENT, "step %u.%u has no commit %u", step->job->id, step->id, seq);
	if (c)
		gck_peer_end(r->peer, NULL, gck_report_show(r->peer->daemon, step, c));
	else
		refuse(r, &err);
}

/* ---- import -------------------------------------------------------------------------------- */

static void do_may_import(const struct request *r)
{
	gck_importer_ask(r->peer, r->body);
}

static void do_import(const struct request *r)
{
	gck_importer_begin(r->peer, r->body);
}

static void do_imported(const struct request *r)
{
	gck_importer_end(r->peer, r->body);
}

/* ---- all of them --------------------------------------------------------------------------- */

static const struct {
	const char *op;
	enum { MUST_BE, MAY_BE, NEED_NOT_BE } known; /* the job; MAY_BE: or none is named */
	void (*act)(const struct request *r);
} operations[] = {
	{"able", MUST_BE, do_able},       {"create", MUST_BE, do_create},
	{"vacate", MUST_BE, do_vacate},   {"requeue", MUST_BE, do_requeue},
	{"disable", MUST_BE, do_disable}, {"enable", MUST_BE, do_enable},
	{"list", MAY_BE, do_list},        {"show", MUST_BE, do_show},
	{"status", MAY_BE, do_status},    {"remove", MUST_BE, do_remove},
	{"swept", MUST_BE, do_swept},     {"tasks", NEED_NOT_BE, do_tasks},
	{"may_import", NEED_NOT_BE, do_may_import}, {"import", NEED_NOT_BE, do_import},
	{"imported", NEED_NOT_BE, do_imported},
};

/* A job that the user may not see does not exist for the user. */
static int find_job(struct request *r, bool needed, struct gck_error *err)
{
	const struct gck_daemon *d = r->peer->daemon;
	json_int_t job = 0, step = GCK_EVERY_STEP;

	if (json_unpack((json_t *)r->body, "{s?I, s?I}", "job", &job, "step", &step))
		return gck_fail(err, EINVAL, "job and step are numbers");
	r->step = (uint32_t)step;
	if (!job && !needed)
		return 0;
	r->job = gck_state_job(&d->core.state, (uint32_t)job);
	if (r->job && gck_may_see(d, r->peer->uid, r->job->uid))
		return 0;
	gck_fail(err, ENOENT, "no step runs or ran with --gpu-ckpt");
	if (r->step == GCK_EVERY_STEP)
		return gck_fail_in(err, "job %d", (int)job);
	return gck_fail_in(err, "job %d.%u", (int)job, r->step);
}

void gck_request_message(struct gck_peer *peer, const json_t *body)
{
	struct request r = {.peer = peer, .body = body};
	struct gck_error err = {0};

	r.op = json_string_value(json_object_get(body, "op"));
	if (peer->busy) {
		gck_peer_refuse(peer, "one request at a time");
		return;
	}
	for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
		if (strcmp(operations[i].op, r.op) != 0)
			continue;
		peer->busy = true;
		if (operations[i].known == NEED_NOT_BE)
			operations[i].act(&r);
		else if (find_job(&r, operations[i].known == MUST_BE, &err))
			refuse(&r, &err);
		else if (!gck_grace_keeps(peer, r.job ? r.job->id : 0, r.step, body,
					  gck_request_message))
			operations[i].act(&r);
		return;
	}
	gck_peer_refuse(peer, "an unknown request; is the CLI of another release?");
}

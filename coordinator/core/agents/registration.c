/* SPDX-License-Identifier: Apache-2.0
 * Reading a registration and checking its job. */
#include "coordinator/core/agents/registration.h"

#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/model/remnant.h"
#include "coordinator/core/operations/requeue.h"

#define MAX_STEPS 10000                  /* of a job, including ended ones */
#define MAX_LIVE_STEPS 1024              /* of a job */
#define MAX_OPTIONS 8192
#define MAX_STORE 8192
#define MAX_COMMITS 4096

/* ---- parsing ------------------------------------------------------------------------------- */

static int parse_state(struct gck_registration *r, struct gck_error *err)
{
	static const char *const names[] = {"new", "running", "held", "restoring"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(names[i], r->state_name)) {
			r->state = (enum gck_agent_state)i;
			return 0;
		}
	return gck_fail(err, EINVAL, "register has the unknown state \"%s\"", r->state_name);
}

static int check_lengths(const struct gck_registration *r, struct gck_error *err)
{
	const struct {
		const char *name;
		size_t has, most;
	} all[] = {
		{"options", strlen(r->options), MAX_OPTIONS},
		{"store", strlen(r->store), MAX_STORE},
		{"fingerprint (program, arguments, directory)",
		 json_dumpb(r->fingerprint, NULL, 0, JSON_COMPACT), GCK_FINGERPRINT_MAX},
		{"list of commits", json_array_size(json_object_get(r->body, "commits")),
		 MAX_COMMITS},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i].has > all[i].most)
			return gck_fail(err, E2BIG, "the step's %s is too long: %zu, at most %zu",
					all[i].name, all[i].has, all[i].most);
	return 0;
}

int gck_registration_parse(struct gck_registration *r, const json_t *body, struct gck_error *err)
{
	json_error_t bad;

	memset(r, 0, sizeof *r);
	r->body = body;
	if (json_unpack_ex((json_t *)body, &bad, 0,
			   "{s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:s, s?I}", "job",
			   &r->job, "step", &r->step, "node", &r->node, "node_id", &r->node_id,
			   "nodes", &r->nodes, "ntasks", &r->ntasks, "restarts", &r->restarts,
			   "options", &r->options, "store", &r->store, "fingerprint",
			   &r->fingerprint, "state", &r->state_name, "seq", &r->seq))
		return gck_fail(err, EINVAL, "register is malformed: %s", bad.text);
	if (r->job < 1 || r->job > UINT32_MAX || r->step < 0 || r->step > UINT32_MAX ||
	    r->nodes < 1 || r->nodes > GCK_MAX_NODES || r->ntasks < 1 ||
	    r->ntasks > GCK_MAX_TASKS || r->node_id < 0 || r->node_id >= r->nodes ||
	    r->restarts < 0 || r->restarts > UINT32_MAX || r->seq < 0 || r->seq > UINT32_MAX)
		return gck_fail(err, ERANGE, "register has a number out of range");
	if (!json_is_object(r->fingerprint))
		return gck_fail(err, EINVAL, "register has no fingerprint");
	return check_lengths(r, err) || parse_state(r, err) ? -1 : 0;
}

/* ---- the job ------------------------------------------------------------------------------- */

/* The agent knows it also where the journal has forgotten it, or Slurm's word came since. */
static bool is_held_for_requeue(const struct gck_core *core, const struct gck_job *job,
				const struct gck_registration *r)
{
	return r->state == GCK_AGENT_HELD &&
	       (json_is_true(json_object_get(r->body, "requeue")) ||
		gck_requeue_may_be(core, job));
}

bool gck_registration_needs_slurm(const struct gck_core *core, const json_t *body, uid_t uid)
{
	struct gck_registration r;
	const struct gck_job *job;
	const struct gck_step *step;

	if (gck_registration_parse(&r, body, NULL))
		return false; /* refused without asking Slurm */
	job = gck_state_job(&core->state, (uint32_t)r.job);
	step = gck_state_step(&core->state, (uint32_t)r.job, (uint32_t)r.step);
	return !step || is_held_for_requeue(core, job, &r) || job->uid != uid || job->gone ||
	       job->restarts != (uint32_t)r.restarts || step->restarts != job->restarts ||
	       r.state == GCK_AGENT_NEW || step->nodes != r.nodes || step->ntasks != r.ntasks;
}

/* Has Slurm given the id to another job? */
static bool is_fresh(const struct gck_job *job, uid_t uid, json_int_t restarts, json_int_t submit)
{
	if (job->uid != uid || restarts < job->restarts)
		return true;
	return restarts == job->restarts ? submit != job->submit : job->gone;
}

/* slurmctld can lose its last state, and the job's last requeue with it. Then its count is too low
 * while a start runs, and it counts the next one like that. Another job with the id begins with
 * start 0. The result of gck_registration_job; -1: it is another job. */
static int count_again(const struct gck_job *job, const struct gck_registration *r, uid_t uid,
		       json_int_t restarts)
{
	if (job->uid != uid || job->gone || !job->steps)
		return -1;
	if (r->state == GCK_AGENT_NEW)
		return restarts > 0 ? GCK_COUNTED_AGAIN : -1;
	return restarts < job->restarts && r->restarts == job->restarts ? 0 : -1;
}

/* It can also lose that a start began, whose ranks Slurm ends then: a new agent comes to a node
 * where this start is over. */
static bool begins_again(const struct gck_core *core, const struct gck_registration *r)
{
	const struct gck_step *step = gck_state_step(&core->state, (uint32_t)r->job,
						     (uint32_t)r->step);

	return r->state == GCK_AGENT_NEW && step && step->restarts == step->job->restarts &&
	       r->node_id < step->nodes && step->over && step->over[r->node_id];
}

/* The memory for a step grows with these numbers; a user must not make it grow at will. */
static int check_size(const struct gck_registration *r, json_int_t nodes, struct gck_error *err)
{
	if (r->nodes <= nodes && r->ntasks <= r->nodes * GCK_MAX_NODE_TASKS)
		return 0;
	return gck_fail(err, ERANGE,
			"job %d has %d nodes; a step with %d nodes and %d tasks cannot be",
			(int)r->job, (int)nodes, (int)r->nodes, (int)r->ntasks);
}

/* Not a step of a former job with that id, nor one that exists only by an import. */
static bool is_own(const struct gck_step *step)
{
	return step && step->uid == step->job->uid && json_is_object(step->fingerprint);
}

/* May the job have one more step? */
static int check_count(const struct gck_core *core, const struct gck_job *job,
		       struct gck_error *err)
{
	unsigned steps = 0, live = 0;

	for (const struct gck_step *step = job->steps; step; step = step->next) {
		steps += is_own(step);
		live += step->live && step->live->phase != GCK_OVER;
	}
	if (steps >= MAX_STEPS)
		return gck_fail(err, E2BIG, "job %u has had %u steps with --gpu-ckpt; more are not "
				"kept", job->id, steps);
	if (live >= MAX_LIVE_STEPS)
		return gck_fail(err, E2BIG,
				"job %u has %u steps with --gpu-ckpt at once; no more are taken",
				job->id, live);
	return gck_state_check_user(&core->state, job->uid, err);
}

/* The id may have belonged to another user; that user's steps do not count. */
static int check_share(const struct gck_core *core, const struct gck_job *job, bool fresh,
		       const struct gck_registration *r, uid_t uid, struct gck_error *err)
{
	if (!job || fresh)
		return gck_state_check_user(&core->state, uid, err);
	return is_own(gck_state_step(&core->state, job->id, (uint32_t)r->step)) ? 0 :
	       check_count(core, job, err);
}

static int no_such_job(const struct gck_registration *r, struct gck_error *err)
{
	return gck_fail(err, ENOENT, "there is no job %d of yours", (int)r->job);
}

/* A new agent may lack SLURM_RESTART_COUNT and send 0; any other lower count is old. */
int gck_registration_current(const struct gck_registration *r, json_int_t restarts,
			     struct gck_error *err)
{
	if ((r->state == GCK_AGENT_NEW && r->restarts == 0) || r->restarts >= restarts)
		return 0;
	return gck_fail(err, ESTALE,
			"job %d was requeued and runs elsewhere; this is its start %d, the last "
			"is %d", (int)r->job, (int)r->restarts, (int)restarts);
}

/* Slurm raises the restart count when it requeues a job, but changes the submit time only after the
 * job's last process has ended. While it ends a job, neither is reliable. */
static int check_runs(const struct gck_registration *r, const json_t *info, json_int_t restarts,
		      struct gck_error *err)
{
	if (gck_registration_current(r, restarts, err))
		return -1;
	if (!json_is_true(json_object_get(info, "runs")) &&
	    !json_is_true(json_object_get(info, "ends_itself")))
		return gck_fail(err, ECANCELED, "job %d is being ended by Slurm", (int)r->job);
	return 0;
}

int gck_registration_job(struct gck_core *core, const struct gck_registration *r, uid_t uid,
		    const json_t *info, struct gck_error *err)
{
	struct gck_job *job = gck_state_job(&core->state, (uint32_t)r->job);
	json_int_t owner, restarts, submit, nodes;
	const char *user;
	int batch, fresh, again;
	json_t *record;

	if (!info)
		return job && job->uid == uid ? 0 : no_such_job(r, err);
	if (json_unpack((json_t *)info, "{s:I, s:s, s:I, s:I, s:b, s:I}", "uid", &owner, "user",
			&user, "restarts", &restarts, "submit", &submit, "batch", &batch, "nodes",
			&nodes))
		return gck_fail(err, EPROTO, "Slurm's word on job %d is malformed", (int)r->job);
	if ((uid_t)owner != uid)
		return no_such_job(r, err);
	if (check_runs(r, info, restarts, err) || check_size(r, nodes, err))
		return -1;
	fresh = job && is_fresh(job, uid, restarts, submit);
	again = fresh ? count_again(job, r, uid, restarts) : -1;
	if (again >= 0)
		return again;
	if (check_share(core, job, fresh, r, uid, err))
		return -1;
	if (job && !fresh && restarts == job->restarts)
		return begins_again(core, r) ? GCK_COUNTED_AGAIN : 0;
	if (fresh)
		gck_info("job %u is another job than the one before it; nothing is restarted from "
			 "that",
			 job->id);
	record = json_pack("{s:s, s:I, s:I, s:s, s:I, s:I, s:b, s:b, s:O*, s:O*}", "t", "job",
			   "job", r->job, "uid", owner, "user", user, "restarts", restarts,
			   "submit", submit, "batch", batch, "fresh", fresh, "array",
			   json_object_get(info, "array"), "task", json_object_get(info, "task"));
	gck_remnants_note(core, fresh ? NULL : job, record);
	return gck_core_record(core, record, true, err);
}

/* SPDX-License-Identifier: Apache-2.0
 * The first phase of a checkpoint: workers are forked and look at their ranks, and the store and
 * the node are checked. Changes nothing. */
#include "config.h"

#include "coordinator/agent/checkpoint/prepare.h"

#include "common/base/fault.h"
#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/gpu.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/ranks/thread_link.h"
#include "coordinator/agent/worker/job.h"
#include "coordinator/agent/worker/scontrol.h"
#include "coordinator/agent/worker/store_job.h"
#include "shim/process/process.h"

#define LOOK_S 0.05
#define LINK_WAIT_S 3. /* for ranks whose link has just ended because an agent or a worker was
		        * killed */
#define THREAD_WAIT_PART 0.5 /* of the time limit: for threads in ranks; cuInit may be slow */

static void log_squatter(struct agent *a, const json_t *checked)
{
	const char *squatter = packet_text(checked, "squatter", NULL);

	if (squatter && !a->squatted)
		gck_warn("%s: the job's images have another directory; have it removed", squatter);
	a->squatted |= squatter != NULL;
}

static void on_checked(void *data, const json_t *result, const struct gck_error *why)
{
	struct transaction *t = data;

	t->check = NULL;
	t->checked = json_incref((json_t *)result);
	log_squatter(t->agent, result);
	if (!result)
		transaction_fail(t, NULL, why, false);
	t->ops->advance(t);
}

static int start_check(struct transaction *t, struct gck_error *err)
{
	const struct agent *a = t->agent;
	const struct store_request r = { .step = a->step, .tasks = &a->tasks,
					 .key = packet_text(t->prepare, "key", "") };

	t->check = job_start(a->loop, "the check of the store", store_check, &r, t->timeout_s,
			     on_checked, t, err);
	return t->check ? 0 : -1;
}

/* May the rank's helper still connect? */
static bool is_awaited(const struct task *task)
{
	return !task->ended && (!task->link || task->link->waiting) &&
	       gck_process_runs(task->pid, NULL) == 0;
}

static bool all_linked(const struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (is_awaited(t->ranks[i].task))
			return false;
	return true;
}

static struct rank_checkpoint *in_init(const struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (thread_link_in_init(t->ranks[i].task))
			return &t->ranks[i];
	return NULL;
}

static void start_member(struct transaction *t, struct rank_checkpoint *m)
{
	struct gck_error err = { 0 };

	if (m->task->ended) {
		t->ops->await_status(m);
		return;
	}
	if (rank_checkpoint_start(m, t->prepare, &err) == 0)
		return;
	if (rank_checkpoint_gone(m))
		t->ops->await_status(m);
	else
		transaction_fail(t, m, &err, false);
}

static void start_all(struct transaction *t)
{
	struct gck_error err = { 0 };

	for (size_t i = 0; i < t->n && !t->failed; i++)
		start_member(t, &t->ranks[i]);
	if (!t->failed && start_check(t, &err) < 0)
		transaction_fail(t, NULL, &err, false);
	GCK_FAULT(GCK_FAULT_AGENT_PREPARE);
}

/* For job.h, of a struct step. */
static json_t *ask_suspended(const void *arg, struct gck_error *err)
{
	const struct step *s = arg;

	(void)err;
	return json_boolean(scontrol_suspended(s->job));
}

/* The worker of a rank that is stopped for another reason says so. */
static void on_asked(void *data, const json_t *result, const struct gck_error *why)
{
	struct transaction *t = data;
	uint32_t job = t->agent->step->job;
	struct gck_error err = { 0 };

	(void)why;
	t->check = NULL;
	if (!json_is_true(result)) {
		start_all(t);
		return;
	}
	gck_fail(&err, EBUSY, "job %u is suspended: `scontrol resume %u` lets it run", job, job);
	transaction_fail(t, NULL, &err, false);
}

static void start(struct transaction *t)
{
	const struct agent *a = t->agent;

	ev_timer_stop(a->loop, &t->look);
	t->started = true;
	if (tasks_stopped(&a->tasks))
		t->check = job_start(a->loop, "the question whether the job is suspended",
				     ask_suspended, a->step, t->timeout_s / 4, on_asked, t, NULL);
	if (!t->check)
		start_all(t);
}

static void look(struct transaction *t)
{
	t->look_began = ev_now(t->agent->loop);
	t->look.repeat = LOOK_S;
	ev_timer_again(t->agent->loop, &t->look);
}

/* ---- threads' links ------------------------------------------------------------------------ */

/* A process with CUDA may have ended since the worker looked. */
static bool lacks_cuda_link(const struct rank_checkpoint *m)
{
	const json_t *gpu;
	size_t i;

	json_array_foreach(json_object_get(m->answer[PHASE_PREPARE], "gpus"), i, gpu) {
		pid_t number = (pid_t)packet_int(gpu, "pid", 0);

		if (!gpu_is_linked(m, number) && !task_process_ended(m->task, number))
			return true;
	}
	return false;
}

/* A rank with a thread of ours that has no link; name: which thread. */
static const struct rank_checkpoint *without_link(const struct transaction *t, const char **name)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct rank_checkpoint *m = &t->ranks[i];
		bool mpi = !m->task->mpi && packet_bool(m->answer[PHASE_PREPARE], "mpi");

		*name = mpi ? "MPI" : "CUDA";
		if (!m->carried && (mpi || lacks_cuda_link(m)))
			return m;
	}
	return NULL;
}

bool prepare_waits(struct transaction *t)
{
	const char *name;

	if (!without_link(t, &name))
		return false;
	if (!ev_is_active(&t->look))
		look(t);
	return true;
}

static void look_for_threads(struct transaction *t, bool over)
{
	const char *name;
	const struct rank_checkpoint *m = without_link(t, &name);
	struct gck_error err = { 0 };

	if (m && !over)
		return;
	ev_timer_stop(t->agent->loop, &t->look);
	gck_fail(&err, EAGAIN, "its %s thread has no link to the agent: try again", name);
	if (m)
		transaction_fail(t, m, &err, false);
	else
		t->ops->advance(t);
}

void prepare_fail_in_init(struct rank_checkpoint *m)
{
	struct gck_error err = { 0 };

	gck_fail(&err, EAGAIN, "it is in MPI_Init, which ends when all ranks have called it: try "
		 "again then");
	transaction_fail(m->t, m, &err, false);
}

/* ---- reasons that pass --------------------------------------------------------------------- */

void prepare_refuse_for_now(struct rank_checkpoint *m, const struct gck_error *why)
{
	struct transaction *t = m->t;

	m->refused = true;
	if (!t->refused) {
		t->refused = m;
		t->refusal = *why;
	}
	t->ops->advance(t);
}

bool prepare_refused(struct transaction *t)
{
	for (size_t i = 0; t->refused && i < t->n; i++)
		if (!t->ranks[i].refused && !rank_checkpoint_answered(&t->ranks[i], PHASE_PREPARE))
			return false;
	if (!t->refused || !t->checked)
		return false;
	transaction_fail(t, t->refused, &t->refusal, false);
	return true;
}

/* ---- the phase ----------------------------------------------------------------------------- */

void prepare_on_look(struct ev_loop *loop, ev_timer *w, int events)
{
	struct transaction *t = w->data;
	double waited = ev_now(loop) - t->look_began, longest = THREAD_WAIT_PART * t->timeout_s;
	struct rank_checkpoint *m = in_init(t);

	(void)events;
	if (t->started)
		look_for_threads(t, waited > LINK_WAIT_S && waited > longest);
	else if (m && waited > longest)
		prepare_fail_in_init(m);
	else if (m)
		t->in_init = m;
	else if (waited > LINK_WAIT_S || all_linked(t))
		start(t);
}

void prepare_start(struct transaction *t)
{
	const struct agent *a = t->agent;
	struct gck_error err = { 0 };

	transaction_limit(t, 0.9 * t->timeout_s);
	if (a->gate != GATE_OPEN || a->tasks.n < a->step->local_ntasks) {
		gck_fail(&err, EAGAIN, "its ranks have not started yet: try again later");
		transaction_fail(t, NULL, &err, false);
	} else if (all_linked(t) && !in_init(t)) {
		start(t);
	} else {
		look(t);
	}
}

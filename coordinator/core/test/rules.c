/* SPDX-License-Identifier: Apache-2.0
 * Single rules of the coordinator, each as a short script in the fake world. model.c tests random
 * sequences. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/wire.h"
#include "coordinator/core/actions/commit_document.h"
#include "coordinator/core/agents/answer.h"
#include "coordinator/core/agents/join.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/operations/requeue.h"
#include "coordinator/core/test/one_step.h"
#include "storage/image/image.h"

/* The ranks of step 0 run. */
static void begin(void)
{
	fake_begin(&f, 1);
	fake_settle(&f);
}

static void all_ranks_end(int32_t status)
{
	for (unsigned n = 0; n < NODES; n++)
		fake_all_end(&f, &f.agents[0][n], status);
	fake_settle(&f);
}

/* The end of a request. */
static bool ended, ended_well;
static char why[300], waited_for[300];
static unsigned events;

static void on_event(void *arg, const char *text, const json_t *data)
{
	events++;
	(void)arg;
	(void)text;
	(void)data;
}

static void on_end(void *arg, const char *error, const json_t *steps)
{
	const char *what = json_string_value(json_object_get(json_array_get(steps, 0),
							     "waited_for"));

	(void)arg;
	ended = true;
	ended_well = !error;
	snprintf(waited_for, sizeof waited_for, "%s", what ? what : "");
	snprintf(why, sizeof why, "%s", error ? error : "");
}

static void create_with(bool patient)
{
	const struct gck_waiter waiter = {.wait = true, .patient = patient, .event = on_event,
					  .end = on_end};
	struct gck_error err = {0};

	ended = false;
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", &waiter, &err);
	is_str(err.text, "", "create begins");
}

static void create(void)
{
	create_with(true);
}

static void reach(enum gck_phase phase)
{
	for (unsigned i = 0; i < 1000 && step_0()->live->phase != phase; i++)
		fake_deliver(&f);
	is_int(step_0()->live->phase, phase, "the step reaches the phase");
}

/* ---- finished steps ------------------------------------------------------------------------ */

static bool finished_after(int32_t status)
{
	bool finished;

	begin();
	all_ranks_end(status);
	finished = step_0()->finished;
	end();
	return finished;
}

static void test_finished(void)
{
	ok(finished_after(0), "a step whose ranks end with status 0 is finished");
	ok(!finished_after(1 << 8), "a step with a failed rank is not");
	ok(!finished_after(SIGTERM), "nor is a step with a killed rank");
}

/* ---- agents that do not come back ---------------------------------------------------------- */

/* Their connections end for good: they send nothing more. */
static void nodes_die(unsigned first, unsigned last)
{
	for (unsigned n = first; n <= last; n++) {
		fake_disconnect(&f, &f.agents[0][n]);
		f.agents[0][n].state = F_OVER;
	}
}

static void test_bye(void)
{
	begin();
	fake_all_end(&f, &f.agents[0][2], 0);
	fake_settle(&f);
	fake_crash(&f);
	fake_settle(&f);
	is_int(gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL), 0,
	       "one node of a step has ended");
	fake_settle(&f);
	ok(step_0()->commits != NULL,
	   "a coordinator that was away since then checkpoints the rest");
	end();
}

/* A commit without them could not be restored if the others need them (MPI). */
static void test_bye_frozen(void)
{
	struct gck_agent *a = &f.agents[0][2];

	begin();
	create();
	reach(GCK_FREEZING);
	for (unsigned i = 0; i < 1000 && !step_0()->live->nodes[2].answered; i++) {
		fake_agent_takes(&f, a);
		fake_core_takes(&f, a);
	}
	is_int(step_0()->live->phase, GCK_FREEZING, "a node's ranks are frozen before the others");
	fake_all_end(&f, a, SIGKILL);
	while (fake_core_takes(&f, a))
		;
	for (unsigned i = 0; i < 1000 && !ended; i++)
		for (unsigned n = 0; n < 2; n++) {
			fake_agent_takes(&f, &f.agents[0][n]);
			fake_core_takes(&f, &f.agents[0][n]);
		}
	ok(all_of(ended, !ended_well, !step_0()->commits),
	   "they end: there is no commit without their images");
	end();
}

static void test_nobody(void)
{
	begin();
	nodes_die(0, 1);
	is_int(f.timers[0][GCK_TIMER_PHASE], 0, "a step with an agent is awaited without a limit");
	nodes_die(2, 2);
	ok(fake_timer_fires(&f, 0, GCK_TIMER_PHASE),
	   "a step without agents is awaited for a limited time");
	is_int(step_0()->live->phase, GCK_OVER, "then it has ended");
	ok(!gck_operation_requeues(&f.core, JOB), "its job is not being requeued");
	is_int(gck_operation_begin(&f.core, GCK_REQUEUE, JOB, GCK_EVERY_STEP, "test", NULL, NULL),
	       0, "the next requeue of its job begins");
	ok(gck_operation_requeues(&f.core, JOB), "and it is being requeued");
	for (unsigned i = 0; i < 200 && !f.taken; i++)
		fake_deliver(&f);
	ok(f.taken, "and does not wait for the step");
	end();
}

static void test_back(void)
{
	begin();
	for (unsigned n = 0; n < NODES; n++)
		fake_disconnect(&f, &f.agents[0][n]);
	fake_settle(&f);
	fake_timer_fires(&f, 0, GCK_TIMER_PHASE);
	is_int(step_0()->live->phase, GCK_IDLE, "agents that come back in time are accepted");
	end();
}

/* ---- MPI ------------------------------------------------------------------------------------ */

/* The quiesce's duration in the newest commit; -1: it has none. */
static json_int_t told_quiesce(void)
{
	const json_t *ms = json_object_get(step_0()->commits->info, "quiesce_ms");

	return ms ? json_integer_value(ms) : -1;
}

static void test_quiesce(void)
{
	begin();
	f.agents[0][0].mpi = f.agents[0][2].mpi = true;
	create();
	fake_settle(&f);
	ok(all_of(ended, ended_well), "nodes with and without MPI: the create is done");
	is_int(f.agents[0][0].rounds, 3, "ranks with MPI took three rounds");
	is_int(f.agents[0][1].rounds, 0, "ranks without MPI took none");
	ok(told_quiesce() > 0, "the commit has their duration");
	is_str(json_string_value(json_object_get(step_0()->commits->info, "quiesce_via")),
	       "coordinator", "and the transport: not all ranks have MPI");
	f.agents[0][0].mpi = f.agents[0][2].mpi = false;
	create();
	fake_settle(&f);
	is_int(told_quiesce(), -1, "a step without MPI has no such duration");
	end();
}

static void test_no_quiesce(void)
{
	begin();
	f.agents[0][0].mpi = true;
	create();
	for (unsigned i = 0; i < 1000 && f.agents[0][0].round != 2 && fake_deliver(&f); i++)
		;
	fake_disconnect(&f, &f.agents[0][1]);
	fake_settle(&f);
	ok(all_of(ended, !ended_well), "an agent lost during the rounds fails the create");
	is_int(step_0()->live->phase, GCK_IDLE, "and the ranks go on");
	end();
}

/* Refused with a reason before any connection is closed. */
static void test_many_words(void)
{
	struct gck_agent *a = &f.agents[0][0];
	static char text[GCK_WIRE_MAX_BULK / 24 * 4 + 1]; /* a sixth, as base64 has it */
	size_t piece = GCK_WIRE_MAX_BULK / 24 * 3;

	begin();
	a->mpi = f.agents[0][2].mpi = true;
	create();
	for (unsigned i = 0; i < 1000 && f.agents[0][2].round != 1 && fake_deliver(&f); i++)
		;
	memset(text, 'A', sizeof text - 1);
	for (size_t i = 0; i < 10; i++)
		fake_say(a, json_pack("{s:s, s:i, s:i, s:i, s:i, s:s}", "op", "ready", "seq",
				      (int)a->seq, "round", 1, "at", (int)(i * piece), "total",
				      (int)(10 * piece), "data", text));
	fake_settle(&f);
	ok(all_of(ended, !ended_well, strstr(why, "--mpi=pmix")), "too many words: %s", why);
	is_int(step_0()->live->phase, GCK_IDLE, "and the ranks go on");
	end();
}

/* ---- what is stored ------------------------------------------------------------------------ */

/* Each node's ranks have stored 3 bytes, 2 of them in an object that all nodes share. */
static void test_stored(void)
{
	begin();
	create();
	fake_settle(&f);
	is_int((long long)step_0()->commits->stored, NODES + 2,
	       "common objects of nodes count once");
	create();
	fake_settle(&f);
	is_int((long long)step_0()->commits->stored, NODES + 2, "also in the second checkpoint");
	end();
}

static json_t *common_name(json_t *all, unsigned i)
{
	char name[GCK_HASH_TEXT];

	snprintf(name, sizeof name, "%032x", i);
	json_object_set_new(all, name, json_integer(1));
	return all;
}

/* The names that are kept after nodes have reported this, before the commit. */
static const json_t *kept_of(json_t *common)
{
	json_decref(f.common);
	f.common = common;
	create();
	reach(GCK_COMMITTING);
	return step_0()->live->checkpoint.common;
}

/* A user's agents may send any names and sizes. */
static void test_hostile_common(void)
{
	json_t *common = common_name(json_object(), 9), *tree = json_array();
	const json_t *kept;

	begin();
	for (unsigned i = 0; i < 1000; i++)
		json_array_append_new(tree, json_array());
	json_object_set_new(common, "0000000000000000000000000000000a", tree);
	json_object_set_new(common, "0000000000000000000000000000000b", json_integer(-5));
	json_object_set_new(common, "0000000000000000000000000000000c0", json_integer(1));
	json_object_set_new(common, "libraries", json_integer(1));
	kept = kept_of(common);
	is_int((long long)json_object_size(kept), 1,
	       "only valid object names of `common` are kept");
	is_int(json_integer_value(json_object_get(kept, "00000000000000000000000000000009")), 1,
	       "with their sizes");
	fake_settle(&f);
	is_int((long long)step_0()->commits->stored, 3 * NODES - (NODES - 1),
	       "invalid sizes are refused");
	kept = kept_of(json_integer(3));
	is_int((long long)json_object_size(kept), 0, "a `common` that is not an object is ignored");
	fake_settle(&f);
	end();
}

static void test_much_in_common(void)
{
	json_t *many = json_object();
	struct gck_live *other;

	begin();
	for (unsigned i = 0; i < GCK_SHARED_OBJECTS_STEP + 10; i++)
		common_name(many, i);
	is_int((long long)json_object_size(kept_of(json_incref(many))), GCK_SHARED_OBJECTS_STEP,
	       "the names of a step are limited");
	fake_settle(&f);
	other = gck_state_step(&f.core.state, JOB, 1)->live;
	other->checkpoint.common_most = GCK_SHARED_OBJECTS_USER - 5;
	is_int((long long)json_object_size(kept_of(json_incref(many))), 5,
	       "so are the names of all steps of a user");
	fake_settle(&f);
	other->checkpoint.common_most = GCK_SHARED_OBJECTS_USER;
	is_int((long long)json_object_size(kept_of(many)), 0,
	       "a user at the limit keeps no more names");
	other->checkpoint.common_most = 0;
	fake_settle(&f);
	is_int((long long)step_0()->commits->stored, 3 * NODES, "then objects count for each node");
	end();
}

/* ---- how long ranks stood still ----------------------------------------------------------- */

static void test_stall(void)
{
	begin();
	create();
	fake_settle(&f);
	ok(all_of(ended, ended_well), "a checkpoint");
	ok(json_real_value(json_object_get(step_0()->commits->info, "stall_ms")) == 9,
	   "its stall is from the first GPU's stop to the last GPU's return");
	end();
}

/* ---- memory is short ----------------------------------------------------------------------- */

static void test_needs_hold(void)
{
	bool held = false;

	begin();
	f.agents[0][1].needs_hold = true;
	create();
	for (unsigned i = 0; i < 1000 && fake_deliver(&f); i++)
		held |= f.agents[0][0].held && f.agents[0][0].written;
	ok(held, "a node lacks memory: ranks are held during the write");
	ok(all_of(ended, ended_well), "the create is done");
	ok(json_is_true(json_object_get(step_0()->commits->info, "held")),
	   "and its commit has `held`");
	is_int(step_0()->live->phase, GCK_IDLE, "the step");
	for (unsigned n = 0; n < NODES; n++)
		ok(all_of(!f.agents[0][n].held, f.agents[0][n].state == F_RUNNING),
		   "the ranks of node %u run on", n);
	end();
}

/* The time that the ranks of one node need is the limit on all. */
static void test_hold_auto(void)
{
	begin();
	f.agents[0][1].hold_ms = 12400;
	create();
	fake_settle(&f);
	ok(all_of(ended, ended_well), "a node's ranks need to be held for long");
	is_int(f.agents[0][0].may_hold_ms, 12400, "with hold=auto they may");
	f.agents[0][1].hold_ms = 0;
	create();
	fake_settle(&f);
	is_int(f.agents[0][0].may_hold_ms, 5000, "at the next checkpoint they need not");
	step_0()->live->options.hold_auto = false;
	f.agents[0][1].hold_ms = 12400;
	create();
	fake_settle(&f);
	is_int(f.agents[0][0].may_hold_ms, 5000, "a time that the user gave is the limit");
	end();
}

/* ---- reasons that pass --------------------------------------------------------------------- */

static void refused_for_now(unsigned times)
{
	begin();
	f.agents[0][1].passing = times;
	create();
	fake_settle(&f);
}

static unsigned tries(void)
{
	unsigned n = 0;

	while (fake_timer_fires(&f, 0, GCK_TIMER_AGAIN)) {
		fake_settle(&f);
		n++;
	}
	return n;
}

static void test_passing(void)
{
	int64_t begun_ms, limit_ms, ms;
	unsigned n;

	refused_for_now(2);
	ok(all_of(!ended, step_0()->live->phase == GCK_IDLE, f.timers[0][GCK_TIMER_AGAIN]),
	   "a node refuses for a passing reason: the create waits, and ranks run");
	is_int(tries(), 2, "it is tried again and again");
	ok(all_of(ended, ended_well, step_0()->commits), "until it is done");
	ok(strstr(waited_for, "it failed") != NULL, "the answer says what was waited for: %s",
	   waited_for);
	is_int(step_0()->live->failures, 0, "no checkpoint has failed");
	end();

	refused_for_now(100);
	begun_ms = fake_boot_ms();
	limit_ms = step_0()->live->options.timeout_ms;
	n = tries();
	ms = fake_boot_ms() - begun_ms;
	ok(all_of(n > 10, ended, !ended_well, strstr(why, "it failed")),
	   "a reason that does not pass is told after %u tries", n);
	ok(ms <= limit_ms && ms > limit_ms - 4000, "within the time limit: %lld of %lld ms",
	   (long long)ms, (long long)limit_ms);
	end();
}

static void test_passing_unawaited(void)
{
	begin();
	f.agents[0][1].passing = 100;
	create_with(false);
	fake_settle(&f);
	ok(all_of(tries() == 4, ended, !ended_well, strstr(why, "it failed")),
	   "without a patient client such a reason is told after some tries");
	end();
}

/* Whichever node answers first. */
static void test_passing_beside_lasting(unsigned lasting)
{
	char told[80];

	begin();
	f.agents[0][lasting].no_prepare = ENOTSUP;
	f.agents[0][1 - lasting].passing = 100;
	create();
	fake_settle(&f);
	snprintf(told, sizeof told, "node %s,", step_0()->live->nodes[lasting].name);
	ok(all_of(ended, strstr(why, told)),
	   "a reason that does not pass is told at once, beside one that does: %s", why);
	f.agents[0][lasting].no_prepare = 0;
	f.agents[0][1 - lasting].passing = 0;
	create();
	fake_settle(&f);
	ok(all_of(ended, ended_well), "and when both are gone a checkpoint is done: %s", why);
	end();
}

/* The rank's next exchange goes through the coordinator (shim/mpi/base/pmix.h). */
static void test_pmix_fails(void)
{
	begin();
	f.agents[0][0].mpi = f.agents[0][2].mpi = true;
	f.agents[0][2].pmix_fails = 1;
	create();
	fake_settle(&f);
	is_int(tries(), 1, "PMIx fails in a quiesce: the create is tried again");
	ok(all_of(ended, ended_well), "and done");
	is_int(step_0()->live->failures, 0, "which counts as no failure");
	is_int(step_0()->commits->seq, 2, "it has the second try's number");
	f.agents[0][0].mpi = f.agents[0][2].mpi = false;
	end();
}

/* Another of its steps could not be restored, and the job is given back to Slurm. */
static void test_given_back_meanwhile(void)
{
	begin();
	create();
	gck_requeue_note(&f.core, JOB, true);
	fake_settle(&f);
	ok(all_of(ended, !ended_well, strstr(why, "requeued meanwhile")),
	   "a checkpoint of a job that is requeued meanwhile is not taken: %s", why);
	end();
}

/* Another node's connection ends before it has heard of the checkpoint. It answers well when it is
 * back. */
static void test_passing_beside_lost(void)
{
	struct fake_queue unheard;

	begin();
	f.agents[0][1].passing = 1;
	create();
	reach(GCK_PREPARING);
	unheard = f.agents[0][0].in;
	f.agents[0][0].in.n = 0;
	for (unsigned i = 0; i < 20; i++) /* all others answer */
		fake_deliver(&f);
	f.agents[0][0].in = unheard;
	fake_disconnect(&f, &f.agents[0][0]);
	fake_settle(&f);
	ok(all_of(tries() == 1, ended, ended_well, strstr(waited_for, "it failed")),
	   "a refusal for now is not forgotten when another node is lost: %s", waited_for);
	end();
}

static void test_passing_and_others(void)
{
	refused_for_now(1);
	is_int(gck_operation_begin(&f.core, GCK_CREATE, JOB, GCK_EVERY_STEP, "test", NULL, NULL), 0,
	       "while a step waits for its next try, all are to be checkpointed");
	fake_settle(&f);
	ok(all_of(!ended, !step_0()->commits), "that waits as well");
	tries();
	ok(all_of(ended, ended_well, step_0()->commits && step_0()->commits->older),
	   "both are done then");
	end();

	refused_for_now(1);
	all_ranks_end(0);
	ok(all_of(ended, !ended_well, strstr(why, "it ended")),
	   "a step ends while it waits for its next try");
	is_int(tries(), 0, "there is none");
	end();
}

/* ---- an agent is missing ------------------------------------------------------------------- */

static void test_missing(void)
{
	begin();
	fake_disconnect(&f, &f.agents[0][1]);
	create();
	ok(!ended, "create waits for a missing agent");
	fake_settle(&f);
	ok(all_of(ended, ended_well), "and succeeds when it is back");
	nodes_die(1, 1);
	create();
	fake_settle(&f);
	ok(all_of(!ended, fake_timer_fires(&f, 0, GCK_TIMER_PHASE)), "the wait is limited");
	fake_settle(&f);
	ok(all_of(ended, strstr(why, "agent of node n1 is not connected")),
	   "the error names the node");
	is_int(step_0()->last_seq, 1, "no sequence number was used");
	end();
}

/* ---- a checkpoint whose intent is taken away ------------------------------------------------ */

static unsigned noted(const char *type)
{
	unsigned n = 0;
	json_t *r;
	size_t i;

	json_array_foreach(f.records, i, r)
		n += !strcmp(json_string_value(json_object_get(r, "t")), type);
	return n;
}

/* All images are reported but those of node 0, whose agent has written them and not answered. */
static json_t *all_but_one_written(void)
{
	struct gck_agent *a = &f.agents[0][0];

	begin();
	create();
	reach(GCK_WRITING);
	for (unsigned n = 0; n < NODES; n++) {
		while (f.agents[0][n].in.n)
			fake_agent_takes(&f, &f.agents[0][n]);
		while (n && f.agents[0][n].out.n)
			fake_core_takes(&f, &f.agents[0][n]);
	}
	return fake_pop(&a->out);
}

static void test_starts_while_written(void)
{
	json_t *written = all_but_one_written();
	struct gck_agent *a = &f.agents[0][0];

	fake_disconnect(&f, a);
	a->state = F_NEW;
	fake_connect(&f, a);
	fake_core_takes(&f, a);
	is_int(step_0()->intent.seq, 1,
	       "an agent reports `new` during the write: the checkpoint goes on");
	fake_say(a, written);
	fake_core_takes(&f, a);
	is_int(noted("committing"), 1, "it is committed");
	fake_crash(&f);
	end();
}

static void test_not_begun(void)
{
	json_t *written = all_but_one_written();

	gck_step_clear_intent(step_0());
	fake_say(&f.agents[0][0], written);
	fake_settle(&f);
	is_int(noted("committing"), 0, "nothing is committed without an intent in the journal");
	ok(all_of(ended, !ended_well, strstr(why, "was given up")), "the create fails: %s",
	   why);
	end();
}

/* A record that could not be replayed at a start. */
static void test_impossible_record(void)
{
	struct gck_error err = {0};

	begin();
	ok(all_of(gck_core_record(&f.core, gck_record_seq(step_0(), "committing", 5), true, &err),
		  strstr(err.text, "not begun")), "an invalid record is refused: %s", err.text);
	gck_core_note(&f.core, gck_record_seq(step_0(), "seq", 3), true);
	is_int(noted("committing"), 0, "and does not stay in the journal");
	fake_crash(&f);
	end();
}

/* ---- signs of life ------------------------------------------------------------------------- */

static bool next_is(struct gck_agent *a, const char *op)
{
	json_t *body = fake_pop(&a->in);
	const char *got = json_string_value(json_object_get(body, "op"));
	bool good = got && !strcmp(got, op);

	json_decref(body);
	return good;
}

static void test_hold(void)
{
	begin();
	gck_operation_begin(&f.core, GCK_VACATE, JOB, 0, "test", NULL, NULL);
	reach(GCK_FREEZING);
	is_int(f.timers[0][GCK_TIMER_HOLD], step_0()->live->options.timeout_ms / 4,
	       "ranks are held for long");
	reach(GCK_HELD_COMMITTING);
	while (f.agents[0][2].in.n)
		json_decref(fake_pop(&f.agents[0][2].in));
	ok(all_of(fake_timer_fires(&f, 0, GCK_TIMER_HOLD), next_is(&f.agents[0][2], "hold")),
	   "their agents get keepalives");
	ok(all_of(fake_timer_fires(&f, 0, GCK_TIMER_HOLD), next_is(&f.agents[0][2], "hold")),
	   "repeatedly");
	fake_settle(&f);
	is_int(step_0()->live->phase, GCK_OVER, "when the ranks have ended");
	fake_timer_fires(&f, 0, GCK_TIMER_HOLD);
	is_int(f.timers[0][GCK_TIMER_HOLD], 0, "there are no more keepalives");
	end();
}

/* The agents are told of Slurm's answer at once: they end the ranks when its signals come. */
static void test_requeued(void)
{
	begin();
	gck_operation_begin(&f.core, GCK_REQUEUE, JOB, GCK_EVERY_STEP, "test", NULL, NULL);
	fake_settle(&f);
	ok(f.taken, "Slurm has requeued the job");
	is_int(step_0()->live->phase, GCK_OVER, "its held ranks are ended");
	end();
}

static void test_requeued_by_two(void)
{
	const struct gck_waiter waiter = {.wait = true, .event = on_event, .end = on_end};
	struct gck_error err = {0};

	begin();
	ended = false;
	gck_operation_begin(&f.core, GCK_REQUEUE, JOB, GCK_EVERY_STEP, "test", NULL, NULL);
	reach(GCK_HELD_WRITING);
	gck_requeue_note(&f.core, JOB, true); /* as before Slurm is asked */
	gck_operation_begin(&f.core, GCK_REQUEUE, JOB, GCK_EVERY_STEP, "test", &waiter, &err);
	fake_settle(&f);
	ok(all_of(ended, ended_well, !*err.text),
	   "who asks while Slurm is asked gets its answer, too: %s", err.text);
	end();
}

static void test_no_hold(void)
{
	begin();
	create();
	reach(GCK_RESUMING);
	is_int(f.timers[0][GCK_TIMER_HOLD], 0, "no keepalives for ranks that are held briefly");
	fake_settle(&f);
	end();
}

/* ---- progress ------------------------------------------------------------------------------ */

static void test_progress(void)
{
	json_t *body = json_pack("{s:i, s:i}", "done", 1, "all", 100000);
	unsigned before;

	begin();
	create();
	reach(GCK_WRITING);
	before = events;
	for (int i = 1; i < 200; i++) { /* 10 ms each by the fake clock */
		json_object_set_new(body, "done", json_integer(i));
		gck_answer_progress(&f.core, step_0(), &step_0()->live->nodes[0], body);
	}
	ok(all_of(events - before >= 2, events - before <= 8),
	   "progress is reported from time to time: %u",
	   events - before);
	json_decref(body);
	fake_settle(&f);
	end();
}

/* ---- one's share --------------------------------------------------------------------------- */

static const char *node_name = "n0";
static uid_t owner = OWNER;
static json_t *local_ranks;

/* Register a step as its only agent. Returns the code of the refusal; 0: accepted. */
static int registers(unsigned step, unsigned ntasks)
{
	json_t *body = json_pack("{s:s, s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:{s:s}, s:s}",
				 "op", "register", "job", JOB, "step", (int)step, "node", node_name,
				 "node_id", 0, "nodes", 1, "ntasks", (int)ntasks, "restarts", 0,
				 "options", "interval=off", "store", "file:/s", "fingerprint",
				 "program", "p", "state", "running");
	json_t *job = fake_job(&f);
	struct gck_error err = {0};

	json_object_set_new(job, "uid", json_integer(owner));
	json_object_set(body, "local_ranks", local_ranks);
	gck_join(&f.core, NULL, owner, body, job, &err);
	json_decref(job);
	json_decref(body);
	return err.code;
}

static void test_share(void)
{
	unsigned n = STEPS;

	begin();
	while (n < 5000 && !registers(n, 1))
		n++;
	is_int(n, 1024, "the limit of live steps of a job");
	for (unsigned i = STEPS; i < n; i++)
		gck_join_end(&f.core, gck_state_step(&f.core.state, JOB, i));
	is_int(registers(n, 1), 0, "a further step when they have ended");
	step_0()->bytes = 256 << 20;
	is_int(registers(n + 1, 1), E2BIG, "the memory for a user's steps is limited");
	is_int(registers(n, 1), 0, "existing steps are not affected");
	end();
}

/* As many steps as a job may have had; the last one uses all of the user's memory. */
static void fill_share(unsigned n)
{
	for (unsigned i = STEPS; i < n; i++)
		gck_core_note(&f.core,
			      json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:{}}", "t",
					"step", "job", JOB, "step", (int)i, "restarts", 0, "nodes",
					1, "ntasks", 1, "store", "file:/s", "options", "",
					"fingerprint"),
			      false);
	gck_state_step(&f.core.state, JOB, n - 1)->bytes = 256 << 20;
}

static void test_former_share(void)
{
	unsigned n = 10000;

	begin();
	fill_share(n);
	is_int(registers(n, 1), E2BIG, "a user's share is used up");
	owner = OWNER + 1;
	is_int(registers(n, 1), 0, "the next owner of the job's number is not affected");
	f.core.behind = true; /* the journal is written anew */
	is_int(registers(n + 1, 1), 0, "nor is that owner's next step");
	owner = OWNER;
	is_int(registers(n + 2, 1), E2BIG, "the user who used it up is refused");
	fake_crash(&f);
	is_int(gck_state_step(&f.core.state, JOB, n - 1)->uid, OWNER,
	       "the former owner is read back");
	is_int(gck_state_step(&f.core.state, JOB, n)->uid, OWNER + 1, "so is the present owner");
	end();
}

/* An agent may send members of any size for each rank. */
static void test_words(void)
{
	json_t *word = json_pack("{s:i, s:i, s:s, s:[{s:s}]}", "rank", 1, "pid", 99, "object",
				 "file", "remedy", "x", "y");
	json_t *many = json_array(), *kept;
	struct gck_node *node;

	begin();
	node = &step_0()->live->nodes[0];
	for (unsigned i = 0; i < 100000; i++)
		json_array_append(many, word);
	local_ranks = many;
	is_int(registers(STEPS, 1), 0, "an agent reports a hundred thousand ranks");
	local_ranks = NULL;
	kept = gck_state_step(&f.core.state, JOB, STEPS)->live->nodes[0].ranks;
	is_int((long long)json_array_size(kept), 1, "no more are kept than the step has");
	is_int((long long)json_object_size(json_array_get(kept, 0)), 2,
	       "and only the members that are used");
	gck_node_set_ranks(node, many, GCK_MAX_TASKS);
	is_int((long long)json_array_size(node->ranks), GCK_MAX_NODE_TASKS,
	       "no more than a node can have");
	gck_node_set_items(node, many);
	is_int((long long)json_array_size(node->items), GCK_MAX_NODE_TASKS,
	       "nor more obstacles");
	is_int((long long)json_object_size(json_array_get(node->items, 0)), 2,
	       "and of each only the members that are reported");
	json_decref(many);
	json_decref(word);
	end();
}

/* Characters of two bytes. */
static void test_long_name(void)
{
	char name[101] = "";
	json_t *taken;

	while (strlen(name) + 3 < sizeof name)
		strcat(name, "\xc3\xa9");
	begin();
	node_name = name;
	is_int(registers(STEPS, 1), 0, "a node with a long name");
	taken = json_string(gck_state_step(&f.core.state, JOB, STEPS)->live->nodes[0].name);
	ok(json_string_length(taken) >= 60, "the name is cut between characters");
	json_decref(taken);
	node_name = "n0";
	end();
}

/* ---- what a commit holds ------------------------------------------------------------------- */

static void test_too_many_ranks(void)
{
	struct gck_error err = {0};
	struct gck_step large;

	begin();
	large = *step_0();
	large.ntasks = 12000;
	ok(!gck_document_fits(&large, &err), "12000 ranks fit into a commit");
	large.ntasks = 14000;
	ok(all_of(gck_document_fits(&large, &err), strstr(err.text, "14000")),
	   "14000 ranks do not");
	end();
}

/* A job's key is made once and sent to all agents; without a key no checkpoint begins. */
static void test_encrypted(void)
{
	struct gck_job *job;

	fake_begin(&f, 1);
	f.options = "interval=30m,encrypt=yes";
	fake_settle(&f);
	job = gck_state_job(&f.core.state, JOB);
	create();
	fake_settle(&f);
	ok(all_of(ended, !ended_well, strstr(why, "nothing to wrap with"), !job->key,
		  step_0()->last_seq == 0), "encrypt=yes without keys: %s", why);
	f.wrapping = 3;
	create();
	fake_settle(&f);
	ok(all_of(ended_well, job->key, !strncmp(job->key, "3:", 2)),
	   "with keys the job gets one: %s", why);
	f.wrapping = 4;
	create();
	fake_settle(&f);
	ok(all_of(ended_well, job->key, !strncmp(job->key, "4:", 2)),
	   "after a change another key wraps it");
	fake_crash(&f);
	fake_settle(&f);
	job = gck_state_job(&f.core.state, JOB);
	ok(all_of(job, job->key, !strncmp(job->key, "4:", 2)), "the journal has the new one");
	f.options = "interval=30m";
	end();
}

/* A step waits to be tried again when the requeue of its job is called off. */
static void test_called_off(void)
{
	fake_begin(&f, 1);
	fake_settle(&f);
	f.agents[0][1].passing = 1;
	fake_disconnect(&f, &f.agents[1][2]);
	f.agents[1][2].cut_off = true;
	gck_operation_begin(&f.core, GCK_REQUEUE, JOB, 0, "test", NULL, NULL);
	fake_settle(&f);
	ok(f.timers[0][GCK_TIMER_AGAIN] > 0, "a checkpoint of a requeue is to be tried again");
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_timer_fires(&f, 1, GCK_TIMER_PHASE);
	fake_settle(&f);
	ok(step_0()->commits != NULL,
	   "the requeue fails by another step: what waited for this step begins at once");
	ok(!f.core.operations, "no request is left");
	end();
}

/* Slurm requeues the job, for another step, while a checkpoint waits for its turn: ranks that it
 * ends are not held, or let go, any more. */
static void test_requeued_meanwhile(void)
{
	const struct gck_waiter waiter = {.wait = true, .event = on_event, .end = on_end};
	struct gck_error err = {0};

	begin();
	create();
	reach(GCK_WRITING);
	gck_operation_begin(&f.core, GCK_CREATE, JOB, GCK_EVERY_STEP, "test", &waiter, &err);
	is_str(err.text, "", "a second create waits");
	gck_requeue_note(&f.core, JOB, true);
	fake_settle(&f);
	ok(all_of(ended, !ended_well, strstr(why, "the job was requeued meanwhile")),
	   "it does not begin after the job was requeued: %s", why);
	ok(gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, &err) == -1 &&
	   err.code == EAGAIN, "nor does another: %s", err.text);
	end();
}

int main(void)
{
	gck_log_open("scripts", "/dev/null", GCK_LOG_ERROR);
	test_finished();
	test_bye();
	test_bye_frozen();
	test_nobody();
	test_back();
	test_quiesce();
	test_no_quiesce();
	test_many_words();
	test_stored();
	test_hostile_common();
	test_much_in_common();
	test_stall();
	test_needs_hold();
	test_hold_auto();
	test_passing();
	test_passing_unawaited();
	test_passing_beside_lasting(0);
	test_passing_beside_lasting(1);
	test_pmix_fails();
	test_given_back_meanwhile();
	test_passing_beside_lost();
	test_passing_and_others();
	test_missing();
	test_starts_while_written();
	test_not_begun();
	test_impossible_record();
	test_hold();
	test_requeued();
	test_requeued_by_two();
	test_no_hold();
	test_progress();
	test_share();
	test_former_share();
	test_words();
	test_long_name();
	test_too_many_ranks();
	test_encrypted();
	test_called_off();
	test_requeued_meanwhile();
	return tap_done();
}

/* SPDX-License-Identifier: Apache-2.0
 * Steps of restarted jobs: each rule as a short script in the fake world. model.c tests random
 * sequences. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/agents/answer.h"
#include "coordinator/core/agents/join.h"
#include "coordinator/core/model/remnant.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/retention/import.h"
#include "coordinator/core/test/fake_journal.h"
#include "coordinator/core/test/one_step.h"

static void begin_with(const char *options, unsigned commits)
{
	fake_begin(&f, 1);
	f.options = options;
	fake_settle(&f);
	for (unsigned i = 0; i < commits; i++) {
		gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
		fake_settle(&f);
	}
}

/* The ranks of step 0 run, and have this many commits. */
static void begin(unsigned commits)
{
	begin_with("interval=30m", commits);
}

static bool step_0_is_held_back(void)
{
	return f.taken && f.held && f.agents[0][0].state != F_RUNNING;
}

/* ---- a commit that may have been written --------------------------------------------------- */

/* The agent has written the commit object; its answer is lost. */
static void commit_in_doubt(void)
{
	size_t before = json_object_size(f.store[0]);

	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	for (unsigned i = 0; i < 1000 && json_object_size(f.store[0]) == before; i++)
		fake_deliver(&f);
}

static void test_in_doubt(void)
{
	begin(0);
	commit_in_doubt();
	fake_requeued(&f);
	f.unreadable = true;
	fake_settle(&f);
	ok(step_0_is_held_back(),
	   "a commit in doubt and a store that cannot be read: the job is held");
	f.unreadable = false;
	fake_requeued(&f);
	fake_settle(&f);
	is_int(f.agents[0][0].from, 1, "once the store can be read, the job is restored");
	end();
	begin(0);
	f.unreadable = true;
	fake_requeued(&f);
	fake_settle(&f);
	is_int(f.agents[0][0].state, F_RUNNING, "a journal without a checkpoint is sufficient");
	end();
}

/* The step has two commits, of which an older journal has the first, one that is lost none, and the
 * store cannot be read. */
static void forget_commit(enum fake_loss loss)
{
	begin(1);
	fake_journal_copy(&f);
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_settle(&f);
	f.unreadable = true;
	fake_crash_losing(&f, loss);
}

/* An older journal, or none, and a store that cannot be read. */
static void test_nothing_known(enum fake_loss loss, const char *name)
{
	forget_commit(loss);
	fake_requeued(&f);
	fake_settle(&f);
	ok(step_0_is_held_back(), "%s and a store that cannot be read: the job is held", name);
	f.unreadable = false;
	fake_requeued(&f);
	fake_settle(&f);
	is_int(f.agents[0][0].from, 2,
	       "once the store can be read, it is restored from the newest");
	end();
}

/* The step ends, and its user imports another image into it. */
static void test_import_in_doubt(void)
{
	static const char store[] = "s3://bucket/prefix";
	const struct gck_import image = {.job = JOB,
					 .step = 0,
					 .seq = 9,
					 .ranks = 1,
					 .store = store};
	struct gck_error err = {0};

	begin(0);
	strcpy(f.conf.s3_store, store);
	commit_in_doubt();
	gck_join_end(&f.core, step_0());
	free(step_0()->store);
	step_0()->store = strdup(store);
	ok(all_of(gck_import_check(&f.core, &image, OWNER, &err), err.code == EBUSY),
	   "a commit in doubt: no import over it: %s", err.text);
	gck_core_note(&f.core, json_pack("{s:s, s:i}", "t", "gone", "job", JOB), true);
	is_int(gck_import_check(&f.core, &image, OWNER, &err), 0,
	       "until the doubt is resolved");
	end();
}

/* The coordinator is killed while the commit object is written, and the agents come back. */
static void test_recovery(void)
{
	begin(0);
	commit_in_doubt();
	f.unreadable = true;
	fake_crash(&f);
	fake_settle(&f);
	is_int(f.timers[0][GCK_TIMER_PHASE], 30000,
	       "running ranks have time to find their commit");
	f.unreadable = false;
	fake_disconnect(&f, &f.agents[0][0]);
	fake_settle(&f);
	ok(step_0()->commits != NULL, "then the commit is valid");
	end();
}

/* The coordinator is killed while the commit object is written, and nobody can tell it in time
 * whether it was. */
static void test_unheard(bool killed)
{
	begin(0);
	commit_in_doubt();
	f.unreadable = true;
	fake_crash(&f);
	fake_settle(&f);
	fake_timer_fires(&f, 0, GCK_TIMER_PHASE);
	fake_settle(&f);
	ok(!step_0()->intent.seq, "a commit in doubt that nobody can tell of is given up in time");
	if (killed)
		fake_crash(&f);
	fake_requeued(&f);
	fake_settle(&f);
	ok(step_0_is_held_back(), "it may be there: the job is held%s", killed ?
	   ", also by another coordinator" : "");
	f.unreadable = false;
	fake_requeued(&f);
	fake_settle(&f);
	is_int(f.agents[0][0].from, 1, "once the store can be read, it is a commit");
	end();
}

/* The step is restored from the commit before, since the store cannot be read. */
static void test_doubt_of_a_former_start(void)
{
	begin(1);
	commit_in_doubt();
	fake_requeued(&f);
	f.unreadable = true;
	fake_settle(&f);
	is_int(f.agents[0][0].from, 1, "a commit in doubt and one that is not: it is restored");
	f.unreadable = false;
	fake_crash(&f);
	fake_settle(&f);
	is_int(gck_step_newest(step_0(), 0)->seq, 1,
	       "the commit of a line that was left is none of this start's");
	end();
}

/* The connection of the agent that has written the commit object is lost, with its answer. */
static void test_unanswered_commit(void)
{
	struct gck_agent *first = &f.agents[0][0];

	begin(0);
	commit_in_doubt();
	fake_disconnect(&f, first);
	fake_connect(&f, first);
	fake_core_takes(&f, first);
	ok(all_of(first->joined, !step_0()->commits),
	   "a commit object that its agent lists is no commit before the agent has answered");
	fake_settle(&f);
	ok(step_0()->commits != NULL, "it is asked again, and answers");
	end();
}

/* ---- a coordinator that has lost its journal ----------------------------------------------- */

static bool is_held_for(const char *why)
{
	const struct gck_failures *failures = &step_0()->failures;

	return f.taken && f.held && failures->held && strstr(failures->why, why);
}

static void test_no_journal(void)
{
	begin(2);
	fake_crash_losing(&f, FAKE_JOURNAL);
	fake_requeued(&f);
	fake_settle(&f);
	is_int(f.agents[0][0].from, 2, "without its journal a step is restored from its store");
	end();
	begin(2);
	fake_crash_losing(&f, FAKE_JOURNAL);
	fake_requeued(&f);
	f.program = "q";
	fake_settle(&f);
	ok(all_of(!f.agents[0][0].from, f.agents[0][0].state == F_OVER),
	   "another program is not restored, and does not start");
	ok(is_held_for("made by another program"), "the job is requeued and held");
	end();
}

/* Its script would go on, and the job would end as if all were well. */
static void test_another_program(void)
{
	begin(2);
	fake_requeued(&f);
	f.program = "q";
	f.slurm_away = true;
	fake_settle(&f);
	ok(all_of(!f.taken, f.agents[0][0].state == F_NEW),
	   "another program than before, and Slurm is away: its ranks wait");
	f.slurm_away = false;
	while (fake_slurm_answers(&f, false))
		fake_settle(&f);
	fake_settle(&f);
	ok(is_held_for("not the step that was checkpointed"),
	   "the job is requeued and held, and the journal has the reason");
	ok(all_of(!f.agents[0][0].from, f.agents[0][0].state == F_OVER), "it does not start");
	fake_requeued(&f);
	fake_settle(&f);
	ok(is_held_for("not the step that was checkpointed"), "also when it is released");
	fake_requeued(&f);
	f.program = "p";
	fake_settle(&f);
	is_int(f.agents[0][0].from, 2, "as it was before, it is restored");
	end();
}

/* An administrator puts an older journal back while the step runs. */
static void test_older_journal(void)
{
	begin_with("keep=2", 2);
	fake_journal_copy(&f);
	for (unsigned i = 0; i < 2; i++) {
		gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
		fake_settle(&f);
	}
	fake_crash_losing(&f, FAKE_SINCE_COPY);
	is_int(step_0()->commits->seq, 2, "an older journal is put back");
	fake_settle(&f);
	is_int(step_0()->commits->seq, 4, "the step's newer commits come from its store");
	fake_requeued(&f);
	fake_settle(&f);
	is_int(f.agents[0][0].from, 4, "and the job is restored from the newest");
	end();
}

/* A journal from the middle of a checkpoint that was committed after that. Its agents come when the
 * store cannot be read: it is not the time to say that the checkpoint was aborted. */
static void test_journal_of_a_checkpoint(bool committing)
{
	begin(1);
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	for (unsigned i = 0; i < 1000 && !(committing ? step_0()->intent.committing :
					   step_0()->intent.seq > 0); i++)
		fake_deliver(&f);
	fake_journal_copy(&f);
	fake_settle(&f);
	f.unreadable = true;
	fake_crash_losing(&f, FAKE_SINCE_COPY);
	fake_settle(&f);
	fake_timer_fires(&f, 0, GCK_TIMER_PHASE);
	fake_settle(&f);
	ok(!step_0()->intent.seq, "a journal from the middle of a checkpoint%s, which is given up",
	   committing ? "'s commit" : "");
	f.unreadable = false;
	fake_disconnect(&f, &f.agents[0][0]);
	fake_settle(&f);
	is_int(step_0()->commits->seq, 2, "it was committed, as the store tells later");
	end();
}

/* The user asks for a commit, and the older journal does not have the newer one. */
static void test_asked_of_an_older_journal(void)
{
	forget_commit(FAKE_SINCE_COPY);
	f.options = "restart=1";
	fake_requeued(&f);
	fake_settle(&f);
	is_int(f.agents[0][0].from, 1, "an older journal has the commit that is asked for");
	f.unreadable = false;
	fake_disconnect(&f, &f.agents[0][0]);
	fake_settle(&f);
	ok(all_of(gck_step_commit(step_0(), 2), gck_step_newest(step_0(), 0)->seq == 1),
	   "a newer one that the store tells of later is abandoned");
	end();
}

/* The older journal is from the middle of the checkpoint before the one that ranks are held for. */
static void test_held_for_a_later_one(void)
{
	begin(0);
	commit_in_doubt();
	fake_journal_copy(&f);
	fake_settle(&f);
	gck_operation_begin(&f.core, GCK_VACATE, JOB, 0, "test", NULL, NULL);
	for (unsigned i = 0; i < 1000 && json_object_size(f.store[0]) < 2; i++)
		fake_deliver(&f);
	while (step_0()->commits->seq < 2 && fake_core_takes(&f, &f.agents[0][0]))
		continue;
	for (unsigned n = 0; n < NODES; n++)
		fake_agent_takes(&f, &f.agents[0][n]); /* that it is committed */
	ok(f.agents[0][0].held, "ranks are held for their second commit");
	fake_crash_losing(&f, FAKE_SINCE_COPY);
	for (unsigned n = 0; n < NODES; n++)
		fake_connect(&f, &f.agents[0][n]); /* before it lets go by itself */
	fake_settle(&f);
	ok(all_of(f.agents[0][0].state == F_RUNNING, !f.agents[0][0].held),
	   "a journal from the middle of the first: they go on");
	end();
}

/* The older journal does not have the requeue that the ranks are held for. */
static void test_journal_before_a_requeue(void)
{
	begin(1);
	fake_journal_copy(&f);
	gck_operation_begin(&f.core, GCK_REQUEUE, JOB, GCK_EVERY_STEP, "test", NULL, NULL);
	fake_settle(&f);
	fake_crash_losing(&f, FAKE_SINCE_COPY);
	fake_settle(&f);
	ok(f.agents[0][1].exits[2] == SIGKILL,
	   "a journal from before a requeue: held ranks end, and do not go on");
	end();
}

static void test_found_full(void)
{
	begin(0);
	commit_in_doubt();
	fake_crash(&f);
	f.journal_fails = true;
	fake_settle(&f);
	ok(step_0()->commits != NULL, "a commit in doubt is found, and the journal is full");
	fake_crash(&f);
	fake_settle(&f);
	ok(step_0()->commits != NULL, "it is found again");
	end();
}

/* The journal is lost while the first of a step's nodes are told to start from the beginning. */
static void test_half_started(void)
{
	begin(0);
	commit_in_doubt();
	json_object_set_new(f.store[0], "1", json_string("00000000000000000000000100000000"));
	fake_requeued(&f);
	for (unsigned n = 1; n < NODES; n++)
		f.agents[0][n].cut_off = true;
	fake_settle(&f);
	f.agents[0][0].state = F_RUNNING;
	fake_crash_losing(&f, FAKE_JOURNAL);
	for (unsigned n = 1; n < NODES; n++)
		f.agents[0][n].cut_off = false;
	fake_timer_fires(&f, 0, GCK_TIMER_PHASE);
	fake_settle(&f);
	fake_timer_fires(&f, 0, GCK_TIMER_PHASE);
	fake_settle(&f);
	ok(all_of(f.taken, !f.held, strstr(step_0()->live->last_error, "run on node n0, but not")),
	   "ranks run, the others wait, and the journal is lost: the job is requeued (%s)",
	   step_0()->live->last_error);
	fake_requeued(&f);
	fake_settle(&f);
	is_int(f.agents[0][0].from, 1, "and restored");
	end();
}

static void test_no_numbers_since(void)
{
	forget_commit(FAKE_SINCE_COPY);
	fake_settle(&f);
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_settle(&f);
	is_int(step_0()->last_seq, 1, "an older journal and no store: no number is given twice");
	end();
}

static void test_no_numbers(void)
{
	begin(2);
	f.unreadable = true;
	fake_crash_losing(&f, FAKE_JOURNAL);
	fake_settle(&f);
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_settle(&f);
	is_int(step_0()->last_seq, 0, "neither journal nor store: no sequence number is used");
	f.unreadable = false;
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_settle(&f);
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_settle(&f);
	ok(json_object_get(f.store[0], "3") != NULL, "with the store the next number is used");
	end();
}

/* ---- a restart that its agents take for a first start -------------------------------------- */

static void forget_count(void)
{
	for (unsigned n = 0; n < NODES; n++)
		f.agents[0][n].restarts = 0;
}

static void test_no_count(void)
{
	begin(1);
	fake_requeued(&f);
	forget_count();
	fake_settle(&f);
	is_int(f.agents[0][0].from, 1,
	       "a script without SLURM_RESTART_COUNT is restored like others");
	fake_crash(&f);
	fake_settle(&f);
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_settle(&f);
	ok(json_object_get(f.store[0], "2") != NULL, "the step is known when its agents come back");
	end();
	begin(0);
	fake_requeued(&f);
	forget_count();
	fake_settle(&f);
	ok(all_of(f.agents[0][0].state == F_RUNNING, !f.agents[0][0].from),
	   "without a commit the step starts from the beginning");
	end();
}

/* ---- what cannot be built ------------------------------------------------------------------ */

static void restart(int no_build)
{
	fake_requeued(&f);
	f.agents[0][1].no_build = no_build;
	fake_settle(&f);
}

static void test_fallback(void)
{
	begin(2);
	f.damaged[0] = 2;
	restart(0);
	is_int(f.agents[0][0].from, 1, "a damaged commit: all ranks run from the previous one");
	restart(0);
	is_int(f.agents[0][0].from, 1, "and never from the damaged one");
	end();
}

static void test_fallback_imported(void)
{
	begin_with("keep=3", 3);
	gck_step_commit(step_0(), 2)->imported = true;
	f.damaged[0] = 3;
	restart(0);
	is_int(f.agents[0][0].from, 1, "an imported commit is not used as the previous one");
	end();
}

/* What a first start is refused for: the job's script must not go on without the step. */
static void test_first_start_refused(void)
{
	begin_with("restart=9", 0);
	ok(step_0_is_held_back() && is_held_for("step 7.0 has no commit 9: it has none in "),
	   "a first start from a commit that is not there: the job is held");
	end();
	fake_begin(&f, 1);
	f.options = "restart=9";
	f.no_requeue = true;
	fake_settle(&f);
	ok(all_of(!f.taken, strstr(f.said, "job 7 was submitted with --no-requeue, so it is not "
					   "held: its script goes on") == f.said),
	   "with --no-requeue it is not held, and told that its script goes on");
	end();
}

static void test_fallback_asked(void)
{
	begin_with("restart=9:1", 2);
	f.damaged[0] = 2;
	restart(0);
	is_int(f.agents[0][0].from, 1,
	       "a job that began from another job's commit falls back to its own");
	end();
	begin(2);
	f.damaged[0] = 2;
	f.options = "restart=2";
	restart(0);
	ok(step_0_is_held_back(), "restart=SEQ: no fallback to another commit");
	end();
	begin(2);
	f.options = "restart=9";
	restart(0);
	ok(step_0_is_held_back() && is_held_for("step 7.0 has no commit 9: it has 2, 1 in "),
	   "restart=SEQ of a commit that is not there: the job is held, and told what is");
	end();
}

static void test_try_again(void)
{
	begin(2);
	restart(EREMOTEIO);
	ok(all_of(f.taken, !f.held, !f.agents[0][0].from),
	   "a store fails: the job is requeued, not held");
	restart(0);
	is_int(f.agents[0][0].from, 2, "and is restored from its newest commit");
	end();
	begin(2);
	for (unsigned i = 0; i < 5; i++) {
		restart(EREMOTEIO);
		ok(all_of(f.taken, !f.held, f.agents[0][0].built == 2),
		   "the store fails: attempt %u is requeued, and was for the newest commit", i + 1);
	}
	restart(EREMOTEIO);
	ok(step_0_is_held_back(), "the sixth attempt is held");
	end();
}

/* ---- restarts that fail again and again ------------------------------------------------------ */

#define STATUS_1 (1 << 8)

/* A rank of node 1 ends; then the step on all nodes. */
static void crash(int status)
{
	fake_rank_ends(&f, &f.agents[0][1], status);
	fake_settle(&f);
	for (unsigned n = 0; n < NODES; n++)
		if (f.agents[0][n].state == F_RUNNING)
			fake_all_end(&f, &f.agents[0][n], status ? SIGKILL : 0);
	fake_settle(&f);
}

static uint32_t crash_again(unsigned times, int status)
{
	uint32_t from = 0;

	for (unsigned i = 0; i < times; i++) {
		restart(0);
		from = f.agents[0][0].from;
		crash(status);
	}
	return from;
}

/* The coordinator shortens its journal and is started again. */
static void start_anew(void)
{
	ok(f.core.world->rewrite(&f.core, NULL) == 0, "the journal is compacted");
	fake_crash(&f);
}

static void test_no_build_again(void)
{
	begin(2);
	for (unsigned i = 0; i < 3; i++) {
		restart(EIO);
		ok(all_of(f.taken, !f.held, f.agents[0][0].built == 2),
		   "no rank is built: attempt %u is for the newest commit", i + 1);
	}
	start_anew();
	restart(0);
	is_int(f.agents[0][0].from, 1, "after three the commit before is used");
	end();
	begin(1);
	restart(EIO);
	restart(EIO);
	ok(all_of(f.taken, !f.held), "there is none before: two attempts are requeued");
	restart(EIO);
	ok(step_0_is_held_back(), "the third is held");
	ok(all_of(step_0()->failures.held, strstr(step_0()->failures.why, "it failed")),
	   "the journal has the reason");
	restart(0);
	is_int(f.agents[0][0].from, 1, "a job that is released tries again");
	ok(!step_0()->failures.held, "and is held no longer");
	end();
}

static void test_crashes(void)
{
	begin(2);
	is_int(crash_again(3, SIGSEGV), 2,
	       "a program that crashes is restored from its last commit");
	is_int(crash_again(3, STATUS_1), 1, "after three crashes from the commit before");
	start_anew();
	restart(0);
	ok(step_0_is_held_back(), "after three more the job is held, also by a new coordinator");
	ok(strstr(step_0()->failures.why, "ended with status 1") != NULL, "the reason: %s",
	   step_0()->failures.why);
	is_int(crash_again(3, SIGSEGV), 1, "a job that is released starts from where it was");
	restart(0);
	ok(step_0_is_held_back(), "and is held again after three: no commit is left");
	end();
}

static bool is_asked_for_requeue(void)
{
	return f.nslurm &&
	       !strcmp(json_string_value(json_object_get(f.slurm[0].request, "op")), "requeue");
}

/* Slurm kills the step before its answer comes. */
static void test_held_after_the_end(void)
{
	begin(1);
	crash_again(3, SIGSEGV);
	fake_requeued(&f);
	for (unsigned i = 0; i < 1000 && !is_asked_for_requeue(); i++) {
		struct gck_agent *a = &f.agents[0][i % NODES];

		fake_slurm_answers(&f, true);
		fake_connect(&f, a);
		fake_core_takes(&f, a);
		fake_agent_takes(&f, a);
	}
	for (unsigned n = 0; n < NODES; n++) {
		gck_answer_bye(&f.core, step_0(), &step_0()->live->nodes[n]);
		fake_disconnect(&f, &f.agents[0][n]);
		fake_agent_end(&f.agents[0][n]);
	}
	fake_slurm_answers(&f, true);
	ok(is_held_for("killed by signal"), "a step that ends before Slurm answers is held too");
	is_int(crash_again(3, SIGSEGV), 1, "a job that is released starts from where it was");
	end();
}

static void test_crash_asked(void)
{
	begin(2);
	f.options = "restart=2";
	is_int(crash_again(3, SIGSEGV), 2, "restart=SEQ: three crashes");
	restart(0);
	ok(step_0_is_held_back(), "no other commit is used: the job is held");
	end();
	begin(0);
	f.options = "restart=9:1";
	is_int(crash_again(3, SIGSEGV), 1, "a commit of another job: three crashes");
	restart(0);
	ok(step_0_is_held_back(), "the job is held");
	end();
}

static void test_few_crashes(void)
{
	begin(2);
	f.conf.restart_failures = 1;
	crash_again(1, SIGSEGV);
	restart(0);
	is_int(f.agents[0][0].from, 1, "RestartFailures=1: the commit before after one crash");
	end();
}

/* The step is not to blame for its end. */
static void test_no_crash(void)
{
	begin(2);
	crash_again(2, SIGSEGV);
	restart(0);
	fake_pass(61000);
	crash(SIGSEGV);
	is_int(step_0()->failures.all, 2, "an end after RestartFailureTime is no failure");
	crash_again(1, SIGTERM);
	is_int(step_0()->failures.all, 2, "nor is an end by SIGTERM");
	restart(0);
	fake_agent_dies(&f, &f.agents[0][2]);
	crash(SIGSEGV);
	is_int(step_0()->failures.all, 2, "nor one after an agent was lost with its node");
	crash_again(1, 0);
	is_int(step_0()->failures.all, 2, "nor a good end of a rank");
	end();
	begin(1);
	restart(0);
	gck_operation_begin(&f.core, GCK_REQUEUE, JOB, 0, "test", NULL, NULL);
	for (unsigned i = 0; i < 1000 && !f.taken; i++)
		fake_deliver(&f);
	crash(SIGSEGV);
	is_int(step_0()->failures.all, 0, "nor one of a job that is being requeued");
	end();
}

static void test_come_further(void)
{
	begin(2);
	crash_again(2, SIGSEGV);
	restart(0);
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_settle(&f);
	is_int(step_0()->failures.all, 0, "a new commit: no failures");
	crash(SIGSEGV);
	is_int(step_0()->failures.all, 0, "a step that has come further has not failed");
	is_int(crash_again(3, SIGSEGV), 3, "three crashes from the new commit");
	restart(0);
	is_int(f.agents[0][0].from, 2, "then the one before is used");
	end();
}

/* Ranks are killed with their agents, which say no more than the first end. */
static void test_crash_unsaid(void)
{
	begin(2);
	restart(0);
	fake_rank_ends(&f, &f.agents[0][1], SIGSEGV);
	fake_core_takes(&f, &f.agents[0][1]);
	for (unsigned n = 0; n < NODES; n++)
		fake_disconnect(&f, &f.agents[0][n]);
	is_int(step_0()->failures.all, 1, "a crash after which the agents are killed counts");
	end();
}

/* The node's agent does not complete the build. */
static void test_stall(void)
{
	begin(2);
	fake_requeued(&f);
	for (unsigned i = 0; i < 1000 && !f.agents[0][1].built; i++)
		fake_deliver(&f);
	while (f.agents[0][1].out.n)
		json_decref(fake_pop(&f.agents[0][1].out));
	fake_settle(&f);
	ok(fake_timer_fires(&f, 0, GCK_TIMER_PHASE), "a silent node is not awaited for ever");
	fake_settle(&f);
	ok(all_of(f.taken, !f.held, !f.agents[0][0].from), "the job is requeued, not held");
	end();
}

static void test_slurm_away(void)
{
	begin(1);
	f.damaged[0] = 1;
	f.slurm_away = true;
	restart(0);
	ok(all_of(!f.taken, f.agents[0][0].state == F_RESTORING),
	   "no commit to restore and slurmctld away: the ranks wait");
	ok(fake_timer_fires(&f, 0, GCK_TIMER_PHASE), "slurmctld is asked again");
	fake_settle(&f);
	ok(all_of(!f.taken, f.agents[0][0].state == F_RESTORING), "and a third time");
	f.slurm_away = false;
	fake_timer_fires(&f, 0, GCK_TIMER_PHASE);
	fake_settle(&f);
	ok(all_of(step_0_is_held_back(), f.agents[0][0].state == F_OVER),
	   "until it requeues the job and the ranks end");
	end();
}

static void restart_no_run(int no_run)
{
	fake_requeued(&f);
	f.agents[0][1].no_run = no_run;
	fake_settle(&f);
}

/* Device memory is read only when the ranks run. */
static void test_found_late(void)
{
	begin(2);
	restart_no_run(EBADMSG);
	ok(all_of(f.taken, !f.held),
	   "damage found when the ranks run: the job is requeued, not held");
	fake_crash(&f);
	restart(0);
	is_int(f.agents[0][0].from, 1,
	       "and goes on from the previous commit, also after a coordinator restart");
	end();
	begin(2);
	restart_no_run(EIO);
	ok(all_of(f.taken, !f.held), "another failure: the job is requeued");
	restart(0);
	is_int(f.agents[0][0].from, 2, "the same commit is tried again");
	end();
	begin(1);
	restart_no_run(EBADMSG);
	ok(all_of(f.taken, f.held), "no previous commit: the job is held");
	end();
	begin(2);
	f.options = "restart=2";
	restart_no_run(EBADMSG);
	ok(all_of(f.taken, f.held), "restart=SEQ: the job is held");
	end();
}

/* ---- what an agent says of it ---------------------------------------------------------------- */

static bool is_at(enum gck_phase phase)
{
	return step_0()->live && step_0()->live->phase == phase;
}

/* Characters of two bytes: with one of the two prefix lengths the text is cut inside a
 * character. */
static const char *long_text(unsigned prefix)
{
	static char text[600];

	memset(text, 'x', prefix);
	text[prefix] = '\0';
	while (strlen(text) + 3 < sizeof text)
		strcat(text, "\xc3\xa9");
	return text;
}

/* Node 1 reports that it failed, with the reason. */
static void restart_fails(int code, const char *text)
{
	struct gck_agent *a = &f.agents[0][1];

	fake_requeued(&f);
	for (unsigned i = 0; i < 1000 && !is_at(GCK_BUILDING); i++)
		fake_deliver(&f);
	fake_refuses(&f, 0, step_0()->live->plan.seq);
	fake_say(a,
		 json_pack("{s:s, s:s, s:i, s:b, s:s, s:i}", "op", "done", "phase", "build", "seq",
			   (int)step_0()->live->plan.seq, "ok", 0, "error", text, "code", code));
	while (a->out.n)
		fake_core_takes(&f, a);
}

/* The reason in the order to the agent, which has not taken the message. */
static size_t length_of_why(const struct gck_agent *a, const char *op)
{
	for (unsigned i = 0; i < a->in.n; i++)
		if (!strcmp(json_string_value(json_object_get(a->in.messages[i], "op")), op))
			return json_string_length(json_object_get(a->in.messages[i], "why"));
	return 0;
}

static void test_long_reason(void)
{
	for (unsigned prefix = 0; prefix < 2; prefix++) {
		begin(2);
		restart_fails(EBADMSG, long_text(prefix));
		ok(length_of_why(&f.agents[0][0], "fallback") > 470,
		   "a long reason why a commit was not built is cut and reported");
		fake_settle(&f);
		is_int(f.agents[0][0].from, 1, "the previous commit is restored");
		end();
		begin(1);
		restart_fails(EIO, long_text(prefix));
		fake_settle(&f);
		ok(all_of(f.taken, !f.held), "Slurm is asked to requeue the job, with the reason");
		end();
	}
}

/* ---- an agent that comes back ---------------------------------------------------------------- */

/* Run until the coordinator has sent the order and no agent has acted on it. */
static void reach(enum gck_phase phase)
{
	begin(1);
	fake_requeued(&f);
	for (unsigned i = 0; i < 1000 && !is_at(phase); i++) {
		struct gck_agent *a = &f.agents[0][i % NODES];

		fake_slurm_answers(&f, true);
		fake_connect(&f, a);
		while (!is_at(phase) && (fake_core_takes(&f, a) || fake_agent_takes(&f, a)))
			;
	}
}

static void test_comes_back(void)
{
	static const enum gck_phase phases[] = {GCK_BUILDING, GCK_FILING, GCK_STARTING};

	for (unsigned i = 0; i < 3; i++) {
		reach(phases[i]);
		fake_disconnect(&f, &f.agents[0][1]);
		fake_settle(&f);
		ok(f.agents[0][1].from == 1, "%s: a lost connection is made again",
		   gck_phase_name(phases[i]));
		ok(step_0()->live->phase == GCK_IDLE, "and the restart goes on");
		end();
	}
}

static void test_dies_restoring(void)
{
	static const enum gck_phase phases[] = {GCK_FILING, GCK_STARTING};

	for (unsigned i = 0; i < 2; i++) {
		reach(phases[i]);
		fake_agent_dies(&f, &f.agents[0][1]);
		fake_settle(&f);
		ok(all_of(f.taken, !f.held),
		   "%s: an agent dies: the job is requeued, not held",
		   gck_phase_name(phases[i]));
		end();
	}
}

/* Its report that the ranks run is lost with it. */
static void test_dies_running(void)
{
	reach(GCK_STARTING);
	while (f.agents[0][2].state != F_RUNNING)
		fake_agent_takes(&f, &f.agents[0][2]);
	fake_agent_dies(&f, &f.agents[0][2]);
	fake_settle(&f);
	ok(all_of(!f.taken, step_0()->live->phase == GCK_IDLE),
	   "an agent dies after the release of its ranks: they run");
	end();
}

/* One node's agent connects while a checkpoint of the others is under way. */
static void test_late(void)
{
	fake_begin(&f, 1);
	for (unsigned i = 0; i < 3; i++)
		for (unsigned n = 0; n < 2; n++) {
			fake_connect(&f, &f.agents[0][n]);
			fake_core_takes(&f, &f.agents[0][n]);
			fake_agent_takes(&f, &f.agents[0][n]);
		}
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	is_int(step_0()->live->phase, GCK_CALLING,
	       "a checkpoint waits for an agent that is not connected yet");
	fake_settle(&f);
	ok(all_of(f.agents[0][2].state == F_RUNNING, json_object_get(f.store[0], "1")),
	   "it connects, starts its ranks, and takes part");
	end();
}

/* ---- a full journal ------------------------------------------------------------------------ */

static void test_journal_full(void)
{
	begin(1);
	f.journal_fails = true;
	restart(0);
	ok(all_of(!f.agents[0][0].refused, f.agents[0][0].state == F_NEW),
	   "the journal is full: a restart waits");
	f.journal_fails = false;
	fake_settle(&f);
	is_int(f.agents[0][0].from, 1, "and goes on when there is space");
	end();
	begin(1);
	fake_requeued(&f);
	for (unsigned i = 0; i < 1000 && !f.agents[0][2].built; i++)
		fake_deliver(&f);
	f.journal_fails = true;
	fake_settle(&f);
	ok(all_of(!f.agents[0][0].filed, !f.taken),
	   "full when all have built: no file is truncated");
	f.journal_fails = false;
	fake_timer_fires(&f, 0, GCK_TIMER_PHASE);
	fake_settle(&f);
	is_int(f.agents[0][0].from, 1, "and the ranks run when there is space");
	end();
}

/* ---- a former start that Slurm has not ended ------------------------------------------------- */

/* Step 0 was restarted; its ranks on one node of the former start run on. */
static struct gck_agent *begin_left_behind(bool cut_off)
{
	begin(1);
	for (unsigned n = 0; n < NODES; n++)
		fake_disconnect(&f, &f.agents[0][n]);
	f.remnants[0][1] = f.agents[0][1];
	f.remnants[0][1].cut_off = cut_off;
	fake_pass(-SLURMD_TIMEOUT_S * 1000); /* which fake_requeued() lets pass */
	fake_requeued(&f);
	return &f.remnants[0][1];
}

static void test_confirmed(void)
{
	const struct gck_agent *former = begin_left_behind(false);

	fake_settle(&f);
	ok(former->state == F_OVER, "an agent of the former start is told to end its ranks");
	ok(f.agents[0][0].state != F_RUNNING,
	   "the newest start still waits for the other nodes of the former");
	fake_timer_fires(&f, 0, GCK_TIMER_PHASE);
	fake_settle(&f);
	is_int(f.agents[0][0].from, 1, "and starts when they are isolated");
	end();
}

/* The coordinator itself drops the agent of a former start's last node: it was heard until then. */
static void test_dropped(void)
{
	struct gck_agent *former = &f.remnants[0][0];

	forget_commit(FAKE_JOURNAL);
	fake_settle(&f);
	for (unsigned n = 0; n < NODES; n++) {
		struct gck_agent *a = &f.agents[0][n];

		if (n > 0)
			gck_answer_bye(&f.core, step_0(), gck_live_node(step_0(), a));
		fake_disconnect(&f, a);
	}
	*former = f.agents[0][0];
	fake_requeued(&f);
	fake_connect(&f, former);
	fake_core_takes(&f, former);
	fake_pass(10 * ISOLATED_MS);
	former->cut_off = true;
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	f.unreadable = false;
	fake_settle(&f);
	ok(all_of(fake_still_runs(former), f.agents[0][0].state == F_NEW),
	   "the agent of a former start was dropped: the newest waits");
	fake_timer_fires(&f, 0, GCK_TIMER_PHASE);
	fake_settle(&f);
	is_int(f.agents[0][0].state, F_RUNNING, "until the node is isolated");
	fake_end(&f);
}

static void test_isolated(void)
{
	json_t *text;

	begin_left_behind(true);
	fake_settle(&f);
	ok(f.agents[0][0].state == F_NEW && step_0()->live->fenced,
	   "a former start may run on a node: the newest waits");
	text = gck_remnants_text(step_0()->job, 12345);
	ok(strstr(json_string_value(text), "node n0 and others") &&
	   strstr(json_string_value(text), "13 s at most"),
	   "the reason and the time left: %s", json_string_value(text));
	json_decref(text);
	fake_crash(&f);
	fake_pass(-SLURMD_TIMEOUT_S * 1000);
	fake_settle(&f);
	ok(f.agents[0][0].state == F_NEW, "also for a coordinator that was restarted");
	fake_timer_fires(&f, 0, GCK_TIMER_PHASE);
	fake_settle(&f);
	is_int(f.agents[0][0].from, 1, "when the nodes are isolated, it starts");
	end();
}

/* The agents say bye as Slurm ends the job. */
static void test_ended(void)
{
	begin(1);
	for (unsigned n = 0; n < NODES; n++)
		gck_answer_bye(&f.core, step_0(), &step_0()->live->nodes[n]);
	fake_pass(-SLURMD_TIMEOUT_S * 1000);
	fake_requeued(&f);
	fake_settle(&f);
	is_int(f.agents[0][0].from, 1, "a former start that Slurm has ended is not waited for");
	end();
}

static void requeue_at_once(void)
{
	fake_requeued(&f);
	fake_pass(-SLURMD_TIMEOUT_S * 1000); /* which that let pass */
	fake_settle(&f);
}

/* After Slurm has ended all ranks. */
static void requeue_ended(void)
{
	for (unsigned s = 0; s < STEPS; s++)
		for (unsigned n = 0; n < NODES; n++)
			gck_answer_bye(&f.core, gck_state_step(&f.core.state, JOB, s),
				       &gck_state_step(&f.core.state, JOB, s)->live->nodes[n]);
	requeue_at_once();
}

/* The coordinator does not know of them. */
static void test_unknown(enum fake_loss loss, const char *name)
{
	json_t *text;

	fake_begin(&f, 1);
	fake_journal_copy(&f);
	fake_settle(&f);
	for (unsigned n = 0; n < NODES; n++)
		fake_disconnect(&f, &f.agents[0][n]);
	f.remnants[0][1] = f.agents[0][1];
	f.remnants[0][1].cut_off = true;
	f.leaves = 1; /* no time passes */
	fake_crash_losing(&f, loss);
	f.leaves = 0;
	fake_pass(2000);
	requeue_at_once();
	ok(f.agents[0][0].state == F_NEW && step_0()->live->fenced,
	   "%s: ranks of a former start that it does not know are waited for", name);
	text = gck_remnants_text(step_0()->job, 12345);
	ok(strstr(json_string_value(text), "may not know") &&
	   strstr(json_string_value(text), "13 s at most"),
	   "the reason and the time left: %s", json_string_value(text));
	json_decref(text);
	for (unsigned s = 0; s < STEPS; s++)
		fake_timer_fires(&f, s, GCK_TIMER_PHASE);
	fake_settle(&f);
	ok(f.agents[0][0].state == F_RUNNING, "when they are isolated, it starts");
	requeue_ended();
	ok(f.agents[0][0].state == F_RUNNING, "the start after that waits for none");
	end();
}

/* The journal was new when the coordinator was first started, and the job began after that. */
static void test_none_unknown(void)
{
	fake_begin(&f, 1);
	fake_journal_copy(&f);
	fake_crash_losing(&f, FAKE_SINCE_COPY);
	f.submit = f.core.state.doubt + 1;
	fake_settle(&f);
	fake_crash(&f);
	fake_settle(&f);
	requeue_ended();
	ok(f.agents[0][0].state == F_RUNNING,
	   "a coordinator that was restarted with its journal waits for none that it does not "
	   "know");
	end();
}

/* Another job has the number. */
static void test_not_of_another_job(void)
{
	begin_left_behind(true);
	fake_settle(&f);
	f.restarts = 0;
	for (unsigned n = 0; n < NODES; n++) {
		fake_disconnect(&f, &f.agents[0][n]);
		fake_agent_begin(&f, 0, n);
		f.agents[0][n].cut_off = false;
	}
	fake_settle(&f);
	ok(f.agents[0][0].state == F_RUNNING, "another job with its number waits for nothing");
	fake_end(&f);
}

static void create(void)
{
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_settle(&f);
}

static void start_again(void)
{
	fake_requeued(&f);
	fake_settle(&f);
}

/* slurmctld was killed and has lost the last requeues of the job, whose last start goes on. */
static void test_counted_again(unsigned lost)
{
	begin(1);
	for (unsigned i = 0; i < lost; i++)
		start_again();
	create();
	f.restarts -= lost;
	for (unsigned i = 0; i < lost; i++) {
		start_again();
		ok(all_of(f.taken, !f.held, f.agents[0][0].state != F_RUNNING),
		   "Slurm counts a start again: nothing runs, and Slurm is to requeue the job");
	}
	start_again();
	is_int(f.agents[0][0].from, 2, "the first that is not is restored from the newest commit");
	end();
}

/* slurmctld was killed and has lost that the job's last start began, whose ranks Slurm ends. */
static void test_begins_again(void)
{
	json_int_t submit;

	begin(1);
	start_again();
	create();
	submit = f.submit;
	for (unsigned n = 0; n < NODES; n++)
		gck_answer_bye(&f.core, step_0(), gck_live_node(step_0(), &f.agents[0][n]));
	f.restarts--;
	fake_requeued(&f);
	f.submit = submit;
	fake_settle(&f);
	ok(all_of(f.taken, !f.held, f.agents[0][0].state != F_RUNNING),
	   "a start begins again: nothing runs, and Slurm is to requeue the job");
	start_again();
	is_int(f.agents[0][0].from, 2, "the next one is restored from the newest commit");
	is_int(gck_step_ended(step_0()), 0, "and none of its ranks counts as ended");
	end();
}

/* Its ranks are held to be requeued, which Slurm has not done. */
static void test_count_too_low(void)
{
	begin(0);
	start_again();
	create();
	f.restarts--;
	for (unsigned n = 0; n < NODES; n++) {
		struct gck_agent *a = &f.agents[0][n];

		fake_disconnect(&f, a);
		a->held = a->leaves = true;
		a->seq = 1;
		fake_connect(&f, a);
	}
	fake_settle(&f);
	ok(gck_step_commit(step_0(), 1) && step_0()->restarts == 1,
	   "Slurm has lost the count of a start, and is asked about it: its commits stay");
	fake_end(&f);
}

int main(void)
{
	gck_log_open("restarts", "/dev/null", GCK_LOG_ERROR);
	test_in_doubt();
	test_import_in_doubt();
	test_nothing_known(FAKE_SINCE_COPY, "an older journal");
	test_nothing_known(FAKE_JOURNAL, "a lost journal");
	test_recovery();
	test_unheard(false);
	test_unheard(true);
	test_doubt_of_a_former_start();
	test_unanswered_commit();
	test_no_journal();
	test_another_program();
	test_older_journal();
	test_journal_of_a_checkpoint(false);
	test_journal_of_a_checkpoint(true);
	test_asked_of_an_older_journal();
	test_held_for_a_later_one();
	test_journal_before_a_requeue();
	test_found_full();
	test_half_started();
	test_no_numbers();
	test_no_numbers_since();
	test_no_count();
	test_fallback();
	test_fallback_imported();
	test_first_start_refused();
	test_fallback_asked();
	test_try_again();
	test_no_build_again();
	test_crashes();
	test_held_after_the_end();
	test_crash_asked();
	test_few_crashes();
	test_no_crash();
	test_come_further();
	test_crash_unsaid();
	test_found_late();
	test_stall();
	test_slurm_away();
	test_long_reason();
	test_comes_back();
	test_dies_restoring();
	test_dies_running();
	test_late();
	test_journal_full();
	test_confirmed();
	test_isolated();
	test_dropped();
	test_ended();
	test_unknown(FAKE_SINCE_COPY, "an older journal");
	test_unknown(FAKE_JOURNAL, "a lost journal");
	test_none_unknown();
	test_not_of_another_job();
	test_counted_again(1);
	test_counted_again(2);
	test_begins_again();
	test_count_too_low();
	return tap_done();
}

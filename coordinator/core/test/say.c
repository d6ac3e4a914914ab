/* SPDX-License-Identifier: Apache-2.0
 * What the user of a step is told in its output. */
#include <errno.h>
#include <string.h>

#include "coordinator/core/operations/operation.h"
#include "coordinator/core/test/one_step.h"

static void begin(const char *options, bool no_requeue)
{
	fake_begin(&f, 1);
	f.options = options;
	f.no_requeue = no_requeue;
	fake_settle(&f);
}

static void create(void)
{
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_settle(&f);
}

/* A checkpoint begins, and a node fails with this reason. */
static void fail(const char *reason)
{
	struct gck_agent *a = &f.agents[0][1];

	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_say(a, json_pack("{s:s, s:s, s:i, s:b, s:s, s:i}", "op", "done", "phase", "prepare",
			      "seq", (int)step_0()->live->checkpoint.seq, "ok", 0, "error", reason,
			      "code", EBUSY));
	while (a->out.n)
		fake_core_takes(&f, a);
	fake_settle(&f);
}

static void test_failed(void)
{
	begin("interval=30m", false);
	is_int(f.lines, 0, "nothing is said of a step that starts");
	fail("rank 1: a listening socket");
	ok(strstr(f.said, "step 7.0: checkpoint 1 has failed: ") == f.said &&
	   strstr(f.said, "rank 1: a listening socket"),
	   "a checkpoint that fails is told, with the reason");
	fail("rank 1: a listening socket");
	is_int(f.lines, 1, "the same reason is told once");
	fail("rank 1: a child process");
	is_int(f.lines, 2, "another one is told");
	ok(strstr(step_0()->live->last_error, "a child process") != NULL, "status has it");
	create();
	is_str(step_0()->live->last_error, "", "until a commit");
	is_int(f.lines, 2, "nothing is said of a commit");
	fail("rank 1: a child process");
	is_int(f.lines, 3, "after a commit the same reason is told again");
	end();
}

static void test_restored(void)
{
	begin("interval=30m", false);
	create();
	fake_requeued(&f);
	fake_settle(&f);
	ok(strstr(f.said, "step 7.0 is restored from checkpoint 1 of ") == f.said &&
	   strstr(f.said, ", on n0 and 2 more"), "a restart is told, with commit and node");
	is_int(f.lines, 1, "once");
	end();
}

#define MIB (1 << 20)

static void node_says(unsigned node, json_t *body)
{
	struct gck_agent *a = &f.agents[0][node];

	fake_say(a, body);
	while (a->out.n)
		fake_core_takes(&f, a);
}

static void progress(unsigned node, int done_mib, int all_mib)
{
	node_says(node, json_pack("{s:s, s:i, s:s, s:i, s:i}", "op", "progress", "seq", 1, "phase",
				  "build", "done", done_mib * MIB, "all", all_mib * MIB));
}

/* The first node hears what is said. */
static void slow_due(void)
{
	fake_timer_fires(&f, 0, GCK_TIMER_SLOW);
	while (fake_agent_takes(&f, &f.agents[0][0]))
		;
}

static void build_begins(const char *options)
{
	begin(options, false);
	create();
	fake_requeued(&f);
	for (unsigned i = 0; i < NODES; i++) {
		fake_connect(&f, &f.agents[0][i]);
		fake_core_takes(&f, &f.agents[0][i]);
	}
}

static void test_slow(void)
{
	build_begins("interval=30m");
	progress(0, 0, 100);
	progress(1, 50, 100);
	slow_due();
	is_int(f.lines, 0, "a slow restart: nothing is said while a node's size is not known");
	node_says(2, json_pack("{s:s, s:s, s:i, s:b, s:{s:i}}", "op", "done", "phase", "build",
			       "seq", 1, "ok", 1, "data", "bytes", 200 * MIB));
	slow_due();
	is_str(f.said, "step 7.0: restoring from checkpoint 1: 62 % of 400.0 MiB, 12 s left",
	       "then its percent counts nodes that wait and nodes that are done");
	ok(!fake_timer_fires(&f, 0, GCK_TIMER_SLOW), "it is said once");
	fake_settle(&f);
	is_int(f.lines, 2, "beside the line at the end");
	end();
	build_begins("interval=30m");
	fake_settle(&f);
	slow_due();
	is_int(f.lines, 1, "nothing is said of a restart that has ended");
	end();
	build_begins("interval=30m,quiet=yes");
	for (unsigned i = 0; i < 3; i++)
		progress(i, 50, 100);
	slow_due();
	is_int(f.lines, 0, "with quiet=yes nothing is said");
	end();
}

static bool is_told_held(void)
{
	return strstr(f.said, "job 7 is to be requeued and held, since it cannot be restored: ") ==
	       f.said;
}

static void test_held(void)
{
	begin("interval=30m", false);
	create();
	f.damaged[0] = 1;
	fake_requeued(&f);
	fake_settle(&f);
	ok(is_told_held(), "a job that is held is told, with the reason");
	end();
	begin("restart=9", false);
	ok(is_told_held(), "also if none of its ranks was built");
	end();
}

static void test_no_requeue(void)
{
	begin("interval=30m", true);
	ok(strstr(f.said, "job 7 was submitted with --no-requeue") == f.said,
	   "--no-requeue is told");
	is_int(f.lines, 1, "once for all steps of the job");
	end();
}

static void test_quiet(void)
{
	begin("interval=30m,quiet=yes", false);
	fail("rank 1: a child process");
	create();
	fake_requeued(&f);
	fake_settle(&f);
	is_int(f.lines, 0, "with quiet=yes nothing is said");
	end();
}

int main(void)
{
	test_failed();
	test_restored();
	test_slow();
	test_held();
	test_no_requeue();
	test_quiet();
	return tap_done();
}

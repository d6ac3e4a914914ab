/* SPDX-License-Identifier: Apache-2.0
 * Ranks that ask for a checkpoint of their step: how many checkpoints are taken, and what the ranks
 * are told. */
#include <errno.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/operations/rank_request.h"
#include "coordinator/core/test/one_step.h"

static void begin(void)
{
	fake_begin(&f, 1);
	fake_settle(&f);
}

static void ask(unsigned node, unsigned id, bool one, unsigned all)
{
	json_t *body = json_pack("{s:i, s:i, s:b, s:i}", "id", (int)id, "rank", (int)node, "one",
				 one, "all", (int)all);

	gck_ask(&f.core, step_0(), &step_0()->live->nodes[node], body);
	json_decref(body);
}

/* A member of the last `asked` that was sent to a node. */
static json_int_t asked(unsigned node, const char *member)
{
	return json_integer_value(json_object_get(f.agents[0][node].asked, member));
}

static const char *error_of(unsigned node)
{
	const char *text = json_string_value(json_object_get(f.agents[0][node].asked, "error"));

	return text ? text : "";
}

static unsigned commits(void)
{
	unsigned n = 0;

	for (const struct gck_commit *c = step_0()->commits; c; c = c->older)
		n++;
	return n;
}

/* Deliver messages until step 0 is in this phase. */
static bool reaches(enum gck_phase phase)
{
	for (unsigned i = 0; i < 200 && step_0()->live->phase != phase; i++)
		for (unsigned n = 0; n < NODES; n++) {
			fake_agent_takes(&f, &f.agents[0][n]);
			if (step_0()->live->phase == phase)
				return true;
			fake_core_takes(&f, &f.agents[0][n]);
			if (step_0()->live->phase == phase)
				return true;
		}
	return step_0()->live->phase == phase;
}

static void test_one(void)
{
	begin();
	ask(1, 1, true, 0);
	ask(1, 1, true, 0);
	ask(2, 1, true, 0);
	is_str(step_0()->live->checkpoint.reason, "asked by rank 1", "a checkpoint begins");
	ok(reaches(GCK_WRITING), "it reaches the write");
	ask(0, 1, true, 0);
	fake_settle(&f);
	is_int(commits(), 1, "ranks that ask while it is under way join it");
	ok(!f.agents[0][1].asked, "no agent gets an answer: all know the commits");
	ask(0, 1, true, 0);
	fake_settle(&f);
	is_int(commits(), 2, "a rank whose call is not in the image gets another checkpoint");
	end();
}

static void test_every_step(void)
{
	begin();
	gck_operation_begin(&f.core, GCK_CREATE, JOB, GCK_EVERY_STEP, "test", NULL, NULL);
	ask(1, 1, true, 0);
	fake_settle(&f);
	is_int(commits(), 1, "a checkpoint of the whole job is joined too");
	end();
}

static void test_all(void)
{
	begin();
	f.agents[0][1].asks_all = 3;
	ask(1, 1, false, 3);
	fake_settle(&f);
	is_int(commits(), 1, "the first rank that calls begins it");
	is_int(f.agents[0][2].committed_all, 3, "all nodes learn which call the commit has");
	f.agents[0][1].asks_all = 0;
	ask(2, 1, false, 3);
	fake_settle(&f);
	is_int(commits(), 1, "a late rank begins no other checkpoint");
	is_int(asked(2, "all"), 3, "and is told the number");
	end();
}

static void test_fails(void)
{
	begin();
	ask(1, 1, false, 1);
	ask(2, 4, true, 0);
	ok(reaches(GCK_WRITING), "a checkpoint is under way");
	gck_live_fail(step_0(), EIO, "as scripted");
	gck_raise(&f.core, step_0(), GCK_FAILED);
	fake_settle(&f);
	is_int(asked(1, "id"), 1, "the rank that asked is told of the failure");
	ok(strstr(error_of(2), "as scripted"), "and of its reason: %s", error_of(2));
	ask(2, 4, true, 0);
	fake_settle(&f);
	is_int(commits(), 0, "a request that crossed this answer begins nothing");
	ask(0, 1, false, 1);
	fake_settle(&f);
	ok(strstr(error_of(0), "as scripted"), "a collective call fails on all ranks");
	is_int(commits(), 0, "without another attempt");
	ask(0, 2, false, 2);
	fake_settle(&f);
	is_int(commits(), 1, "the next call takes a checkpoint");
	end();
}

static void test_refused(void)
{
	begin();
	step_0()->disabled = true;
	ask(1, 1, true, 0);
	fake_settle(&f);
	is_int(asked(1, "code"), EPERM, "checkpoints are disabled: EPERM");
	ok(strstr(error_of(1), "gpuckpt enable"), "and the remedy");
	end();
}

static void test_restarting(void)
{
	begin();
	step_0()->live->phase = GCK_STARTING;
	ask(1, 1, true, 0);
	step_0()->live->phase = GCK_IDLE;
	fake_settle(&f);
	ok(all_of(!f.agents[0][1].asked, !commits()),
	   "a rank that asks before all are released gets no answer");
	ask(1, 1, true, 0);
	fake_settle(&f);
	is_int(commits(), 1, "but a checkpoint when it asks again");
	end();
}

/* Its waiter must not outlive the connection, nor the step. */
static void test_gone(void)
{
	begin();
	ask(1, 5, true, 0);
	fake_disconnect(&f, &f.agents[0][1]);
	fake_settle(&f);
	ok(!f.agents[0][1].asked, "an agent that was away gets no old answers");
	ask(1, 1, true, 0);
	fake_settle(&f);
	ok(commits() >= 1, "its successor's numbers begin at 1");
	gck_operation_begin(&f.core, GCK_CREATE, JOB, GCK_EVERY_STEP, "test", NULL, NULL);
	ask(1, 2, true, 0);
	for (unsigned n = 0; n < NODES; n++)
		fake_all_end(&f, &f.agents[0][n], 0);
	fake_settle(&f);
	ok(true, "a step may end meanwhile");
	end();
}

int main(void)
{
	gck_log_open("asks", "/dev/null", GCK_LOG_ERROR);
	test_one();
	test_every_step();
	test_all();
	test_fails();
	test_refused();
	test_restarting();
	test_gone();
	return tap_done();
}

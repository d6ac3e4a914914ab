/* SPDX-License-Identifier: Apache-2.0
 * A restart on one node whose ranks have MPI: it is over when their MPI threads report that MPI
 * is back. */
#include "config.h"

#include <errno.h>
#include <stddef.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/restart/restart.h"
#include "coordinator/agent/test/threads.h"
#include "test/support/tap.h"

static void not_rebuilt(void)
{
	json_t *welcome = json_pack("{s:i, s:s}", "seq", 7, "hash", "aa");

	threads_begin();
	thread_say(1, GCK_LINK_MPI_REBUILT, 0, 0, 0);
	fake_run(0.1);
	ok(!fake_ended, "MPI is back in a rank: the step runs");
	thread_connect(1, 1);
	thread_say(1, GCK_LINK_MPI_REBUILT, 0, EIO, 8);
	fake_run(0.1);
	ok(fake_ended, "MPI cannot come back, and no restart waits: the ranks are ended");
	threads_end();

	threads_begin();
	fake_agent->gate = GATE_WAIT;
	restart_offered(fake_agent, welcome);
	fake_command("build", NULL);
	fake_await("done", "build");
	fake_command("run", NULL);
	fake_await("done", "run");
	fake_ended = false;
	thread_say(1, GCK_LINK_MPI_REBUILT, 0, EIO, 8);
	fake_run(0.1);
	ok(fake_ended, "the same after a restart that seemed complete");
	json_decref(welcome);
	threads_end();
}

static void connect_restored(unsigned rank)
{
	thread_connect(rank, 1);
}

/* A restart whose ranks run, and have not reported yet that MPI is back. */
static void restart(unsigned timeout_ms)
{
	ok(threads_restart(timeout_ms, false, connect_restored), "ranks run, and MPI is not back");
}

static void comes_back(void)
{
	restart(5000);
	thread_say(0, GCK_LINK_MPI_REBUILT, 0, 0, 0);
	thread_say(1, GCK_LINK_MPI_REBUILT, 0, 0, 0);
	ok(!fake_await_within("done", "run", 0.3), "MPI is back in two of three");
	thread_connect(2, 0);
	ok(packet_bool(fake_await("done", "run"), "ok") && fake_opened,
	   "the third reports on another link: the step runs");
	threads_end();

	restart(5000);
	thread_say(1, GCK_LINK_MPI_REBUILT, 0, EIO, 8);
	ok(answer_says(fake_await("done", "run"), "rank 1"),
	   "MPI cannot come back in one: the restart fails");
	ok(!fake_ended && !fake_opened, "and the ranks wait for the job to be requeued");
	threads_end();

	restart(1000);
	ok(answer_says(fake_await("done", "run"), "timeout="),
	   "so it does if MPI is not back in time");
	threads_end();
}

static void end(unsigned rank, int status)
{
	struct task *t = fake_agent->tasks.v[rank];

	t->ended = true;
	t->status = status;
	restart_task_ended(fake_agent->restart, t);
}

/* A program past MPI_Finalize may end at once. */
static void ends_by_itself(void)
{
	restart(5000);
	thread_say(0, GCK_LINK_MPI_REBUILT, 0, 0, 0);
	thread_say(1, GCK_LINK_MPI_REBUILT, 0, 0, 0);
	end(2, 3 << 8);
	ok(packet_bool(fake_await("done", "run"), "ok") && fake_opened,
	   "a rank that runs exits before its MPI is back: it was restored");
	fake_agent->tasks.v[2]->ended = false;
	threads_end();

	restart(5000);
	end(2, 11);
	ok(answer_says(fake_await("done", "run"), "rank 2 on n1: it ended (status 11)"),
	   "a rank that is killed then was not");
	fake_agent->tasks.v[2]->ended = false;
	threads_end();
}

/* The last agent let the ranks go, and died. */
static void started_in_restart(void)
{
	json_t *welcome = json_pack("{s:i, s:s}", "seq", 7, "hash", "aa");
	const json_t *m;

	threads_begin();
	fake_agent->gate = GATE_WAIT;
	fake_agent->lasting->released = 0;
	fake_agent->lasting->restored = 1;
	thread_connect(1, 1);
	thread_say(1, GCK_LINK_MPI_REBUILT, 0, EIO, 8);
	fake_run(0.1);
	ok(!fake_ended, "MPI cannot come back: the job is requeued before the ranks end");
	restart_offered(fake_agent, welcome);
	fake_command("run", NULL);
	ok(answer_says(fake_await("done", "run"), "not built"),
	   "an agent that knows of no restart refuses run");
	fake_command("build", NULL);
	m = fake_await("done", "build");
	ok(answer_says(m, "let go"), "and does not build ranks that run");
	is_int(fake_world->builds, 0, "nor does any restorer");
	fake_command("fallback", json_pack("{s:i}", "seq", 0));
	ok(fake_ended, "they are ended when the coordinator orders it");
	json_decref(welcome);
	threads_end();
}

int main(void)
{
	comes_back();
	not_rebuilt();
	ends_by_itself();
	started_in_restart();
	return tap_done();
}

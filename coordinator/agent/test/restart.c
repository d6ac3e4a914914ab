/* SPDX-License-Identifier: Apache-2.0
 * A restart on one node, with restorers that act as scripted. */
#include "config.h"

#include "coordinator/agent/restart/restart.h"

#include <string.h>
#include <sys/sem.h>
#include <sys/socket.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/restart/rank_restart.h"
#include "coordinator/agent/restart/stages.h"
#include "coordinator/agent/test/fakes.h"
#include "shim/link.h"
#include "test/support/tap.h"

static const json_t *ask(const char *op, json_t *more)
{
	fake_command(op, more);
	return fake_await("done", op);
}

static void begin(void)
{
	json_t *welcome = json_pack("{s:i, s:s}", "seq", 7, "hash", "aa");

	fake_begin();
	fake_agent->gate = GATE_WAIT;
	restart_offered(fake_agent, welcome);
	json_decref(welcome);
}

static void good(void)
{
	uint32_t seq = 0;

	begin();
	ok(!restart_building(fake_agent->restart, &seq), "offered: nothing is built yet");
	ok(packet_bool(ask("build", NULL), "ok"), "built");
	ok(fake_holding, "ranks were told to hold");
	ok(restart_building(fake_agent->restart, &seq) && seq == 7, "built and held");
	ok(packet_bool(ask("build", NULL), "ok"), "a repeated build is answered again");
	is_int(fake_world->builds, 3, "without another build");
	ok(packet_bool(ask("files", NULL), "ok"), "files are restored");
	ok(restart_building(fake_agent->restart, &seq) && !fake_opened, "and the ranks are held");
	ok(packet_bool(ask("files", NULL), "ok") && packet_bool(ask("build", NULL), "ok"),
	   "repeated commands are answered again");
	is_int(fake_world->filed, 3, "without doing anything twice");
	ok(packet_bool(ask("run", NULL), "ok"), "the ranks are let go");
	ok(fake_opened, "the step runs from here on");
	ok(packet_bool(ask("run", NULL), "ok"), "a repeated run is answered again");
	is_int(fake_world->runs, 3, "without letting go twice");
	fake_end();
}

static void falls_back(void)
{
	const json_t *m;

	begin();
	fake_script(1, "build", FAKE_FAIL);
	m = ask("build", NULL);
	ok(m && !packet_bool(m, "ok"), "a rank that cannot be built fails the build");
	is_int(packet_int(m, "rank", -1), 1, "the failure names the rank");
	is_int(packet_int(m, "code", 0), EIO, "has its code");
	ok(strstr(packet_text(m, "error", ""), "as scripted") != NULL, "and its reason");
	fake_command("fallback", json_pack("{s:i, s:s}", "seq", 6, "hash", "bb"));
	m = fake_await("done", "build");
	ok(packet_bool(m, "ok") && packet_int(m, "seq", 0) == 6, "an earlier commit is built");
	is_int(fake_world->builds, 6, "by all ranks, in the same processes");
	m = ask("run", NULL);
	ok(!packet_bool(m, "ok"), "the first commit cannot be run any more");
	m = ask("run", json_pack("{s:i}", "seq", 6));
	ok(packet_bool(m, "ok"), "the other one can");
	fake_end();

	begin();
	ask("build", NULL);
	fake_command("fallback", json_pack("{s:i, s:s}", "seq", 0, "why", "none is left"));
	ok(fake_ended, "without another commit the ranks are ended");
	fake_end();
}

/* A coordinator that does not know `files`. */
static void run_alone(void)
{
	begin();
	ask("build", NULL);
	ok(packet_bool(ask("run", NULL), "ok"), "run without files before it");
	is_int(fake_world->filed, 3, "restores the files");
	is_int(fake_world->too_early, 0, "of all ranks before it lets one go");
	ok(!fake_await_within("done", "files", 0.1),
	   "and does not answer a command that was not given");
	fake_end();

	begin();
	fake_script(0, "files", FAKE_FAIL);
	ask("build", NULL);
	ok(!packet_bool(ask("run", NULL), "ok"), "files that cannot be restored fail the run");
	is_int(fake_world->runs, 0, "no rank was let go");
	fake_end();
}

static void shares(void)
{
	const uint64_t *inode;
	const json_t *m;

	begin();
	strcpy(fake_world->share, "0-2");
	inode = fake_world->shared_inode;
	ok(packet_bool(ask("build", NULL), "ok"), "ranks that share memory are built");
	ok(inode[0] && inode[0] == inode[1] && inode[0] == inode[2], "all have got the same");
	ok(packet_bool(ask("run", NULL), "ok"), "and run");
	is_int(fake_world->too_early, 0, "no file was opened before all had made theirs");
	fake_end();

	begin();
	strcpy(fake_world->share, "0-2,5");
	m = ask("build", NULL);
	is_int(packet_int(m, "code", 0), EXDEV, "one of them is on another node: refused");
	ok(strstr(packet_text(m, "error", ""), "ranks 0-2,5 share memory (area, 8 KiB)") &&
	   strstr(packet_text(m, "error", ""), "rank 5 is not"), "the reason names all: %s",
	   packet_text(m, "error", ""));
	fake_end();
}

static bool are_semaphores(uint64_t shared)
{
	return semctl((int)shared - 1, 1, GETVAL) == 0;
}

static void shares_objects(void)
{
	uint64_t first, second;
	const json_t *m;

	begin();
	fake_world->share_object = true;
	strcpy(fake_world->share, "0-2");
	ok(packet_bool(ask("build", NULL), "ok"), "ranks that share semaphores are built");
	first = fake_world->shared_inode[0];
	ok(first && are_semaphores(first) && first == fake_world->shared_inode[1] &&
	   first == fake_world->shared_inode[2], "all have got the same");
	fake_command("fallback", json_pack("{s:i, s:s}", "seq", 6, "hash", "bb"));
	ok(packet_bool(fake_await("done", "build"), "ok"), "another commit is built instead");
	second = fake_world->shared_inode[0];
	ok(second != first && are_semaphores(second) && !are_semaphores(first),
	   "with others: the first are removed");
	ok(packet_bool(ask("run", json_pack("{s:i}", "seq", 6)), "ok"), "and run");
	ok(are_semaphores(second), "these stay");
	semctl((int)second - 1, 0, IPC_RMID);
	fake_end();

	begin();
	fake_world->share_object = true;
	strcpy(fake_world->share, "0-2,5");
	m = ask("build", NULL);
	ok(packet_int(m, "code", 0) == EXDEV &&
	   strstr(packet_text(m, "error", ""), "0-2,5 share System V semaphores 77 (ipcs) and"),
	   "one of them is on another node: %s", packet_text(m, "error", ""));
	fake_end();
}

static void not_filed(void)
{
	const json_t *m;

	begin();
	fake_script(1, "files", FAKE_FAIL);
	ask("build", NULL);
	m = ask("files", NULL);
	ok(m && !packet_bool(m, "ok"), "a rank's files cannot be restored");
	is_int(packet_int(m, "rank", -1), 1, "the failure names the rank");
	is_int(packet_int(m, "code", 0), EIO, "has its code");
	ok(strstr(packet_text(m, "error", ""), "as scripted") != NULL, "and its reason");
	m = ask("run", NULL);
	ok(m && !packet_bool(m, "ok"), "no rank runs");
	is_int(fake_world->runs, 0, "and no rank was let go");
	fake_command("fallback", json_pack("{s:i, s:s}", "seq", 6, "hash", "bb"));
	m = fake_await("done", "build");
	ok(m && !packet_bool(m, "ok"), "another commit cannot be built any more");
	is_int(fake_world->builds, 3, "and nothing was built");
	fake_end();

	begin();
	fake_script(2, "run", FAKE_DIE);
	ask("build", NULL);
	ask("files", NULL);
	m = ask("run", NULL);
	ok(m && !packet_bool(m, "ok"), "a rank dies as it is let go");
	ok(!fake_opened, "the step does not run");
	fake_end();

	begin();
	fake_script(2, "run", FAKE_HANG);
	fake_agent->restart->rebuild.repeat = 1;
	ask("build", NULL);
	m = ask("run", NULL);
	ok(strstr(packet_text(m, "error", ""),
		  "rank 2 on n1: its restorer did not let it go") != NULL,
	   "a restorer that hangs then is not awaited for ever");
	fake_end();
}

/* A rank that ends as it is let go may have been restored: only its restorer knows. */
static void ends_early(void)
{
	struct task *t;
	const json_t *m;

	begin();
	fake_script(2, "run", FAKE_LATE);
	ask("build", NULL);
	ask("files", NULL);
	fake_command("run", NULL);
	ok(!fake_await_within("done", "run", 0.1),
	   "a restorer has yet to report that its rank runs");
	t = fake_agent->tasks.v[2];
	t->ended = true;
	t->status = 0;
	restart_task_ended(fake_agent->restart, t);
	m = fake_await("done", "run");
	ok(strstr(packet_text(m, "error", ""), "as scripted") != NULL,
	   "its rank ends: the restorer decides whether it was restored");
	t->ended = false;
	fake_end();

	begin();
	ask("build", NULL);
	t = fake_agent->tasks.v[1];
	t->ended = true;
	restart_task_ended(fake_agent->restart, t);
	m = ask("run", NULL);
	ok(strstr(packet_text(m, "error", ""), "it ended (status 0) before") != NULL,
	   "a rank that ends before it is let go fails the restart");
	t->ended = false;
	fake_end();
}

/* A failure of the last commit comes after the order to build another one. */
static void late_failure(void)
{
	const json_t *m;

	begin();
	fake_script(1, "build", FAKE_FAIL);
	fake_script(0, "build", FAKE_LATE);
	m = ask("build", NULL);
	ok(m && !packet_bool(m, "ok"), "a rank cannot be built while another is still being built");
	fake_command("fallback", json_pack("{s:i, s:s}", "seq", 6, "hash", "bb"));
	m = fake_await("done", "build");
	ok(packet_bool(m, "ok") && packet_int(m, "seq", 0) == 6,
	   "the failure of the first build does not count against the second");
	fake_end();
}

static void had_finished(void)
{
	struct gck_link_msg m = { 0 };
	const json_t *answer;

	begin();
	fake_world->finished_rank = 2;
	answer = ask("build", NULL);
	is_int(packet_int(json_array_get(json_object_get(json_object_get(answer, "data"), "exited"),
					 0), "rank", -1), 2, "a rank had finished");
	ok(packet_bool(ask("run", NULL), "ok"), "let go");
	recv(fake_link_peer[2], &m, sizeof m, MSG_DONTWAIT);
	is_int(m.type, GCK_LINK_EXIT, "its process is told to exit");
	is_int(m.pid, 1, "with its earlier status");
	fake_end();
}

static void dies(void)
{
	const json_t *m;

	begin();
	fake_script(0, "build", FAKE_DIE);
	m = ask("build", NULL);
	ok(m && !packet_bool(m, "ok"), "a restorer dies");
	ok(strstr(packet_text(m, "error", ""), "signal 9") != NULL, "the failure says so");
	m = ask("build", json_pack("{s:i}", "seq", 6));
	ok(m && !packet_bool(m, "ok"), "and another commit cannot be built");
	fake_end();
}

static void wait_apart(void)
{
	struct gck_link_msg m = { .type = 0 };

	begin();
	fake_script(1, "apart", FAKE_PASSING);
	fake_command("build", NULL);
	ok(!fake_await_within("done", "build", 0.3), "an image with a static program waits");
	ok(recv(fake_link_peer[1], &m, sizeof m, MSG_DONTWAIT) > 0 && m.type == GCK_LINK_APART,
	   "the rank is told to go on in a PID namespace");
	is_int(m.pid, FAKE_NUMBER, "with the number that its image needs");
	is_int(m.number, FAKE_NUMBER + 1, "and others above all that the image has");
}

static void goes_apart(void)
{
	const json_t *m;

	wait_apart();
	fake_script(1, "build", FAKE_GOOD);
	restart_moved(fake_agent, fake_agent->tasks.v[1], 0);
	ok(packet_bool(fake_await("done", "build"), "ok"), "there it is built");
	fake_end();

	wait_apart();
	restart_moved(fake_agent, fake_agent->tasks.v[1], EPERM);
	m = fake_await("done", "build");
	ok(m && !packet_bool(m, "ok"), "without a namespace the build fails");
	is_int(packet_int(m, "rank", -1), 1, "the failure names the rank");
	ok(strstr(packet_text(m, "error", ""), "user.max_user_namespaces") != NULL,
	   "the reason and the remedy");
	fake_end();
}

int main(void)
{
	goes_apart();
	good();
	shares();
	shares_objects();
	run_alone();
	not_filed();
	ends_early();
	falls_back();
	late_failure();
	had_finished();
	dies();
	return tap_done();
}

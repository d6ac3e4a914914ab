/* SPDX-License-Identifier: Apache-2.0
 * The real agent with ranks that use CUDA: checkpoints, death, restart, the agent's death while
 * GPUs are drained, and a rank that resumes by itself. On the fake driver; with
 * GPUCKPT_TEST_RANK, a command to run as the rank, on the real driver. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/test/plugin.h"
#include "test/support/tap.h"

#define SLOW_MS 600000 /* for ever */

static char hash[40];

static void shell(const struct plugin *p, const char *command)
{
	char line[1024];

	snprintf(line, sizeof line, "set -e; D=%s; %s", p->dir, command);
	if (system(line)) {
		printf("# failed: %s\n", line);
		exit(99);
	}
}

/* In place of the counter: the program under the stand-in. */
static void write_rank(const struct plugin *p, const char *command)
{
	char path[96];
	FILE *f;

	shell(p, "cp libgpuckpt-cuda.so $D/cuda.so; rm $D/counter");
	if (!command)
		shell(p, "cp cuda_work $D/work; cp libcuda-fake.so $D/libcuda.so.1");
	snprintf(path, sizeof path, "%s/counter", p->dir);
	f = fopen(path, "w");
	if (!f)
		exit(99);
	fprintf(f, "#!/bin/sh\n[ -n \"$ALONE\" ] || export LD_PRELOAD=$LD_PRELOAD:%s/cuda.so\n",
		p->dir);
	if (command)
		fprintf(f, "exec %s\n", command);
	else
		fprintf(f, "export GPUCKPT_CUDA_LIBRARY=%s/libcuda.so.1 LD_LIBRARY_PATH=%s\n"
			"export FAKE_CUDA_SLOW=cuCheckpointProcessCheckpoint=%d@%s/slowly\n"
			"export GPUCKPT_TEST_HURRY=%s/hurry GPUCKPT_TEST_FORKS=%s/forks\n"
			"exec %s/work\n", p->dir, p->dir, SLOW_MS, p->dir, p->dir, p->dir,
			p->dir);
	fclose(f);
	chmod(path, 0755);
}

/* How many lines a file in the directory has; the last line. */
static int lines_of(const struct plugin *p, const char *name, char last[512])
{
	char path[96];
	int n = 0;
	FILE *f;

	last[0] = '\0';
	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	f = fopen(path, "r");
	while (f && fgets(last, 512, f))
		n++;
	if (f)
		fclose(f);
	return n;
}

/* Ranks inherit the test's standard output: theirs is redirected to a file. */
static void start(struct plugin *p)
{
	int saved = fcntl(1, F_DUPFD_CLOEXEC, 3), out;
	char path[96];

	snprintf(path, sizeof path, "%s/answers", p->dir);
	out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	dup2(out, 1);
	plugin_start(p);
	dup2(saved, 1);
	close(saved);
	close(out);
}

static void checkpoint(unsigned seq)
{
	json_t *able;

	coord_tell("able", 0, json_pack("{s:i}", "id", (int)seq));
	able = coord_await("able", NULL);
	ok(able != NULL, "able is answered");
	json_decref(able);
	ok(coord_checkpoint(seq, hash), "checkpoint %u", seq);
}

static void restart(struct plugin *p, unsigned seq)
{
	plugin_stop(p);
	p->restarts++;
	start(p);
	json_decref(coord_welcome("restore",
				  json_pack("{s:i, s:s}", "seq", (int)seq, "hash", hash)));
	ok(coord_ask("build", seq, NULL, NULL), "killed; built again");
	ok(coord_ask("files", seq, NULL, NULL), "files are restored");
	ok(coord_ask("run", seq, NULL, NULL), "the ranks run, and their GPUs are back");
}

/* Without the program's pauses, which give a checkpoint time to come. */
static void hurry(const struct plugin *p, bool yes)
{
	shell(p, yes ? "touch $D/hurry" : "rm -f $D/hurry");
}

static void whole(struct plugin *p)
{
	char alone[512], again[512];

	hurry(p, true);
	shell(p, "ALONE=1 $D/counter >$D/alone");
	hurry(p, false);
	ok(lines_of(p, "alone", alone) > 0, "the program alone");
	start(p);
	json_decref(coord_welcome("cold", NULL));
	usleep(getenv("GPUCKPT_TEST_RANK") ? 3000000 : 200000);
	checkpoint(1);
	checkpoint(2);
	restart(p, 2);
	usleep(200000);
	checkpoint(3);
	restart(p, 3);
	hurry(p, true);
	for (unsigned i = 0; i < PLUGIN_RANKS; i++)
		is_int(plugin_reap(p, i, true), 0, "a rank ends well");
	is_int(lines_of(p, "answers", again), PLUGIN_RANKS, "each rank has given an answer");
	is_str(again, alone, "it is that of a run without checkpoints");
	plugin_stop(p);
}

/* ---- the agent's death while GPUs are drained ---------------------------------------------- */

/* Does a rank have memory of the fake driver mapped? */
static bool has_memory(const struct plugin *p, unsigned rank)
{
	char path[64], line[512];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/maps", p->rank[rank]);
	f = fopen(path, "r");
	while (f && !found && fgets(line, sizeof line, f))
		found = strstr(line, "memfd:fake-cuda") != NULL;
	if (f)
		fclose(f);
	return found;
}

static bool all_come_to(const struct plugin *p, bool have)
{
	for (unsigned i = 0; i < PLUGIN_RANKS; i++)
		for (int ms = 60000; has_memory(p, i) != have; ms -= 10) {
			if (ms < 0)
				return false;
			usleep(10000);
		}
	return true;
}

/* Is a rank's child there, and in this system call? -1: in any. */
static bool has_child(pid_t rank, int call)
{
	char path[64];
	int pid = 0, now = -1;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", rank, rank);
	f = fopen(path, "r");
	if (f && fscanf(f, "%d", &pid) != 1)
		pid = 0;
	if (f)
		fclose(f);
	snprintf(path, sizeof path, "/proc/%d/syscall", pid);
	f = pid ? fopen(path, "r") : NULL;
	if (f && fscanf(f, "%d", &now) != 1)
		now = -1;
	if (f)
		fclose(f);
	return pid && (call < 0 || now == call);
}

static bool await_children(const struct plugin *p, int call)
{
	for (unsigned i = 0; i < PLUGIN_RANKS; i++)
		for (int ms = 60000; !has_child(p->rank[i], call); ms -= 10) {
			if (ms < 0)
				return false;
			usleep(10000);
		}
	return true;
}

static void begin_anew(struct plugin *p)
{
	shell(p, "rm -f $D/answers; touch $D/forks");
	hurry(p, false);
	p->restarts = 0;
	start(p);
	json_decref(coord_welcome("cold", NULL));
	ok(all_come_to(p, true), "the ranks have memory on their device");
	ok(await_children(p, -1), "and children, which are in the handlers of fork");
}

static void answers_are(struct plugin *p, const char *alone, bool told)
{
	char each[512];

	hurry(p, true);
	for (unsigned i = 0; i < PLUGIN_RANKS; i++)
		is_int(plugin_reap(p, i, told), 0, "a rank ends well");
	is_int(lines_of(p, "answers", each), PLUGIN_RANKS, "each rank has given an answer");
	is_str(each, alone, "it is that of a run without checkpoints");
}

/* Drained, while the driver checkpoints; or held, before it is captured. */
static void drain(const struct plugin *p, bool held)
{
	if (!held)
		shell(p, "touch $D/slowly");
	ok(coord_ask("prepare", 1, coord_bounds(false, SLOW_MS), NULL), "%s: prepared", held ?
	   "held" : "under way");
	shell(p, "rm $D/forks");
	ok(await_children(p, SYS_read), "the children run");
	coord_tell("freeze", 1, NULL);
	if (held)
		json_decref(coord_await("done", "freeze"));
	ok(all_come_to(p, false), "the ranks have no memory on the device any more");
}

static void next_agent(struct plugin *p, bool held)
{
	char alone[512];
	json_t *m;

	lines_of(p, "alone", alone);
	begin_anew(p);
	drain(p, held);
	ok(plugin_signal_agent(p, SIGKILL), "the agent is killed");
	shell(p, "rm -f $D/slowly");
	ok(all_come_to(p, true), "the ranks have their memory again");
	m = coord_welcome("run", NULL);
	is_str(packet_text(m, "state", ""), "running", "the next agent finds them running");
	json_decref(m);
	ok(coord_ask("abort", 1, NULL, NULL), "the checkpoint is given up");
	ok(coord_checkpoint(2, hash), "the next one is made");
	restart(p, 2);
	answers_are(p, alone, true);
	plugin_stop(p);
}

/* The supervisor is gone too: it would fork another agent. */
static void no_agent(struct plugin *p)
{
	char alone[512];

	lines_of(p, "alone", alone);
	begin_anew(p);
	drain(p, true);
	ok(kill(p->agent, SIGKILL) == 0, "the agent is killed, and no new one starts");
	ok(all_come_to(p, true), "the ranks have their memory again");
	answers_are(p, alone, false);
	plugin_stop(p);
}

int main(void)
{
	struct plugin p;
	const char *why;

	signal(SIGPIPE, SIG_IGN);
	if (plugin_open(&p, &why)) {
		skip("the agent with CUDA", why);
		return tap_done();
	}
	write_rank(&p, getenv("GPUCKPT_TEST_RANK"));
	whole(&p);
	if (!getenv("GPUCKPT_TEST_RANK")) {
		next_agent(&p, false);
		next_agent(&p, true);
		no_agent(&p);
	}
	plugin_close(&p);
	return tap_done();
}

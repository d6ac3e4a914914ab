/* SPDX-License-Identifier: Apache-2.0
 * Kills the agent and its workers at every point (common/base/fault.h) of a checkpoint and a
 * restart. Ranks go on unharmed and the next checkpoint works; a restart that was cut short can
 * be repeated. Some points by default, all with GPUCKPT_LONG=1. Needs a build with
 * --enable-faults. */
#include "config.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/test/plugin.h"
#include "test/support/clock.h"
#include "test/support/tap.h"

#define HURRY 10 /* times as fast as the machine's: the agent's clock */

static char trigger[128], fault[160];

static void arm(struct plugin *p, int point)
{
	int fd;

	snprintf(trigger, sizeof trigger, "%s/trigger", p->dir);
	snprintf(fault, sizeof fault, "%d:%s", point, trigger);
	fd = open(trigger, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
	p->fault = fault;
}

static bool went_off(void)
{
	return access(trigger, F_OK) != 0;
}

/* A coordinator whose agent has died takes the new one and gives the checkpoint up. */
static void give_up(unsigned seq)
{
	json_t *m = coord_welcome("run", NULL);

	if (m)
		is_str(packet_text(m, "state", ""), "running", "  a new agent comes: ranks run");
	json_decref(m);
	ok(coord_ask("abort", seq, NULL, NULL), "  abort is granted");
}

/* The stage on the node's disk holds nothing that is not needed. */
static unsigned staged_checkpoints(const struct plugin *p)
{
	char pattern[200];
	glob_t found;
	unsigned n = 0;

	snprintf(pattern, sizeof pattern, "%s/stage/gpuckpt-*/test/7/0/*", p->dir);
	if (glob(pattern, 0, NULL, &found) == 0)
		n = (unsigned)found.gl_pathc;
	globfree(&found);
	return n;
}

static void check_stage(const struct plugin *p)
{
	for (int i = 0; i < 500 && staged_checkpoints(p) != 1; i++)
		usleep(10000);
	is_int(staged_checkpoints(p), 1, "  one checkpoint's objects stay staged");
}

static void checkpoint_with(struct plugin *p, int point)
{
	char hash[40];

	arm(p, point);
	plugin_start(p);
	json_decref(coord_welcome("cold", NULL));
	ok(plugin_counts(p, 0) && plugin_counts(p, 1), "fault %d: both ranks run", point);
	ok(!coord_checkpoint(1, hash), "  the checkpoint fails");
	ok(went_off(), "  because the fault went off");
	ok(plugin_counts(p, 0) && plugin_counts(p, 1), "  both ranks go on");
	if (point < GCK_FAULT_WORKER_FROZEN)
		give_up(1);
	else
		ok(coord_ask("abort", 1, NULL, NULL), "  abort is granted");
	ok(coord_checkpoint(2, hash), "  the next checkpoint works");
	if (p->options)
		check_stage(p);
	ok(plugin_counts(p, 0) && plugin_counts(p, 1), "  both ranks go on");
	plugin_stop(p);
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "  no line is missing or repeated");
}

static bool restored(struct plugin *p, const char *hash)
{
	bool good;

	p->restarts++;
	plugin_start(p);
	json_decref(coord_welcome("restore", json_pack("{s:i, s:s}", "seq", 1, "hash", hash)));
	good = coord_ask("build", 1, NULL, NULL) && coord_ask("files", 1, NULL, NULL) &&
	       coord_ask("run", 1, NULL, NULL);
	return good && plugin_counts(p, 0) && plugin_counts(p, 1);
}

static void restart_with(struct plugin *p, int point)
{
	char hash[40] = "";

	p->fault = NULL;
	p->restarts = 0;
	plugin_start(p);
	json_decref(coord_welcome("cold", NULL));
	ok(plugin_counts(p, 0) && plugin_counts(p, 1), "fault %d: both ranks run", point);
	ok(coord_checkpoint(1, hash), "  a checkpoint");
	plugin_stop(p);
	arm(p, point);
	ok(!restored(p, hash), "  the restart fails, and the agent reports it");
	ok(went_off(), "  because the fault went off");
	test_clock_rate(HURRY); /* an agent whose ranks have died waits for Slurm's requeue */
	plugin_stop(p);
	test_clock_rate(1);
	p->fault = NULL;
	ok(restored(p, hash), "  the next restart works");
	plugin_stop(p);
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "  no line is missing or repeated");
}

/* The ranks die with the restorers, and the step ends before there is a new agent. It comes, since
 * the script, and the job with it, would end before the coordinator had heard of the ranks. */
static void restart_killed(struct plugin *p)
{
	char hash[40] = "";
	json_t *m;

	p->fault = NULL;
	p->restarts = 0;
	plugin_new_output(p);
	plugin_start(p);
	json_decref(coord_welcome("cold", NULL));
	ok(plugin_both_count(p) && coord_checkpoint(1, hash), "a checkpoint");
	plugin_stop(p);
	p->restarts++;
	plugin_start(p);
	json_decref(coord_welcome("restore", json_pack("{s:i, s:s}", "seq", 1, "hash", hash)));
	ok(coord_ask("build", 1, NULL, NULL), "the restart's agent dies with its ranks");
	plugin_signal_agent(p, SIGKILL);
	plugin_end(p);
	m = coord_welcome("restore", json_pack("{s:i, s:s}", "seq", 1, "hash", hash));
	ok(m != NULL, "  a new one comes after the end of the step");
	json_decref(m);
	for (int i = 0; i < PLUGIN_RANKS; i++) {
		m = coord_await("exit", NULL);
		ok(m != NULL, "  it tells the end of a rank");
		json_decref(m);
	}
	ok(waitpid(p->agent, NULL, WNOHANG) == 0, "  and waits for the job's requeue");
	test_clock_rate(HURRY);
	plugin_stop(p);
	test_clock_rate(1);
	ok(restored(p, hash), "  the next restart works");
	plugin_stop(p);
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "  no line is missing or repeated");
}

/* One point of each class by default: before the freeze, while ranks are held, as they are let go,
 * in the write, in the commit, and each step of a restart. All with GPUCKPT_LONG=1. */
static bool is_wanted(int point)
{
	static const int by_default[] = {
		GCK_FAULT_AGENT_PREPARE, GCK_FAULT_AGENT_FROZEN, GCK_FAULT_AGENT_RESUME,
		GCK_FAULT_AGENT_WRITE, GCK_FAULT_AGENT_COMMIT, GCK_FAULT_WORKER_TAKEN,
		GCK_FAULT_WORKER_RESUMED, GCK_FAULT_WORKER_STAGED, GCK_FAULT_RESTORE_BUILD,
		GCK_FAULT_RESTORE_BUILT, GCK_FAULT_RESTORE_FILES, GCK_FAULT_RESTORE_RUN,
	};

	for (size_t i = 0; i < sizeof by_default / sizeof *by_default; i++)
		if (by_default[i] == point)
			return true;
	return tap_is_long();
}

static void sweep_staged(struct plugin *p)
{
	char stage[160], dir[128];

	snprintf(dir, sizeof dir, "%s/stage", p->dir);
	mkdir(dir, 01777);
	chmod(dir, 01777);
	snprintf(stage, sizeof stage, "stage=%s", dir);
	for (int point = GCK_FAULT_AGENT_WRITE; point <= GCK_FAULT_WORKER_STAGED; point++) {
		if ((point > GCK_FAULT_AGENT_WRITTEN && point < GCK_FAULT_WORKER_WRITE) ||
		    !is_wanted(point))
			continue;
		p->restarts = 0;
		p->options = stage;
		plugin_new_output(p);
		checkpoint_with(p, point);
	}
	p->options = NULL;
}

static void sweep(struct plugin *p)
{
	for (int point = GCK_FAULT_NONE + 1; point < GCK_FAULT_RESTORE_BUILD; point++) {
		if (!is_wanted(point))
			continue;
		p->restarts = 0;
		plugin_new_output(p);
		checkpoint_with(p, point);
	}
	for (int point = GCK_FAULT_RESTORE_BUILD; point <= GCK_FAULT_RESTORE_RUN; point++) {
		plugin_new_output(p);
		restart_with(p, point);
	}
}

int main(void)
{
	struct plugin p;
	const char *why = "built without --enable-faults";
	bool faults = false;

#ifdef GCK_FAULTS
	faults = true;
#endif
	signal(SIGPIPE, SIG_IGN);
	if (!faults || plugin_open(&p, &why) < 0) {
		skip("agents and workers killed at every point", why);
		return tap_done();
	}
	sweep(&p);
	sweep_staged(&p);
	restart_killed(&p);
	plugin_close(&p);
	return tap_done();
}

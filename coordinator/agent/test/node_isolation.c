/* SPDX-License-Identifier: Apache-2.0
 * The real agent on a node that is cut off: the coordinator is gone, and a script of the test
 * answers in place of scontrol. */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/test/plugin.h"
#include "test/support/clock.h"
#include "test/support/tap.h"

#define HURRY 5 /* times as fast as the machine's: the agent's clock */
#define PATIENCE 6000 /* looks: only a failure takes so many */

/* Slurm's answer about the job, by a script. Each question makes the file "asked" again. */
static void slurm(const struct plugin *p, const char *script)
{
	char text[768];

	snprintf(text, sizeof text, ": >%s/asked; %s", p->dir, script);
	plugin_write_scontrol(p, text);
}

static void slurm_is_away(const struct plugin *p)
{
	slurm(p, "echo Unable to contact slurm controller >&2; exit 1");
}

/* After the command `first`, among the tasks of a job array, of which it is the last. */
static void slurm_says_after(const struct plugin *p, const char *first, const char *state,
			     unsigned restarts)
{
	char script[640];

	snprintf(script, sizeof script,
		 "%s\n"
		 "echo JobId=70 JobName=a JobState=RUNNING Requeue=1 Restarts=0\n"
		 "echo JobId=7 JobName=a JobState=%s Reason=None Requeue=1 Restarts=%u "
		 "BatchFlag=1\n"
		 "echo JobId=6 JobName=a JobState=RUNNING Requeue=1 Restarts=0", first, state,
		 restarts);
	slurm(p, script);
}

static void slurm_says(const struct plugin *p, const char *state, unsigned restarts)
{
	slurm_says_after(p, "", state, restarts);
}

static bool is_asked(const struct plugin *p)
{
	char path[96];

	snprintf(path, sizeof path, "%s/asked", p->dir);
	return unlink(path) == 0;
}

static bool comes_to_be_asked(const struct plugin *p)
{
	for (int looks = 0; looks < PATIENCE; looks++, usleep(10000))
		if (is_asked(p))
			return true;
	return false;
}

static bool is_asked_again(const struct plugin *p)
{
	is_asked(p);
	return comes_to_be_asked(p);
}

/* A start after two restarts; the coordinator has reported SlurmdTimeout. */
static void begin_watched(struct plugin *p, int slurmd_timeout)
{
	coord_deaf(false);
	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", json_pack("{s:i, s:i}", "slurmd_timeout", slurmd_timeout,
						    "restarts", 2)));
	plugin_both_count(p);
}

static void cut_connection(void)
{
	coord_deaf(true);
	coord_drop();
}

static void cut_off(struct plugin *p, int slurmd_timeout)
{
	begin_watched(p, slurmd_timeout);
	cut_connection();
}

static bool rank_comes_to_stand(const struct plugin *p, unsigned rank)
{
	int looks = PATIENCE;

	while (--looks && !plugin_stands(p, rank))
		;
	return looks;
}

static bool come_to_stand(const struct plugin *p)
{
	int looks = PATIENCE;

	while (--looks && !plugin_both_stand(p))
		;
	return looks;
}

static void coordinator_away(struct plugin *p)
{
	slurm_says(p, "RUNNING", 2);
	cut_off(p, 3);
	ok(is_asked_again(p) && is_asked_again(p),
	   "the coordinator is away: Slurm is asked repeatedly");
	ok(plugin_both_count(p), "Slurm says that the job runs here: the ranks run on");
	slurm_says(p, "SUSPENDED", 2);
	ok(is_asked_again(p) && is_asked_again(p) && plugin_both_count(p),
	   "the same if it is suspended here");
	slurm_is_away(p);
	ok(plugin_said(p, "seems to be cut off"),
	   "Slurm is away when the time is over: the user is told");
	ok(come_to_stand(p), "and the ranks are stopped");
}

static void stays_stopped(struct plugin *p)
{
	kill(p->rank[0], SIGCONT);
	ok(plugin_both_stand(p), "SIGCONT does not let them go");
	kill(p->agent, SIGTERM);
	ok(plugin_logged(p, "stay stopped until Slurm ends them") && plugin_both_stand(p),
	   "nor does SIGTERM to the agent");
	ok(plugin_signal_agent(p, SIGKILL) && plugin_logged(p, "the agent died") &&
	   come_to_stand(p),
	   "a new agent stops them again");
}

static void taken_back(struct plugin *p)
{
	slurm_says(p, "PENDING", 2);
	ok(plugin_logged(p, "until slurmd ends them") && plugin_both_stand(p),
	   "Slurm has requeued the job: the ranks stay stopped");
	coord_deaf(false);
	json_decref(coord_welcome("run", NULL));
	ok(is_asked_again(p) && is_asked_again(p) && plugin_both_stand(p),
	   "the coordinator is back, but has not heard of the requeue: the ranks stay stopped");
}

static void goes_on(struct plugin *p)
{
	slurm_says(p, "RUNNING", 2);
	ok(plugin_said(p, "still runs here"), "Slurm says that this start runs: the user is told");
	ok(plugin_both_count(p), "and the ranks resume");
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "no line is missing or repeated");
	slurm_is_away(p);
	is_asked(p);
	ok(plugin_both_count(p) && !is_asked(p),
	   "while the coordinator is connected, Slurm is not asked");
	plugin_stop(p);
}

static void is_ended(struct plugin *p, const char *how, const char *why)
{
	ok(plugin_said(p, why), "%s: the user is told", how);
	ok(plugin_reap(p, 0, true) == SIGKILL && plugin_reap(p, 1, true) == SIGKILL,
	   "and the ranks are ended");
}

static void superseded_by_slurms_word(struct plugin *p)
{
	begin_watched(p, 3);
	slurm_says(p, "PENDING", 3);
	cut_connection();
	is_ended(p, "Slurm has requeued the job", "after 3 restarts");
	plugin_stop(p);
}

/* As gpuckptd answers the agent of a start that is not the newest. */
static json_t *newer(void)
{
	return json_pack("{s:b, s:s}", "superseded", 1, "why", "job 7 was requeued");
}

static void superseded_by_the_coordinators_word(struct plugin *p)
{
	pid_t script = plugin_start_process(false), step = plugin_start_process(true), later;
	int status = 0;
	json_t *m;

	usleep(50000); /* some clock ticks: a process's start is known in these */
	slurm_says(p, "RUNNING", 2);
	begin_watched(p, 3);
	later = plugin_start_process(false);
	coord_drop();
	m = coord_welcome("refuse", newer());
	ok(packet_bool(m, "script"), "the job's script runs on this node");
	json_decref(m);
	is_ended(p, "the coordinator has a newer start of the job", "was requeued");
	m = coord_await("register", NULL);
	ok(m && json_array_size(json_object_get(m, "local_ranks")) == 0 &&
	   json_array_size(json_object_get(m, "exited")) == PLUGIN_RANKS,
	   "the coordinator is told that all have ended");
	json_decref(m);
	ok(waitpid(script, &status, 0) == script && status == SIGKILL,
	   "the job's script is ended, which would go on");
	ok(!waitpid(step, NULL, WNOHANG) && !waitpid(later, NULL, WNOHANG),
	   "not what another step runs, nor what is younger: it may be of the newest start");
	kill(step, SIGKILL);
	kill(later, SIGKILL);
	plugin_stop(p);
}

/* It may be of the newest start, whose count its environment lacks. */
static void never_counted(struct plugin *p)
{
	coord_deaf(false);
	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("refuse", newer()));
	ok(plugin_said(p, "runs without checkpoints") && plugin_both_count(p),
	   "an agent that no coordinator has told Slurm's count: the ranks run on");
	plugin_stop(p);
}

/* T: by a signal, t: by a tracer. */
static bool both_become(const struct plugin *p, char state)
{
	int stopped = 0;

	for (int looks = PATIENCE; looks && stopped < PLUGIN_RANKS; looks--, usleep(10000)) {
		stopped = 0;
		for (int i = 0; i < PLUGIN_RANKS; i++)
			stopped += plugin_state(p, i) == state;
	}
	return stopped == PLUGIN_RANKS;
}

static void signal_agents(const struct plugin *p, int sig)
{
	kill(p->agent, sig);
	plugin_signal_agent(p, sig);
}

/* The agent and its parent do not run for longer than the time after which the node is isolated. */
static void stands_still(struct plugin *p)
{
	slurm_is_away(p);
	begin_watched(p, 3);
	kill(p->rank[0], SIGSTOP);
	ok(plugin_stands(p, 0), "the user stops a rank, as the agent sees");
	signal_agents(p, SIGSTOP);
	kill(p->rank[0], SIGCONT);
	ok(plugin_counts(p, 0) && both_become(p, 'T'),
	   "and lets it go as the agent is stopped with its node: the kernel stops both ranks");
	signal_agents(p, SIGCONT);
	ok(plugin_logged(p, "stood still") && both_become(p, 't'),
	   "it runs again: it holds the ranks, although the coordinator is connected");
	kill(p->rank[1], SIGCONT);
	ok(plugin_both_stand(p), "SIGCONT does not let one go");
	slurm_says(p, "RUNNING", 2);
	ok(plugin_both_count(p), "they resume when Slurm says that the job runs");
	ok(plugin_signal_agent(p, SIGSTOP) && both_become(p, 'T'),
	   "the agent alone is stopped: so are they, since nobody can tell");
	cut_connection();
	ok(plugin_logged(p, "is stopped, or hangs: killed") && plugin_logged(p, "the agent died"),
	   "but it is killed");
	ok(plugin_both_count(p),
	   "and the next one lets them go when Slurm says that the job runs");
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "no line is missing or repeated");
	plugin_stop(p);
}

/* Slurm has answered before the node stood still, or while it did. */
static void answered_before(struct plugin *p)
{
	char wait[160], late[96];
	unsigned long count, lines;

	snprintf(late, sizeof late, "%s/late", p->dir);
	snprintf(wait, sizeof wait, "until [ -e %s ]; do sleep 0.02; done", late);
	slurm_says_after(p, wait, "RUNNING", 2);
	is_asked(p);
	test_clock_rate(1); /* the agent asks after a second and holds the ranks after three */
	cut_off(p, 3);
	ok(comes_to_be_asked(p), "Slurm is asked");
	signal_agents(p, SIGSTOP);
	test_clock_rate(HURRY);
	ok(both_become(p, 'T'), "the node stands still");
	fclose(fopen(late, "we"));
	ok(plugin_both_stand(p), "while Slurm answers that the job runs");
	count = plugin_count(p, 0, &lines);
	slurm_is_away(p);
	test_clock_advance(60);
	signal_agents(p, SIGCONT);
	ok(is_asked_again(p) && is_asked_again(p) && plugin_count(p, 0, &lines) == count,
	   "that lets nothing go");
	slurm_says(p, "SUSPENDED", 2);
	ok(both_become(p, 'T') && plugin_both_stand(p),
	   "nor does a new one by which the job is suspended: Slurm has stopped the ranks, too");
	kill(p->rank[0], SIGCONT);
	kill(p->rank[1], SIGCONT);
	ok(plugin_both_count(p), "and lets them go");
	plugin_stop(p);
}

/* The ranks are held, committed, and Slurm may have been asked to requeue the job: the coordinator
 * goes silent for longer than its timeout. */
static void hold_for_requeue(struct plugin *p)
{
	json_t *m = coord_bounds(true, 20000);

	begin_watched(p, 30);
	test_clock_rate(1);
	ok(coord_ask("prepare", 1, m, NULL) && coord_ask("freeze", 1, NULL, NULL) &&
	   coord_ask("write", 1, NULL, NULL), "the ranks are held to be requeued");
	coord_tell("hold", 1, json_pack("{s:b}", "requeue", 1));
	coord_ask("write", 1, NULL, NULL); /* is answered again, after that was read */
	cut_connection();
	test_clock_rate(HURRY);
}

static void held_until_slurm_says_so(struct plugin *p)
{
	slurm_is_away(p);
	hold_for_requeue(p);
	ok(plugin_said(p, "seems to be cut off") && plugin_both_stand(p),
	   "the coordinator is silent: they stay held after its timeout");
	slurm_says(p, "COMPLETING", 2);
	ok(is_asked_again(p) && is_asked_again(p) && plugin_both_stand(p),
	   "also while Slurm has the job as ending");
	slurm_says(p, "RUNNING", 2);
	ok(plugin_both_count(p), "they go on when Slurm says that it runs here");
	plugin_stop(p);
	slurm_says(p, "PENDING", 3);
	hold_for_requeue(p);
	is_ended(p, "or if Slurm has requeued the job", "after 3 restarts");
	plugin_stop(p);
}

/* All of the node, for longer than any bound on how long ranks are held. */
static void held_while_it_stood_still(struct plugin *p)
{
	unsigned long before[PLUGIN_RANKS], lines;

	slurm_is_away(p);
	hold_for_requeue(p);
	for (unsigned i = 0; i < PLUGIN_RANKS; i++)
		before[i] = plugin_count(p, i, &lines);
	signal_agents(p, SIGSTOP);
	test_clock_advance(60);
	ok(plugin_both_stand(p), "the node stands still while ranks are held to be requeued");
	signal_agents(p, SIGCONT);
	ok(plugin_said(p, "seems to be cut off") && plugin_both_stand(p) &&
	   plugin_count(p, 0, &lines) == before[0] && plugin_count(p, 1, &lines) == before[1],
	   "they have not run after that either");
	slurm_says(p, "RUNNING", 2);
	ok(plugin_both_count(p), "until Slurm says that the job runs here");
	plugin_stop(p);
}

/* The time that a checkpoint may hold ranks ends on a node that is isolated. */
static void held_by_a_checkpoint(struct plugin *p)
{
	unsigned long before[PLUGIN_RANKS], lines;

	slurm_is_away(p);
	begin_watched(p, 12); /* a slow machine is not taken for a cut before */
	ok(coord_ask("prepare", 1, coord_bounds(false, 20000), NULL) &&
	   coord_ask("freeze", 1, NULL, NULL), "a checkpoint holds the ranks");
	cut_connection();
	ok(plugin_said(p, "seems to be cut off"), "and the node is isolated");
	for (unsigned i = 0; i < PLUGIN_RANKS; i++)
		before[i] = plugin_count(p, i, &lines);
	test_clock_advance(30);
	ok(is_asked_again(p) && is_asked_again(p) &&
	   plugin_count(p, 0, &lines) == before[0] && plugin_count(p, 1, &lines) == before[1],
	   "they do not run when the checkpoint's time is over");
	slurm_says(p, "RUNNING", 2);
	ok(plugin_both_count(p), "but when Slurm says that the job runs here");
	plugin_stop(p);
}

static void stopped_by_the_user(struct plugin *p)
{
	slurm_is_away(p);
	begin_watched(p, 12);
	kill(p->rank[0], SIGSTOP); /* its lease goes on, and is no reason to stop it */
	while (plugin_state(p, 0) != 'T')
		usleep(10000);
	cut_connection();
	ok(both_become(p, 't'), "a rank that the user has stopped is held as well");
	slurm_says(p, "RUNNING", 2);
	ok(plugin_counts(p, 1) && plugin_stands(p, 0), "and not resumed");
	kill(p->rank[0], SIGCONT);
	ok(plugin_counts(p, 0), "except by the user");
	plugin_stop(p);
}

static void rank_ends(struct plugin *p)
{
	slurm_is_away(p);
	cut_off(p, 3);
	ok(come_to_stand(p), "stopped");
	kill(p->rank[0], SIGKILL);
	is_int(plugin_reap(p, 0, true), SIGKILL, "a rank that is killed meanwhile ends");
	plugin_stop(p);
}

/* A worker that was killed and stays, as one in the kernel or in a store that is out of reach.
 * Here it is a zombie that the agent does not hear of until this process, its tracer, reaps it. */
static pid_t keep_worker(const struct plugin *p)
{
	pid_t worker = plugin_worker(p);
	bool stopped = worker > 0 && ptrace(PTRACE_SEIZE, worker, NULL, NULL) == 0 &&
		       ptrace(PTRACE_INTERRUPT, worker, NULL, NULL) == 0 &&
		       waitpid(worker, NULL, __WALL) == worker;

	ok(stopped, "rank 0's worker hangs");
	return stopped ? worker : -1;
}

/* It ignores its orders. Both ranks stand while it holds its own. */
static pid_t hang_in(struct plugin *p, const char *phase)
{
	json_t *m = coord_bounds(false, 2000 * HURRY);
	bool written = !strcmp(phase, "write");
	pid_t worker;

	json_object_set_new(m, "timeout_ms", json_integer(2000 * HURRY));
	ok(coord_ask("prepare", 1, m, NULL) && coord_ask("freeze", 1, NULL, NULL) &&
	   (!written || coord_ask("resume", 1, NULL, NULL)), "a checkpoint, up to its %s",
	   phase);
	worker = keep_worker(p);
	ok(!coord_ask(phase, 1, NULL, NULL),
	   "which fails: the worker is killed and does not end");
	return worker;
}

static void worker_stays(struct plugin *p, const char *phase)
{
	pid_t worker;

	slurm_is_away(p);
	begin_watched(p, 3);
	worker = hang_in(p, phase);
	cut_connection();
	ok(!strcmp(phase, "write") ? come_to_stand(p) : rank_comes_to_stand(p, 1),
	   "the node is isolated: ranks that no worker may hold are stopped");
	ok(worker > 0 && waitpid(worker, NULL, __WALL) == worker && come_to_stand(p),
	   "the worker ends: all ranks are stopped");
	slurm_says(p, "RUNNING", 2);
	ok(plugin_both_count(p) && plugin_sound(p, 0) && plugin_sound(p, 1),
	   "and all resume when Slurm says that the job runs");
	plugin_stop(p);
}

/* Without an agent nothing stops the ranks, and Slurm has started their job elsewhere. */
static void no_agent_lives(struct plugin *p)
{
	int looks = PATIENCE;

	slurm_is_away(p);
	cut_off(p, 3);
	ok(come_to_stand(p), "stopped");
	while (--looks && plugin_stays(p, 0, 20))
		plugin_signal_agent(p, SIGKILL);
	ok(looks && plugin_reap(p, 1, true) == SIGKILL,
	   "agents that stop ranks die again and again: the ranks are killed");
	plugin_stop(p);
}

/* The ranks run on, as without isolation: by the time that the agent is back nothing is asked. */
static void is_not_isolated(struct plugin *p, int slurmd_timeout, const char *name)
{
	slurm_is_away(p);
	is_asked(p);
	cut_off(p, slurmd_timeout);
	plugin_logged(p, "trying again");
	coord_deaf(false);
	json_decref(coord_welcome("run", NULL));
	ok(!is_asked(p) && plugin_both_count(p), "%s: no isolation", name);
	plugin_stop(p);
}

static void no_scontrol(struct plugin *p)
{
	char path[96];

	snprintf(path, sizeof path, "%s/scontrol", p->dir);
	unlink(path);
	cut_off(p, 3);
	ok(plugin_said(p, "cannot tell whether it is cut off") && plugin_both_count(p),
	   "a node without scontrol: the user is told, and the ranks run on");
	plugin_stop(p);
}

static void leave_running(const struct plugin *p)
{
	char path[96];
	FILE *f;

	snprintf(path, sizeof path, "%s/gpuckpt.conf", p->dir);
	f = fopen(path, "a");
	if (f && fprintf(f, "CutOff=run\n") > 0)
		fclose(f);
}

int main(void)
{
	struct plugin p;
	const char *why;

	signal(SIGPIPE, SIG_IGN);
	if (plugin_open(&p, &why) < 0) {
		skip("a node that is cut off", why);
		return tap_done();
	}
	test_clock_rate(HURRY);
	coordinator_away(&p);
	stays_stopped(&p);
	taken_back(&p);
	goes_on(&p);
	superseded_by_slurms_word(&p);
	superseded_by_the_coordinators_word(&p);
	never_counted(&p);
	stands_still(&p);
	answered_before(&p);
	held_until_slurm_says_so(&p);
	held_while_it_stood_still(&p);
	held_by_a_checkpoint(&p);
	stopped_by_the_user(&p);
	rank_ends(&p);
	worker_stays(&p, "write");
	worker_stays(&p, "resume");
	no_agent_lives(&p);
	no_scontrol(&p);
	is_not_isolated(&p, 0, "SlurmdTimeout=0");
	leave_running(&p);
	is_not_isolated(&p, 3, "CutOff=run");
	plugin_close(&p);
	return tap_done();
}

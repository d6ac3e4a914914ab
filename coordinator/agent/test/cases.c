/* SPDX-License-Identifier: Apache-2.0
 * The real agent in trouble: no coordinator, no answer, ranks that end while they are held, files
 * that ranks share. */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/test/plugin.h"
#include "test/support/clock.h"
#include "test/support/tap.h"

#define LONGER_MS 500 /* than ranks wait that Slurm ends, by the agent's clock */
#define HURRY 5 /* times as fast as the machine's: the agent's clock */

/* ---- without a coordinator ----------------------------------------------------------------- */

static void first_start_alone(struct plugin *p)
{
	json_t *m;

	coord_deaf(true);
	plugin_begin(p, NULL, 0);
	ok(plugin_both_count(p), "a first start without a coordinator: both ranks run");
	coord_deaf(false);
	m = coord_welcome("run", NULL);
	ok(m != NULL, "the agent registers with a coordinator that starts later");
	json_decref(m);
	plugin_stop(p);
}

static void refused_running(struct plugin *p)
{
	coord_deaf(true);
	plugin_begin(p, NULL, 0);
	plugin_both_count(p);
	coord_deaf(false);
	json_decref(coord_welcome("refuse", json_pack("{s:s}", "why", "no such partition")));
	ok(plugin_said(p, "without checkpoints: no such partition"),
	   "the coordinator refuses a step that runs: the user is told");
	ok(plugin_both_count(p), "the ranks run on");
	plugin_stop(p);
}

/* Rank 0, the first to be written to, has a file of results in place of its standard error. */
static void results_in_place(struct plugin *p)
{
	struct stat st = { .st_size = -1 };
	char path[96];

	p->keeps = "2results";
	p->keepers = 1;
	coord_deaf(true);
	plugin_begin(p, NULL, 0);
	plugin_both_count(p);
	coord_deaf(false);
	json_decref(coord_welcome("refuse", json_pack("{s:s}", "why", "no such account")));
	ok(plugin_said(p, "without checkpoints: no such account"),
	   "a line for the user goes to what Slurm gave a rank");
	snprintf(path, sizeof path, "%s/results", p->dir);
	ok(stat(path, &st) == 0 && st.st_size == 0,
	   "and not into a file that one has opened there");
	plugin_stop(p);
	p->keeps = NULL;
}

static void first_start_no_store(struct plugin *p)
{
	json_t *m;

	plugin_set_mode(p, "store/test", 0);
	plugin_begin(p, NULL, 0);
	m = coord_welcome("cold", NULL);
	is_str(packet_text(m, "state", ""), "running",
	       "a first start with a store that cannot be read registers as running");
	ok(!json_is_array(json_object_get(m, "commits")) && *packet_text(m, "store_error", ""),
	   "the coordinator is told so: %s", packet_text(m, "store_error", ""));
	json_decref(m);
	ok(plugin_both_count(p), "both ranks run");
	plugin_stop(p);
	plugin_set_mode(p, "store/test", 01777);
}

static void no_agent(struct plugin *p)
{
	p->no_forks = true;
	plugin_begin(p, NULL, 0);
	ok(plugin_stands(p, 0), "while no agent can be forked, the ranks wait");
	ok(plugin_both_count(p), "but not for long");
	is_str(p->report, "ok\n", "the supervisor is there");
	plugin_stop(p);
	p->no_forks = false;
}

static void add_to_conf(const struct plugin *p, const char *line)
{
	char path[96];
	FILE *f;

	snprintf(path, sizeof path, "%s/gpuckpt.conf", p->dir);
	f = fopen(path, "a");
	if (f)
		fprintf(f, "%s\n", line);
	if (f)
		fclose(f);
}

/* The last test: it leaves its configuration behind. */
static void cannot_serve(struct plugin *p)
{
	add_to_conf(p, "Nonsense=1");
	plugin_begin(p, NULL, 0);
	ok(strstr(p->report, "gpuckpt.conf:") && strstr(p->report, "Nonsense"),
	   "the plugin hears why an agent cannot serve: %s", p->report);
	plugin_stop(p);
}

static void terminated(struct plugin *p)
{
	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	kill(p->agent, SIGTERM);
	waitpid(p->agent, NULL, 0);
	ok(plugin_both_count(p), "SIGTERM ends the agent, not the ranks");
	p->agent = 0;
	plugin_stop(p);
}

/* Ask for a checkpoint, which is refused: why. */
static struct gck_error refusal(unsigned seq)
{
	struct gck_error why = { 0 };
	json_t *m = NULL;

	if (!coord_ask("prepare", seq, NULL, &m))
		gck_fail(&why, EAGAIN, "%s", packet_text(m, "error", "no reason"));
	json_decref(m);
	coord_ask("abort", seq, NULL, NULL);
	return why;
}

/* The worker that refuses a stopped rank takes its link with it. */
static void stopped(struct plugin *p)
{
	struct gck_error first, second;
	const json_t *one;
	json_t *m;

	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	kill(p->rank[0], SIGSTOP);
	waitpid(p->rank[0], NULL, WUNTRACED);
	first = refusal(1);
	ok(strstr(first.text, "stopped by a signal") != NULL, "a stopped rank is refused: %s",
	   first.text);
	second = refusal(2);
	is_str(second.text, first.text, "a second time with the same reason");
	coord_tell("able", 0, json_pack("{s:i}", "id", 1));
	m = coord_await("able", NULL);
	one = json_array_get(json_object_get(m, "items"), 0);
	ok(strstr(packet_text(one, "reason", ""), "stopped by a signal") != NULL,
	   "able has that reason too: %s", packet_text(one, "reason", ""));
	json_decref(m);
	kill(p->rank[0], SIGCONT);
	ok(coord_ask("prepare", 3, NULL, NULL), "continued, it connects again");
	ok(coord_ask("abort", 3, NULL, NULL), "abort");
	plugin_stop(p);
}

/* Slurm has stopped the ranks: a remedy for one process would be of no use. */
static void suspended(struct plugin *p)
{
	struct gck_error why;
	json_t *m;

	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	plugin_write_scontrol(p, "echo \"JobId=$4 JobState=SUSPENDED Restarts=0\"");
	kill(p->rank[0], SIGSTOP);
	waitpid(p->rank[0], NULL, WUNTRACED);
	why = refusal(1);
	ok(strstr(why.text, "is suspended: `scontrol resume ") != NULL,
	   "a rank of a suspended job: %s", why.text);
	coord_tell("able", 0, json_pack("{s:i}", "id", 1));
	m = coord_await("able", NULL);
	is_str(packet_text(json_array_get(json_object_get(m, "items"), 0), "reason", ""),
	       "it is suspended", "able has that reason too");
	json_decref(m);
	kill(p->rank[0], SIGCONT);
	plugin_stop(p);
}

/* ---- held ---------------------------------------------------------------------------------- */

static void word_does_not_come(struct plugin *p)
{
	json_t *m = NULL;

	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	ok(coord_ask("prepare", 1, coord_bounds(false, 3000), NULL) &&
	   coord_ask("freeze", 1, NULL, NULL), "two ranks are frozen");
	ok(plugin_stands(p, 0), "the ranks stand while they are held");
	ok(plugin_both_count(p), "no order to resume: they resume within hold");
	ok(!coord_ask("resume", 1, NULL, &m), "and the coordinator is told at the next command");
	json_decref(m);
	ok(coord_ask("abort", 1, NULL, NULL), "abort");
	ok(plugin_both_count(p), "both ranks go on");
	plugin_stop(p);
}

static void agent_hangs(struct plugin *p)
{
	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	ok(coord_ask("prepare", 1, coord_bounds(false, 1000), NULL) &&
	   coord_ask("freeze", 1, NULL, NULL), "frozen");
	ok(plugin_signal_agent(p, SIGSTOP) && plugin_both_count(p),
	   "the agent hangs: the ranks resume soon after hold");
	ok(plugin_signal_agent(p, SIGCONT) && !coord_ask("resume", 1, NULL, NULL) &&
	   coord_ask("abort", 1, NULL, NULL), "abort");
	plugin_stop(p);
}

/* A checkpoint has written the ranks, which are held until the coordinator decides. */
static void begin_held(struct plugin *p, unsigned hold_ms)
{
	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	ok(coord_ask("prepare", 1, coord_bounds(true, hold_ms), NULL) &&
	   coord_ask("freeze", 1, NULL, NULL) && coord_ask("write", 1, NULL, NULL),
	   "written while held");
}

static void held_and_ended(struct plugin *p)
{
	begin_held(p, 1000);
	test_clock_advance(1);
	ok(plugin_stands(p, 0), "the ranks stand, longer than hold");
	coord_tell("terminate", 0, json_pack("{s:s}", "why", "vacated"));
	is_int(plugin_reap(p, 0, true), SIGKILL, "terminate ends rank 0 at once");
	is_int(plugin_reap(p, 1, true), SIGKILL, "and rank 1");
	ok(plugin_said(p, "vacated"), "the user is told why");
	plugin_stop(p);
}

/* The second `write` is answered after the `hold`. */
static void held_for_requeue(struct plugin *p)
{
	json_t *m;

	begin_held(p, 60000);
	coord_tell("hold", 1, json_pack("{s:b}", "requeue", 1));
	ok(coord_ask("write", 1, NULL, NULL), "the job may be requeued");
	coord_drop();
	m = coord_welcome("run", NULL);
	ok(m && packet_bool(m, "requeue"), "which the next registration tells");
	ok(m && !packet_bool(m, "script"), "and that the job's script does not run here");
	json_decref(m);
	plugin_stop(p);
}

static void hold_requeued(bool certain)
{
	coord_tell("hold", 1, json_pack("{s:b, s:b}", "requeue", 1, "requeued", certain));
}

/* Slurm's word alone does not end the ranks, nor does its SIGTERM. */
static void requeued(struct plugin *p, bool signal_first)
{
	unsigned long count;

	begin_held(p, 60000);
	count = plugin_count(p, 0, NULL);
	test_clock_rate(HURRY);
	if (signal_first)
		kill(p->rank[1], SIGTERM);
	hold_requeued(!signal_first);
	ok(plugin_stays(p, 0, LONGER_MS) && plugin_stays(p, 1, LONGER_MS), "%s: held ranks stay",
	   signal_first ? "Slurm's signal, and perhaps no requeue" : "a requeue without a signal");
	if (signal_first)
		hold_requeued(true);
	else
		kill(p->rank[1], SIGTERM);
	is_int(plugin_reap(p, 0, true), SIGKILL, "both end the ranks, before Slurm's KillWait");
	is_int(plugin_reap(p, 1, true), SIGKILL, "all at once");
	ok(plugin_count(p, 0, NULL) == count, "none goes on before");
	test_clock_rate(1);
	plugin_stop(p);
}

static bool write_to(const struct plugin *p, const char *name)
{
	char path[96];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	f = fopen(path, "a");
	if (!f)
		return false;
	fprintf(f, "more\n");
	return fclose(f) == 0;
}

/* What another rank, of this node or another, wrote before it was held. */
static void changed_beside(struct plugin *p, bool held)
{
	json_t *m = NULL;

	p->keeps = "kept";
	p->keepers = 1;
	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	ok(coord_ask("prepare", 1, coord_bounds(held, 5000), NULL) &&
	   coord_ask("freeze", 1, NULL, NULL), "frozen");
	ok(write_to(p, "kept"), "a file of rank 0 changes after it was captured");
	ok(!coord_ask(held ? "write" : "resume", 1, NULL, &m),
	   "that is seen when all are (%s)", held ? "write" : "resume");
	is_int(packet_int(m, "rank", -1), 0, "the failure names the rank");
	ok(strstr(packet_text(m, "error", ""), "kept") != NULL, "and the file");
	json_decref(m);
	ok(plugin_both_count(p), "both ranks go on");
	ok(coord_ask("abort", 1, NULL, NULL), "abort");
	plugin_stop(p);
	p->keeps = NULL;
}

static int shared_files(const json_t *able)
{
	const json_t *one;
	int n = 0;
	size_t i;

	json_array_foreach(json_object_get(able, "items"), i, one)
		n += strstr(packet_text(one, "reason", ""), "ranks 0 and 1") != NULL;
	return n;
}

static void one_file_of_two(struct plugin *p)
{
	json_t *m = NULL;

	p->keeps = "kept";
	p->keepers = 2;
	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	ok(!coord_ask("prepare", 1, coord_bounds(false, 5000), &m),
	   "no checkpoint while two ranks have a file open for writing");
	ok(strstr(packet_text(m, "error", ""), "kept") != NULL, "the failure names the file");
	json_decref(m);
	coord_tell("able", 0, json_pack("{s:i}", "id", 4));
	m = coord_await("able", NULL);
	is_int(shared_files(m), 1, "able names the file, and not the ranks' output");
	json_decref(m);
	plugin_stop(p);

	p->keeps = "+kept";
	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	ok(coord_ask("prepare", 1, coord_bounds(false, 5000), NULL),
	   "a checkpoint is possible if both ranks append");
	plugin_stop(p);
	p->keeps = NULL;
}

static json_int_t stored(unsigned seq, unsigned base)
{
	json_t *members = coord_bounds(false, 5000), *m = NULL;
	json_int_t n;

	json_object_set_new(members, "base", json_integer(base));
	coord_ask("prepare", seq, members, NULL);
	coord_ask("freeze", seq, NULL, NULL);
	coord_ask("resume", seq, NULL, NULL);
	coord_ask("write", seq, NULL, &m);
	n = packet_int(json_object_get(m, "data"), "stored", -1);
	json_decref(m);
	coord_ask("abort", seq, NULL, NULL);
	return n;
}

static void builds_on(struct plugin *p)
{
	char hash[40] = "";
	json_int_t all, changed;

	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	ok(coord_checkpoint(1, hash), "a checkpoint");
	changed = stored(2, 1);
	all = stored(3, 0);
	ok(changed > 0 && changed < all / 2, "an image builds on the commit that is named: %lld "
	   "bytes, without one %lld", (long long)changed, (long long)all);
	ok(stored(4, 9) > all / 2, "an image does not build on a commit that is missing");
	plugin_stop(p);
}

/* Expired checkpoints of another step of the user. */
static void cannot_sweep(struct plugin *p)
{
	json_t *m;

	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	coord_tell("sweep", 0,
		   json_pack("{s:[{s:i, s:i, s:s, s:[], s:i, s:i}]}", "steps", "job", 8, "step", 0,
		   "store", "file:/proc/nowhere", "keep", "busy", 2, "removals", 1));
	m = coord_await("swept", NULL);
	ok(m && !json_array_size(json_object_get(m, "steps")),
	   "a store that is missing is not reported as swept");
	ok(plugin_logged(p, "expired checkpoints are still in the store"),
	   "the log names the reason");
	json_decref(m);
	plugin_stop(p);
}

int main(void)
{
	struct plugin p;
	const char *why;

	signal(SIGPIPE, SIG_IGN);
	if (plugin_open(&p, &why) < 0) {
		skip("the agent's harder cases", why);
		return tap_done();
	}
	first_start_alone(&p);
	refused_running(&p);
	results_in_place(&p);
	first_start_no_store(&p);
	terminated(&p);
	stopped(&p);
	suspended(&p);
	test_clock_rate(HURRY);
	no_agent(&p);
	test_clock_rate(1);
	word_does_not_come(&p);
	agent_hangs(&p);
	held_and_ended(&p);
	held_for_requeue(&p);
	requeued(&p, false);
	requeued(&p, true);
	changed_beside(&p, false);
	changed_beside(&p, true);
	one_file_of_two(&p);
	builds_on(&p);
	cannot_sweep(&p);
	cannot_serve(&p);
	plugin_close(&p);
	return tap_done();
}

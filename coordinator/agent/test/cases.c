/* SPDX-License-Identifier: Apache-2.0
 * The real agent where things do not go straight: nobody to talk to, a word that does not come,
 * damage in the store, ranks that have ended. */
#include "config.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/test/tap.h"
#include "coordinator/agent/packet.h"
#include "coordinator/agent/test/plugin.h"

static bool both_count(const struct plugin *p)
{
	return plugin_counts(p, 0) && plugin_counts(p, 1);
}

static void begin(struct plugin *p, const char *options, unsigned restarts)
{
	p->options = options;
	p->restarts = restarts;
	if (!restarts)
		plugin_new_output(p);
	plugin_start(p);
}

static json_t *commit_members(unsigned seq, const char *hash)
{
	return json_pack("{s:I, s:s}", "seq", (json_int_t)seq, "hash", hash);
}

/* ---- without a coordinator ----------------------------------------------------------------- */

static void first_start_alone(struct plugin *p)
{
	json_t *m;

	coord_deaf(true);
	begin(p, NULL, 0);
	ok(both_count(p), "a first start without a coordinator: both ranks run");
	coord_deaf(false);
	m = coord_welcome("run", NULL, 8000);
	ok(m != NULL, "the agent registers when there is one");
	json_decref(m);
	plugin_stop(p, NULL);
}

static void write_scontrol(const struct plugin *p, const char *script)
{
	char path[96];
	FILE *f;

	snprintf(path, sizeof path, "%s/scontrol", p->dir);
	f = fopen(path, "w");
	if (!f)
		return;
	fprintf(f, "#!/bin/sh\n%s\n", script);
	fchmod(fileno(f), 0755);
	fclose(f);
}

static void restart_alone(struct plugin *p)
{
	char path[96], script[256];

	snprintf(path, sizeof path, "%s/requeued", p->dir);
	snprintf(script, sizeof script, "echo \"$@\" > %s", path);
	write_scontrol(p, script);
	coord_deaf(true);
	begin(p, "restart-wait=1s", 1);
	sleep(2);
	ok(plugin_said(p, "is requeued and held"), "a restart without one: the user is told");
	ok(access(path, F_OK) == 0, "the job is requeued and held");
	is_int(plugin_reap(p, 0, 100, true), -1, "and the ranks wait for Slurm to end them");
	plugin_stop(p, NULL);

	write_scontrol(p, "echo no such job >&2; exit 1");
	begin(p, "restart-wait=1s", 1);
	is_int(plugin_reap(p, 0, 4000, true), 256, "Slurm refuses: the ranks end");
	ok(plugin_said(p, "no such job"), "and say why");
	plugin_stop(p, NULL);

	begin(p, "restart=never", 1);
	ok(both_count(p), "restart=never asks nobody");
	plugin_stop(p, NULL);
	coord_deaf(false);
}

static void no_agent(struct plugin *p)
{
	p->no_forks = true;
	begin(p, NULL, 0);
	ok(!plugin_counts(p, 0), "no agent can be forked: the ranks wait for it");
	sleep(7);
	ok(both_count(p), "but not for long");
	is_str(p->report, "ok\n", "the supervisor is there");
	plugin_stop(p, NULL);
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

/* The last test: the configuration stays as it is. */
static void cannot_serve(struct plugin *p)
{
	add_to_conf(p, "Nonsense=1");
	begin(p, NULL, 0);
	ok(strstr(p->report, "gpuckpt.conf:") && strstr(p->report, "Nonsense"),
	   "the plugin hears why an agent cannot serve: %s", p->report);
	plugin_stop(p, NULL);
}

static void terminated(struct plugin *p)
{
	begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL, 5000));
	both_count(p);
	kill(p->agent, SIGTERM);
	waitpid(p->agent, NULL, 0);
	ok(both_count(p), "SIGTERM ends the agent, not the ranks");
	p->agent = 0;
	plugin_stop(p, NULL);
}

/* ---- held ---------------------------------------------------------------------------------- */

static json_t *prepare_members(bool keep_held, int hold_ms)
{
	return json_pack("{s:s, s:b, s:i, s:i}", "nonce", "0a0b", "keep_held", keep_held,
			 "timeout_ms", 5000, "hold_ms", hold_ms);
}

static bool stands(const struct plugin *p)
{
	unsigned long before = plugin_count(p, 0, NULL);

	usleep(200000);
	return plugin_count(p, 0, NULL) == before;
}

static void word_does_not_come(struct plugin *p)
{
	json_t *m = NULL;

	begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL, 5000));
	both_count(p);
	ok(coord_ask("prepare", 1, prepare_members(false, 1000), NULL) &&
	   coord_ask("freeze", 1, NULL, NULL), "frozen");
	ok(stands(p), "the ranks stand");
	usleep(1000000);
	ok(both_count(p), "no word to let go: they go on within hold");
	ok(!coord_ask("resume", 1, NULL, &m), "and the coordinator is told");
	json_decref(m);
	ok(coord_ask("abort", 1, NULL, NULL), "abort");
	ok(both_count(p), "both ranks go on");
	plugin_stop(p, NULL);
}

static void held_and_ended(struct plugin *p)
{
	begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL, 5000));
	both_count(p);
	ok(coord_ask("prepare", 1, prepare_members(true, 1000), NULL) &&
	   coord_ask("freeze", 1, NULL, NULL) && coord_ask("write", 1, NULL, NULL),
	   "written while held");
	usleep(1200000);
	ok(stands(p), "the ranks stand, longer than hold");
	coord_tell("terminate", 0, json_pack("{s:s}", "why", "vacated"));
	is_int(plugin_reap(p, 0, 2000, true), SIGKILL, "terminate ends rank 0 at once");
	is_int(plugin_reap(p, 1, 2000, true), SIGKILL, "and rank 1");
	ok(plugin_said(p, "vacated"), "the user is told why");
	plugin_stop(p, NULL);
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

/* What another rank, of this node or another, wrote while it was not held yet. */
static void changed_beside(struct plugin *p, bool held)
{
	json_t *m = NULL;

	p->keeps = "kept";
	p->keepers = 1;
	begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL, 5000));
	both_count(p);
	ok(coord_ask("prepare", 1, prepare_members(held, 5000), NULL) &&
	   coord_ask("freeze", 1, NULL, NULL), "frozen");
	ok(write_to(p, "kept"), "a file of rank 0 is changed after it was held");
	ok(!coord_ask(held ? "write" : "resume", 1, NULL, &m),
	   "that is seen when all are (%s)", held ? "write" : "resume");
	is_int(packet_int(m, "rank", -1), 0, "the rank is named");
	ok(strstr(packet_text(m, "error", ""), "kept") != NULL, "and the file");
	json_decref(m);
	ok(both_count(p), "both ranks go on");
	ok(coord_ask("abort", 1, NULL, NULL), "abort");
	plugin_stop(p, NULL);
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
	begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL, 5000));
	both_count(p);
	ok(!coord_ask("prepare", 1, prepare_members(false, 5000), &m),
	   "two ranks have a file open for writing: no checkpoint");
	ok(strstr(packet_text(m, "error", ""), "kept") != NULL, "it is named");
	json_decref(m);
	coord_tell("able", 0, json_pack("{s:i}", "id", 4));
	m = coord_await("able", NULL, 5000);
	is_int(shared_files(m), 1, "able names it, and not their output");
	json_decref(m);
	plugin_stop(p, NULL);

	p->keeps = "+kept";
	begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL, 5000));
	both_count(p);
	ok(coord_ask("prepare", 1, prepare_members(false, 5000), NULL), "if both append: granted");
	plugin_stop(p, NULL);
	p->keeps = NULL;
}

/* ---- restarts ------------------------------------------------------------------------------ */

static void one_had_finished(struct plugin *p)
{
	char hash[40] = "";

	p->limit = "100";
	begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL, 5000));
	is_int(plugin_reap(p, 1, 5000, true), 3 << 8, "rank 1 ends by itself");
	ok(coord_checkpoint(1, hash), "a checkpoint carries its status");
	plugin_stop(p, NULL);
	begin(p, NULL, 1);
	json_decref(coord_welcome("restore", commit_members(1, hash), 5000));
	ok(coord_ask("build", 1, NULL, NULL), "built");
	is_int(plugin_reap(p, 1, 200, true), -1, "rank 1 is held like the other");
	ok(coord_ask("run", 1, NULL, NULL), "let go");
	is_int(plugin_reap(p, 1, 3000, true), 3 << 8, "rank 1 leaves with its old status");
	ok(plugin_counts(p, 0), "rank 0 runs");
	plugin_stop(p, NULL);
	p->limit = NULL;
}

static char newest[512];
static time_t newest_time;

static int look_for_object(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	if (kind == FTW_F && strstr(path, "/2-") && !strstr(path + where->base, "rank-") &&
	    st->st_size > 0 && st->st_mtime >= newest_time) {
		snprintf(newest, sizeof newest, "%s", path);
		newest_time = st->st_mtime;
	}
	return 0;
}

/* Turn over a byte in the middle of an object that checkpoint 2 wrote. */
static bool damage(const struct plugin *p)
{
	char dir[96], byte;
	struct stat st;
	bool good;
	int fd;

	snprintf(dir, sizeof dir, "%s/store", p->dir);
	nftw(dir, look_for_object, 16, FTW_PHYS);
	fd = open(newest, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	good = pread(fd, &byte, 1, st.st_size / 2) == 1;
	byte = (char)~byte;
	good = good && pwrite(fd, &byte, 1, st.st_size / 2) == 1;
	close(fd);
	return good;
}

static void falls_back(struct plugin *p)
{
	char first[40] = "", second[40] = "";
	json_t *m = NULL;

	begin(p, "keep=2", 0);
	json_decref(coord_welcome("cold", NULL, 5000));
	both_count(p);
	ok(coord_checkpoint(1, first) && both_count(p) && coord_checkpoint(2, second),
	   "two checkpoints");
	plugin_stop(p, NULL);
	ok(damage(p), "a byte of the second is turned over");
	begin(p, NULL, 1);
	json_decref(coord_welcome("restore", commit_members(2, second), 5000));
	ok(!coord_ask("build", 2, NULL, &m), "it cannot be built");
	json_decref(m);
	coord_tell("fallback", 1, json_pack("{s:s, s:s}", "hash", first, "why", "damaged"));
	m = coord_await("done", "build", 10000);
	ok(packet_bool(m, "ok"), "the commit before can, in the same processes: %s",
	   packet_text(m, "error", "yes"));
	json_decref(m);
	ok(coord_ask("run", 1, NULL, NULL) && both_count(p), "and runs");
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "no line is missing or there twice");
	plugin_stop(p, NULL);
}

/* An agent that dies before anything was emptied: the ranks ask the next one. */
static void agent_dies_waiting(struct plugin *p)
{
	char hash[40] = "";
	json_t *m;

	begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL, 5000));
	both_count(p);
	ok(coord_checkpoint(1, hash), "a checkpoint");
	plugin_stop(p, NULL);
	begin(p, NULL, 1);
	json_decref(coord_welcome("wait", NULL, 5000));
	kill(plugin_agent_child(p), SIGKILL);
	m = coord_welcome("restore", commit_members(1, hash), 5000);
	is_str(packet_text(m, "state", ""), "new", "a new agent: nothing has started");
	json_decref(m);
	ok(coord_ask("build", 1, NULL, NULL) && coord_ask("run", 1, NULL, NULL) && both_count(p),
	   "the ranks are restored all the same");
	plugin_stop(p, NULL);
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
	restart_alone(&p);
	terminated(&p);
	no_agent(&p);
	word_does_not_come(&p);
	held_and_ended(&p);
	changed_beside(&p, false);
	changed_beside(&p, true);
	one_file_of_two(&p);
	one_had_finished(&p);
	falls_back(&p);
	agent_dies_waiting(&p);
	cannot_serve(&p);
	plugin_close(&p);
	return tap_done();
}

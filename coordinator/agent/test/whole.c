/* SPDX-License-Identifier: Apache-2.0
 * The real agent with real ranks, images and store: checkpoint, death, restart, and the
 * supervisor. Only Slurm and the coordinator are played. */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/test/plugin.h"
#include "test/support/tap.h"

static char hash[40];

static void first_start(struct plugin *p)
{
	json_t *m;

	plugin_start(p);
	is_str(p->report, "ok\n", "the plugin hears that the agent is up");
	m = coord_welcome("cold", NULL);
	ok(m != NULL, "the agent registers");
	is_str(packet_text(m, "state", ""), "running",
	       "a first start does not wait for the coordinator");
	json_decref(m);
	ok(plugin_counts(p, 0) && plugin_counts(p, 1), "both ranks run");
}

/* The agent's user is another one than root. */
static void stranger(struct plugin *p)
{
	char byte;
	int fd;

	if (geteuid()) {
		skip("another user connects", "this is not root");
		return;
	}
	fd = plugin_connect();
	ok(read(fd, &byte, 1) == 0 && plugin_logged(p, "refused, as all of other users"),
	   "a process of another user is no rank");
	close(fd);
}

static void checkpoints(struct plugin *p)
{
	json_t *able;

	coord_tell("able", 0, json_pack("{s:i}", "id", 9));
	able = coord_await("able", NULL);
	is_int(packet_int(able, "id", 0), 9, "able is answered");
	json_decref(able);
	ok(coord_checkpoint(1, hash), "a checkpoint");
	ok(plugin_counts(p, 0) && plugin_counts(p, 1), "both ranks go on");
	ok(coord_checkpoint(2, hash), "a second one");
	ok(plugin_counts(p, 0) && plugin_counts(p, 1), "both ranks go on");
}

static void stop(struct plugin *p)
{
	int status = plugin_stop(p);
	json_t *m;

	is_int(status, 0, "the agent ends in good order");
	m = coord_await("exit", NULL);
	is_int(packet_int(m, "status", -1), SIGKILL, "the coordinator hears of a rank's end");
	json_decref(m);
	m = coord_await("bye", NULL);
	ok(m != NULL, "and of the agent's, which was not killed for being late");
	json_decref(m);
}

static void restarts(struct plugin *p)
{
	unsigned long before, after;
	json_t *m;

	before = plugin_count(p, 0, NULL);
	p->restarts++;
	plugin_start(p);
	m = coord_welcome("restore", json_pack("{s:i, s:s}", "seq", 2, "hash", hash));
	is_str(packet_text(m, "state", ""), "new", "a restart waits for the coordinator");
	is_int((long long)json_array_size(json_object_get(m, "commits")), 2,
	       "the store's commits are listed");
	json_decref(m);
	ok(coord_ask("build", 2, NULL, NULL), "built");
	usleep(200000);
	is_int((long long)plugin_count(p, 0, NULL), (long long)before,
	       "a rank stays held until all are built");
	ok(coord_ask("files", 2, NULL, NULL), "files are restored");
	ok(plugin_count(p, 0, NULL) <= before, "and no rank runs yet");
	ok(coord_ask("run", 2, NULL, NULL), "let go");
	ok(plugin_counts(p, 0) && plugin_counts(p, 1), "both ranks run again");
	after = plugin_count(p, 0, NULL);
	ok(after > 0, "rank 0 stood at %lu when it was killed, is at %lu now", before, after);
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "no line is missing or repeated");
}

static void lineage(struct plugin *p)
{
	ok(coord_checkpoint(3, hash), "a checkpoint of restored ranks");
	stop(p);
	p->restarts++;
	plugin_start(p);
	json_decref(coord_welcome("restore", json_pack("{s:i, s:s}", "seq", 3, "hash", hash)));
	ok(coord_ask("build", 3, NULL, NULL) && coord_ask("run", 3, NULL, NULL),
	   "restored a second time");
	ok(plugin_counts(p, 0) && plugin_counts(p, 1), "both ranks run again");
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "no line is missing or repeated");
}

static void agent_dies(struct plugin *p)
{
	bool killed = plugin_signal_agent(p, SIGKILL);
	json_t *m = coord_welcome("run", NULL);

	ok(killed && m, "killed, the agent comes back");
	is_str(packet_text(m, "state", ""), "running", "and reports that its ranks run");
	is_int(packet_int(m, "epoch", 0), 5, "its coordinator's epoch");
	ok(packet_int(m, "epoch_ms", -1) > 0, "and when that welcomed the agent before this");
	is_int((long long)json_array_size(json_object_get(m, "local_ranks")), PLUGIN_RANKS,
	       "and its ranks");
	json_decref(m);
	ok(coord_checkpoint(4, hash),
	   "the next checkpoint waits for the shims to connect again, and works");
	ok(plugin_counts(p, 0) && plugin_counts(p, 1), "both ranks go on");
}

static void older_coordinator(void)
{
	json_t *m;

	coord_drop();
	m = coord_welcome("run", json_pack("{s:i}", "epoch", 4));
	ok(m != NULL, "the agent connects again");
	json_decref(m);
	ok(!coord_ask("prepare", 9, NULL, NULL), "an older coordinator is refused");
	m = coord_welcome("run", NULL);
	ok(m != NULL, "the current one is accepted");
	json_decref(m);
}

static void slurmstepd_dies(struct plugin *p)
{
	int status = 0;

	close(p->control);
	p->control = -1;
	for (unsigned i = 0; i < PLUGIN_RANKS; i++)
		is_int(plugin_reap(p, i, false), SIGKILL,
		       "slurmstepd is gone: its orphan is killed");
	waitpid(p->agent, &status, 0);
	ok(WIFEXITED(status), "and the agent leaves");
}

static void finished(struct plugin *p)
{
	json_t *m;

	p->restarts++;
	plugin_start(p);
	m = coord_welcome("finished", json_pack("{s:[i,i]}", "statuses", 256, 0));
	json_decref(m);
	is_int(plugin_reap(p, 0, true), 256,
	       "a step that had finished: rank 0 exits with its earlier status");
	is_int(plugin_reap(p, 1, true), 0, "and so does rank 1");
	plugin_stop(p);
}

/* This process is not the CoordinatorUser of these agents. */
static void impostor(struct plugin *p)
{
	char command[160];

	snprintf(command, sizeof command,
		 "sed -i s/^CoordinatorUser=.*/CoordinatorUser=nobody/ %s/gpuckpt.conf", p->dir);
	if (system(command))
		printf("Bail out! %s\n", command);
	plugin_begin(p, NULL, 0);
	ok(!coord_welcome("cold", NULL),
	   "who is not CoordinatorUser cannot read what an agent says");
	coord_tell("welcome", 0, json_pack("{s:i, s:s}", "epoch", 5, "action", "cold"));
	ok(plugin_logged(p, "are taken"), "nor does it take a message of his");
	plugin_stop(p);
}

int main(void)
{
	struct plugin p;
	const char *why;

	signal(SIGPIPE, SIG_IGN);
	if (plugin_open(&p, &why) < 0) {
		skip("the whole agent", why);
		return tap_done();
	}
	p.options = "keep=2";
	first_start(&p);
	stranger(&p);
	checkpoints(&p);
	stop(&p);
	restarts(&p);
	lineage(&p);
	agent_dies(&p);
	older_coordinator();
	slurmstepd_dies(&p);
	finished(&p);
	impostor(&p);
	plugin_close(&p);
	return tap_done();
}

/* SPDX-License-Identifier: Apache-2.0
 * The real agent with ranks that use CUDA: checkpoints, death, restart, and the answer that a rank gives
 * alone. On the fake driver; with GPUCKPT_TEST_RANK, a command, that is the rank, on the driver there is. */
#include "config.h"

#include <fcntl.h>
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
	fprintf(f, "#!/bin/sh\n[ -n \"$ALONE\" ] || export LD_PRELOAD=$LD_PRELOAD:%s/cuda.so\n", p->dir);
	if (command)
		fprintf(f, "exec %s\n", command);
	else
		fprintf(f, "export GPUCKPT_CUDA_LIBRARY=%s/libcuda.so.1 LD_LIBRARY_PATH=%s\n"
			"exec %s/work\n", p->dir, p->dir, p->dir);
	fclose(f);
	chmod(path, 0755);
}

/* How many lines a file in the directory has; the last one. */
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

/* Ranks have the test's standard output: theirs goes into a file. */
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
	json_decref(coord_welcome("restore", json_pack("{s:i, s:s}", "seq", (int)seq, "hash", hash)));
	ok(coord_ask("build", seq, NULL, NULL), "killed; built anew");
	ok(coord_ask("files", seq, NULL, NULL), "files are cut back");
	ok(coord_ask("run", seq, NULL, NULL), "the ranks run, and their GPUs are back");
}

static void whole(struct plugin *p)
{
	char alone[512], again[512];

	shell(p, "ALONE=1 $D/counter >$D/alone");
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
	for (unsigned i = 0; i < PLUGIN_RANKS; i++)
		is_int(plugin_reap(p, i, true), 0, "a rank ends well");
	is_int(lines_of(p, "answers", again), PLUGIN_RANKS, "each has given an answer");
	is_str(again, alone, "the one that it gives alone");
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
	plugin_close(&p);
	return tap_done();
}

/* SPDX-License-Identifier: Apache-2.0
 * The real agent with ranks that use CUDA: checkpoints, death, restart, and the answer that a rank gives
 * alone. On the fake driver; on a GPU, by test/gpu/run, with GPUCKPT_TEST_RANK the rank's command. */
#include "config.h"

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

#define LONGEST_MS 120000

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

/* In place of the counter: the program under the stand-in, its output where the counter's would be. */
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
		fprintf(f, "exec %s >>\"$1\"\n", command);
	else
		fprintf(f, "export GPUCKPT_CUDA_LIBRARY=%s/libcuda.so.1 LD_LIBRARY_PATH=%s\n"
			"exec %s/work >>\"$1\"\n", p->dir, p->dir, p->dir);
	fclose(f);
	chmod(path, 0755);
}

/* The last line of a file in the directory. */
static const char *last_line(const struct plugin *p, const char *name)
{
	static char line[512];
	char path[96];
	FILE *f;

	line[0] = '\0';
	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		;
	if (f)
		fclose(f);
	return line;
}

static void checkpoint(unsigned seq)
{
	json_t *able;

	coord_tell("able", 0, json_pack("{s:i}", "id", (int)seq));
	able = coord_await("able", NULL, 5000);
	ok(able != NULL, "able is answered");
	json_decref(able);
	ok(coord_checkpoint(seq, hash), "checkpoint %u", seq);
}

static void restart(struct plugin *p, unsigned seq)
{
	plugin_stop(p, NULL);
	p->restarts++;
	plugin_start(p);
	json_decref(coord_welcome("restore", json_pack("{s:i, s:s}", "seq", (int)seq, "hash", hash),
				  5000));
	ok(coord_ask("build", seq, NULL, NULL), "killed; built anew");
	ok(coord_ask("files", seq, NULL, NULL), "files are cut back");
	ok(coord_ask("run", seq, NULL, NULL), "the ranks run, and their GPUs are back");
}

static void whole(struct plugin *p)
{
	char alone[512];

	shell(p, "ALONE=1 $D/counter $D/alone");
	snprintf(alone, sizeof alone, "%s", last_line(p, "alone"));
	ok(alone[0], "the program alone");
	plugin_start(p);
	json_decref(coord_welcome("cold", NULL, 5000));
	usleep(getenv("GPUCKPT_TEST_RANK") ? 3000000 : 200000);
	checkpoint(1);
	checkpoint(2);
	restart(p, 2);
	usleep(200000);
	checkpoint(3);
	restart(p, 3);
	for (unsigned i = 0; i < PLUGIN_RANKS; i++) {
		char name[16];

		snprintf(name, sizeof name, "out%u", i);
		is_int(plugin_reap(p, i, LONGEST_MS, true), 0, "a rank ends well");
		is_str(last_line(p, name), alone, "with the answer that it gives alone");
	}
	plugin_stop(p, NULL);
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

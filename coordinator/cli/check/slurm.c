/* SPDX-License-Identifier: Apache-2.0
 * Slurm, through its own commands: what they print is what its users get. */
#include "config.h"

#include "coordinator/cli/check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLURMD_TIMEOUT_S 45 /* below it the ranks of a cut-off node are stopped too late */

/* The value of "Key      = value" in c->slurm; "" if it has no such line. */
static void value_of(const struct checks *c, const char *key, char *value, size_t size)
{
	const char *line = c->slurm;
	size_t n = strlen(key);

	*value = '\0';
	while (line && (strncmp(line, key, n) || (line[n] != ' ' && line[n] != '='))) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	if (!line)
		return;
	line += n + strspn(line + n, " =");
	snprintf(value, size, "%.*s", (int)strcspn(line, "\n"), line);
}

/* The last line that a command printed which is not empty: its reason. */
static const char *last_line(char *text)
{
	size_t n = strlen(text);
	const char *begin;

	while (n && text[n - 1] == '\n')
		text[--n] = '\0';
	begin = strrchr(text, '\n');
	return !*text ? "it cannot be executed, or does not end" : begin ? begin + 1 : text;
}

static void check_timeout(struct checks *c)
{
	char value[64];
	int seconds;

	value_of(c, "SlurmdTimeout", value, sizeof value);
	seconds = atoi(value);
	if (!*value || seconds >= SLURMD_TIMEOUT_S)
		return;
	if (seconds == 0)
		check_warn(c, "set it to 300 in slurm.conf", "SlurmdTimeout is 0: Slurm never "
			   "notices that a node has failed, and requeues nothing");
	else
		check_warn(c, "set it to 45 or more in slurm.conf (Slurm's default is 300)",
			   "SlurmdTimeout is %d s: on a node that is cut off from the network, "
			   "ranks are stopped too late", seconds);
}

void check_slurm(struct checks *c)
{
	static const char *const argv[] = { "scontrol", "show", "config", NULL };
	char version[64], requeue[16];

	if (program_run(argv, NULL, c->slurm, sizeof c->slurm) != 0) {
		check_error(c, "Slurm's commands must be in PATH, and slurmctld must answer",
			    "scontrol show config: %s", last_line(c->slurm));
		*c->slurm = '\0';
		return;
	}
	value_of(c, "SLURM_VERSION", version, sizeof version);
	check_ok(c, "slurmctld answers; Slurm %s", version);
	check_timeout(c);
	value_of(c, "JobRequeue", requeue, sizeof requeue);
	if (!strcmp(requeue, "0"))
		check_warn(c, "set JobRequeue=1 in slurm.conf, or tell users to give sbatch "
			   "--requeue", "JobRequeue is 0: jobs are not requeued unless their users "
			   "ask for it");
}

/* Without Slurm's answer, which check_slurm has reported, nothing is known of these. */

/* What srun says of the plugin that it does not load. */
static const char *complaint(char *text)
{
	char *line = strstr(text, "spank_gpuckpt");

	if (!line)
		return NULL;
	while (line > text && line[-1] != '\n')
		line--;
	line[strcspn(line, "\n")] = '\0';
	return line;
}

/* Slurm's words where plugstack.conf has the plugin twice. */
#define TWICE "provided by both spank_gpuckpt.so and spank_gpuckpt.so"

void check_plugin(struct checks *c)
{
	static const char *const argv[] = { "srun", "--help", NULL };
	static const char remedy[] = "put \"required " GCK_PKGLIBDIR "/spank_gpuckpt.so\" there, "
				     "on every machine; the plugin must be built for this Slurm "
				     "release (spank_gpuckpt(8))";
	static char text[65536];
	char file[PATH_MAX];
	const char *why;
	bool there, twice;

	if (!*c->slurm)
		return;
	there = program_run(argv, NULL, text, sizeof text) == 0 && strstr(text, "--gpu-ckpt");
	twice = strstr(text, TWICE);
	if (there && !twice) {
		check_ok(c, "srun has --gpu-ckpt");
		return;
	}
	value_of(c, "PlugStackConfig", file, sizeof file);
	why = complaint(text);
	if (twice)
		check_error(c, "remove one of its lines, there or in a file that is included, on "
			       "every machine", "%s loads the plugin twice: steps do not start",
			    *file ? file : "plugstack.conf");
	else if (why)
		check_error(c, remedy, "srun: %s", why);
	else
		check_error(c, remedy, "srun has no --gpu-ckpt: %s does not load the plugin",
			    *file ? file : "plugstack.conf");
}

void check_pmix(struct checks *c)
{
	static const char *const argv[] = { "srun", "--mpi=list", NULL };
	char text[4096], type[64];

	if (!*c->slurm || program_run(argv, NULL, text, sizeof text) < 0)
		return;
	value_of(c, "MpiDefault", type, sizeof type);
	if (!strstr(text, "pmix"))
		check_warn(c, "install PMIx and Slurm's plugin for it, or build Slurm with PMIx",
			   "srun --mpi=list has no pmix: MPI programs cannot be checkpointed");
	else if (!strncmp(type, "pmix", 4))
		check_ok(c, "Slurm has it, and MpiDefault is %s", type);
	else
		check_ok(c, "Slurm has it; MpiDefault is %s, so MPI programs need srun --mpi=pmix",
			 *type ? type : "not known");
}

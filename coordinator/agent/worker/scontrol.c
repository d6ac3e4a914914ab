/* SPDX-License-Identifier: Apache-2.0
 * Questions and requests to Slurm, by scontrol. */
#include "config.h"

#include "coordinator/agent/worker/scontrol.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/base/step.h"

#define NOT_EXECUTED 126

/* scontrol tries for minutes when Slurm is out of reach, so it must die with this job. */
static void exec_scontrol(int out, const char *const argv[])
{
	int code;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(open("/dev/null", O_RDONLY), 0);
	dup2(out, 1);
	dup2(out, 2);
	execvp("scontrol", (char *const *)(uintptr_t)argv);
	code = errno;
	dprintf(2, "cannot execute scontrol: %s", strerror(code));
	_exit(code == ENOENT ? SCONTROL_MISSING : NOT_EXECUTED);
}

static void take_line(FILE *from, const char *begin, char *text, size_t size)
{
	char *line = NULL;
	size_t capacity = 0;
	bool found = false;

	while (getline(&line, &capacity, from) >= 0) {
		bool wanted = !strncmp(line, begin, strlen(begin));

		line[strcspn(line, "\n")] = '\0';
		if (!*text || (wanted && !found))
			snprintf(text, size, "%s", line);
		found = found || wanted;
	}
	free(line);
}

int scontrol(const char *const argv[], const char *begin, char *text, size_t size)
{
	int p[2], status = -1;
	FILE *from;
	pid_t pid;

	*text = '\0';
	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		exec_scontrol(p[1], argv);
	close(p[1]);
	from = pid > 0 ? fdopen(p[0], "r") : NULL;
	if (from)
		take_line(from, begin, text, size);
	if (from)
		fclose(from);
	else
		close(p[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	return status;
}

/* ---- a job's state ------------------------------------------------------------------------- */

static void word_after(const char *text, const char *key, char word[32])
{
	const char *at = strstr(text, key);

	snprintf(word, 32, "%.*s", at ? (int)strcspn(at + strlen(key), " ") : 0,
		 at ? at + strlen(key) : "");
}

static bool is_suspended(const char *text)
{
	char state[32];

	word_after(text, " JobState=", state);
	return !strcmp(state, "SUSPENDED");
}

/* Of a line of `scontrol show job`. */
static int runs(const char *text, uint32_t restarts, struct gck_error *err)
{
	char state[32], count[32];
	bool newer;

	word_after(text, " JobState=", state);
	word_after(text, " Restarts=", count);
	newer = strtoull(count, NULL, 10) > restarts;
	if ((!strcmp(state, "RUNNING") || is_suspended(text)) && *count && !newer)
		return is_suspended(text);
	return gck_fail(err, newer ? ECANCELED : ESTALE,
			"Slurm has it as %s after %s restarts, this is its start after %u", state,
			count, restarts);
}

/* The line of `scontrol show job`. ENOENT: this node has no scontrol; EIO: not known. */
static int show(uint32_t id, char text[4096], struct gck_error *err)
{
	char job[16], begin[32];
	const char *const argv[] = { "scontrol", "--oneliner", "show", "job", job, NULL };
	int status;

	snprintf(job, sizeof job, "%u", id);
	snprintf(begin, sizeof begin, "JobId=%s ", job);
	status = scontrol(argv, begin, text, 4096);
	if (status == 0)
		return 0;
	return gck_fail(err, status > 0 && WIFEXITED(status) &&
			WEXITSTATUS(status) == SCONTROL_MISSING ? ENOENT : EIO,
			"scontrol show job %s: %s", job, *text ? text : "no message");
}

int scontrol_runs(uint32_t id, uint32_t restarts, struct gck_error *err)
{
	char text[4096];

	return show(id, text, err) < 0 ? -1 : runs(text, restarts, err);
}

bool scontrol_suspended(uint32_t id)
{
	char text[4096];

	return show(id, text, NULL) == 0 && is_suspended(text);
}

/* ---- requeue ------------------------------------------------------------------------------- */

/* The agents of all nodes requeue the job at the same time, and Slurm refuses all but the first. */
static bool is_given_back(uint32_t job)
{
	struct gck_error why;

	return scontrol_runs(job, UINT32_MAX, &why) < 0 && why.code == ESTALE;
}

json_t *requeue_hold(const void *arg, struct gck_error *err)
{
	const struct step *s = arg;
	char job[16], text[256];
	const char *const argv[] = { "scontrol", "requeuehold", job, NULL };

	snprintf(job, sizeof job, "%u", s->job);
	if (scontrol(argv, "", text, sizeof text) == 0 || is_given_back(s->job))
		return json_true();
	gck_fail(err, EIO, "scontrol requeuehold %s failed: %s", job, *text ? text : "no message");
	return NULL;
}

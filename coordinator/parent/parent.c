/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt-parent: a task whose program takes no preload. The program runs as its child, since at a
 * restart the task itself must be a process that asks the agent, before any code of the program
 * runs, what to become. This one has the preload; it waits for the program, and ends likewise.
 * The SPANK plugin has Slurm execute it; the preload, a rank that executes such a program later.
 *
 * Slurm sends a signal to all of a step's processes, and a terminal to a whole group: such a signal
 * has reached the program, too. One that another process has sent to the task is passed on. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/program/program.h"

/* What the program begins with. */
struct signals {
	sigset_t mask;
	struct sigaction child; /* ignored, children could not be waited for */
};

static void block_all(sigset_t *all, struct signals *before)
{
	sigfillset(all);
	sigprocmask(SIG_SETMASK, all, &before->mask);
	sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = SIG_DFL }, &before->child);
}

/* Slurm has put this program's path into argv[0]; a program that executes another has not. */
static bool is_own(const char *argument)
{
	size_t n = strlen(argument), own = strlen("/" GCK_PARENT);

	return n >= own && !strcmp(argument + n - own, "/" GCK_PARENT);
}

static _Noreturn void execute(char *program, char **argv, const struct signals *before)
{
	int code;

	if (is_own(argv[0]))
		argv[0] = program;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGCHLD, &before->child, NULL);
	sigprocmask(SIG_SETMASK, &before->mask, NULL);
	execv(program, argv);
	code = errno;
	fprintf(stderr, "gpuckpt: cannot execute %s: %s\n", program, strerror(code));
	_exit(code);
}

/* Whether one process has sent it to the task alone. */
static bool is_ours(const siginfo_t *info)
{
	return info->si_code <= 0 && info->si_pid && info->si_pid != getppid();
}

static int await_end(pid_t program, const sigset_t *all)
{
	int status = W_EXITCODE(1, 0);
	siginfo_t info;

	while (waitpid(program, &status, WNOHANG) == 0)
		if (sigwaitinfo(all, &info) > 0 && info.si_signo != SIGCHLD && is_ours(&info))
			kill(program, info.si_signo);
	return status;
}

static _Noreturn void end_by(int signal)
{
	const struct rlimit no_core = { 0, 0 };
	sigset_t one;

	setrlimit(RLIMIT_CORE, &no_core);
	sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
	sigemptyset(&one);
	sigaddset(&one, signal);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	raise(signal);
	_exit(128 + signal);
}

int main(int argc, char **argv)
{
	char *program = getenv(GCK_PROGRAM_VARIABLE);
	struct signals before;
	sigset_t all;
	int status;
	pid_t pid;

	if (!program || argc < 1) {
		fprintf(stderr, "gpuckpt-parent: only gpuckpt's SPANK plugin starts it\n");
		return 2;
	}
	unsetenv(GCK_PROGRAM_VARIABLE); /* the text itself stays */
	block_all(&all, &before);
	pid = fork();
	if (pid == 0)
		execute(program, argv, &before);
	if (pid < 0) {
		fprintf(stderr, "gpuckpt: cannot start %s: %s\n", program, strerror(errno));
		return 1;
	}
	status = await_end(pid, &all);
	if (WIFSIGNALED(status))
		end_by(WTERMSIG(status));
	return WEXITSTATUS(status);
}

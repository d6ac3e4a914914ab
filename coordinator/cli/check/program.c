/* SPDX-License-Identifier: Apache-2.0
 * A program that is run for what it prints. */
#include "config.h"

#include "coordinator/cli/check/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOT_EXECUTED 127

static _Noreturn void become(int out, const char *const argv[], const char *setting)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
	dup2(out, 1);
	dup2(out, 2);
	if (!setting || putenv((char *)(uintptr_t)setting) == 0)
		execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(NOT_EXECUTED);
}

int program_start(const char *const argv[], const char *setting, pid_t *pid)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	*pid = fork();
	if (*pid == 0)
		become(p[1], argv, setting);
	close(p[1]);
	if (*pid > 0)
		return p[0];
	close(p[0]);
	return -1;
}

int program_end(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) != NOT_EXECUTED ? WEXITSTATUS(status) : -1;
}

static int left_ms(time_t end)
{
	time_t now = time(NULL);

	return now < end ? (int)(end - now) * 1000 : 0;
}

/* Read until all writers have closed it. What does not fit is dropped. -1: it took too long. */
static int read_all(int fd, char *text, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	time_t end = time(NULL) + PROGRAM_S;
	size_t used = 0;
	char rest[512];

	for (;;) {
		bool full = used == size - 1;
		ssize_t n;

		if (poll(&p, 1, left_ms(end)) <= 0)
			return -1;
		n = full ? read(fd, rest, sizeof rest) : read(fd, text + used, size - 1 - used);
		if (n <= 0)
			return 0;
		used += full ? 0 : (size_t)n;
		text[used] = '\0';
	}
}

int program_run(const char *const argv[], const char *setting, char *text, size_t size)
{
	pid_t pid;
	int fd = program_start(argv, setting, &pid);

	*text = '\0';
	if (fd < 0)
		return -1;
	if (read_all(fd, text, size) < 0)
		kill(pid, SIGKILL);
	close(fd);
	return program_end(pid);
}

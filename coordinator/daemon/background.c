/* SPDX-License-Identifier: Apache-2.0
 * Becoming a background process. */
#include "config.h"

#include "coordinator/daemon/daemon.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int ready_fd = -1; /* to the parent */

/* The child writes one byte when it is ready. If it ends without, it has reported its failure. */
static void wait_for_child(int fd, pid_t pid)
{
	char byte;
	ssize_t n;
	int status;

	do
		n = read(fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		_exit(0);
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1);
}

int gck_background_begin(struct gck_error *err)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return gck_fail(err, errno, "cannot go into the background: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		return gck_fail(err, errno, "cannot go into the background: %s", strerror(errno));
	if (pid > 0) {
		close(fds[1]);
		wait_for_child(fds[0], pid);
	}
	close(fds[0]);
	ready_fd = fds[1];
	setsid();
	return 0;
}

int gck_background_done(struct gck_error *err)
{
	int null;

	if (ready_fd < 0)
		return 0;
	null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0)
		return gck_fail(err, errno, "cannot open /dev/null: %s", strerror(errno));
	if (null > STDERR_FILENO)
		close(null);
	if (chdir("/"))
		return gck_fail(err, errno, "cannot change to /: %s", strerror(errno));
	if (write(ready_fd, "", 1) != 1)
		return gck_fail(err, errno, "cannot tell the parent: %s", strerror(errno));
	close(ready_fd);
	ready_fd = -1;
	return 0;
}

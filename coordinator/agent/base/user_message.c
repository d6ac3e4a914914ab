/* SPDX-License-Identifier: Apache-2.0
 * A line for the user. */
#include "coordinator/agent/base/user_message.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/agent/base/task_stdio.h"

/* A program may have closed what it was given, and have a file of results there. */
static bool may_write(const struct task *t, int fd)
{
	struct given given;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	given_read(t, &given);
	return !S_ISREG(st.st_mode) || given_has(&given, &st);
}

/* Through /proc a process of the same user opens the pipe or file behind the descriptor. Never
 * waits: a full pipe loses the line, which the log still has. */
static int say_to(const struct task *t, const char *line, size_t len)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/fd/2", (int)t->pid);
	fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -1;
	n = may_write(t, fd) ? write(fd, line, len) : -1;
	close(fd);
	return n == (ssize_t)len ? 0 : -1;
}

void say_to_user(const struct tasks *t, const char *fmt, ...)
{
	char line[1024], text[960];
	va_list ap;
	int len;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	gck_warn("%s", text);
	len = snprintf(line, sizeof line, "gpuckpt: %s\n", text);
	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i]->ended && say_to(t->v[i], line, (size_t)len) == 0)
			return;
}

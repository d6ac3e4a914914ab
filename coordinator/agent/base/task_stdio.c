/* SPDX-License-Identifier: Apache-2.0
 * The standard descriptors of a task, and a line for the user on one of them. */
#include "config.h"

#include "coordinator/agent/base/task_stdio.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/log.h"

void task_stdio_read(const struct task *t, struct task_stdio *g)
{
	struct iovec to = { g, sizeof *g }, from = { NULL, sizeof *g };

	memset(g, 0, sizeof *g);
	if (!t->shim_state)
		return;
	from.iov_base = (void *)(uintptr_t)(t->shim_state + offsetof(struct gck_shim_state, stdio));
	if (process_vm_readv(t->pid, &to, 1, &from, 1, 0) != (ssize_t)sizeof *g)
		memset(g, 0, sizeof *g);
}

bool task_stdio_has(const struct task_stdio *g, const struct stat *st)
{
	for (int i = 0; i < 3; i++)
		if (g->v[i][1] && g->v[i][0] == st->st_dev && g->v[i][1] == st->st_ino)
			return true;
	return false;
}

/* ---- a line for the user ------------------------------------------------------------------- */

/* A program may have closed its standard error and opened a file of results as descriptor 2. */
static bool may_write(const struct task *t, int fd)
{
	struct task_stdio given;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	task_stdio_read(t, &given);
	return !S_ISREG(st.st_mode) || task_stdio_has(&given, &st);
}

/* A process of the same user can open the pipe or file behind a descriptor through /proc. */
static int open_output(pid_t pid, int fd)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
	return open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

/* Never waits: if the pipe is full, only the log has the line. */
static int say_to(const struct task *t, const char *line, size_t len)
{
	int fd = open_output(t->pid, 2);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = may_write(t, fd) ? write(fd, line, len) : -1;
	close(fd);
	return n == (ssize_t)len ? 0 : -1;
}

void say_on(pid_t pid, int fd, const char *text)
{
	int out = open_output(pid, fd);

	gck_info("%s", text);
	if (out < 0)
		return;
	(void)!dprintf(out, "gpuckpt: %s\n", text);
	close(out);
}

static bool say(const struct tasks *t, const char *lines)
{
	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i]->ended && say_to(t->v[i], lines, strlen(lines)) == 0)
			return true;
	return false;
}

static bool may_link(const struct tasks *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i]->ended && !t->v[i]->link)
			return true;
	return t->n == 0;
}

void say_unsaid(struct tasks *t)
{
	if (*t->unsaid && (say(t, t->unsaid) || !may_link(t)))
		*t->unsaid = '\0';
}

void say_to_user(struct tasks *t, const char *fmt, ...)
{
	char line[1024], text[960];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	gck_warn("%s", text);
	snprintf(line, sizeof line, "gpuckpt: %s\n", text);
	say_unsaid(t);
	if ((*t->unsaid || !say(t, line)) && may_link(t) &&
	    strlen(t->unsaid) + strlen(line) < sizeof t->unsaid)
		strcat(t->unsaid, line);
}

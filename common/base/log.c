/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINE 4096

static char log_name[64] = "gpuckpt";
static enum gck_log_level log_level = GCK_LOG_INFO;
static int log_fd = STDERR_FILENO;

/* Other users may create files in the log's directory: do not write to a file or link that one of
 * them made under the log's name. Only root can make a device such as /dev/null. */
static int open_file(const char *path)
{
	struct stat st;
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW |
		      O_NONBLOCK, 0600);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && (S_ISCHR(st.st_mode) || (S_ISREG(st.st_mode) &&
	    st.st_uid == geteuid() && st.st_nlink == 1)))
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

int gck_log_open(const char *name, const char *path, enum gck_log_level level)
{
	int fd = STDERR_FILENO;

	if (path) {
		fd = open_file(path);
		if (fd < 0)
			return -1;
	}
	if (log_fd != STDERR_FILENO)
		close(log_fd);
	log_fd = fd;
	log_level = level;
	snprintf(log_name, sizeof log_name, "%s", name);
	return 0;
}

void gck_log_as_stderr(void)
{
	if (log_fd != STDERR_FILENO && dup2(log_fd, STDERR_FILENO) == STDERR_FILENO) {
		close(log_fd);
		log_fd = STDERR_FILENO;
	}
}

static int put_time(char *line, size_t size)
{
	struct timespec now;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &tm);
	n = strftime(line, size, "%FT%T", &tm);
	return (int)n + snprintf(line + n, size - n, ".%03ld", now.tv_nsec / 1000000);
}

void gck_log(enum gck_log_level level, const char *fmt, ...)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	char line[MAX_LINE];
	int saved = errno;
	size_t n, capacity;
	va_list ap;
	int m;

	if (level > log_level)
		return;
	n = (size_t)put_time(line, sizeof line);
	n += (size_t)snprintf(line + n, sizeof line - n, " %s[%d] %s: ", log_name, (int)getpid(),
			      names[level]);
	capacity = sizeof line - n - 1; /* the newline takes the NUL's place */
	va_start(ap, fmt);
	m = vsnprintf(line + n, capacity, fmt, ap);
	va_end(ap);
	for (size_t end = n + (m < 0 ? 0 : (size_t)m < capacity ? (size_t)m : capacity - 1);
	     n < end; n++)
		if ((unsigned char)line[n] < ' ' || line[n] == 0x7f)
			line[n] = '?';
	line[n++] = '\n';
	/* One write per line, so that lines of several processes do not mix. */
	if (write(log_fd, line, n) < 0)
		errno = saved;
	errno = saved;
}

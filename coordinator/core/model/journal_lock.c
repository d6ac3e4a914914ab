/* SPDX-License-Identifier: Apache-2.0
 * One coordinator for a StateDir: a locked file that holds the pid of whoever has the lock. */
#include "coordinator/core/model/journal.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int refuse(int fd, const char *path, struct gck_error *err)
{
	char pid[32] = "";
	int code = errno;
	ssize_t n;

	if (code != EWOULDBLOCK) {
		close(fd);
		return gck_fail(err, code, "cannot lock %s: %s", path, strerror(code));
	}
	n = pread(fd, pid, sizeof pid - 1, 0);
	pid[n > 0 ? strcspn(pid, "\n") : 0] = '\0';
	close(fd);
	return gck_fail(err, EBUSY, "another gpuckptd, pid %s, has %s locked; stop it first",
			*pid ? pid : "unknown", path);
}

/* The fd stays open, without a name in any struct, as long as the process lives. */
int gck_journal_lock(const char *dir, struct gck_error *err)
{
	char path[PATH_MAX], pid[32];
	int fd, n;

	if ((size_t)snprintf(path, sizeof path, "%s/lock", dir) >= sizeof path)
		return gck_fail(err, ENAMETOOLONG, "StateDir=%s is too long", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return gck_fail(err, errno, "cannot open %s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB))
		return refuse(fd, path, err);
	n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) || pwrite(fd, pid, (size_t)n, 0) != n) {
		gck_fail(err, errno, "cannot write %s: %s", path, strerror(errno));
		close(fd);
		return -1;
	}
	return 0;
}

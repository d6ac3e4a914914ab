/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "common/place/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/fd_passing.h"

#define UNKNOWN 65534 /* the kernel's overflowuid and overflowgid, unless somebody has set them */

struct owner {
	uid_t uid;
	gid_t gid;
};

static int asked = -1;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

void gck_owner_ask(int socket)
{
	asked = socket;
}

/* A file of the real nobody is asked for, too. */
static bool is_unknown(const struct stat *st)
{
	return asked >= 0 && (st->st_uid == UNKNOWN || st->st_gid == UNKNOWN);
}

static int ask(int fd, struct stat *st)
{
	struct owner o;
	ssize_t n;

	pthread_mutex_lock(&one_at_a_time);
	n = gck_fd_send(asked, "", 1, &fd, 1, 0);
	if (n == 1)
		n = recv(asked, &o, sizeof o, 0);
	pthread_mutex_unlock(&one_at_a_time);
	if (n != (ssize_t)sizeof o)
		return errno = EIO, -1;
	st->st_uid = o.uid;
	st->st_gid = o.gid;
	return 0;
}

int gck_owner_fstat(int fd, struct stat *st)
{
	if (fstat(fd, st) < 0)
		return -1;
	return is_unknown(st) ? ask(fd, st) : 0;
}

int gck_owner_fstatat(int dir, const char *path, struct stat *st, int flags)
{
	int fd, rc;

	if (fstatat(dir, path, st, flags) < 0)
		return -1;
	if (!is_unknown(st))
		return 0;
	fd = openat(dir, path, O_PATH | O_CLOEXEC |
		    (flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0));
	if (fd < 0)
		return -1;
	rc = gck_owner_fstat(fd, st);
	close(fd);
	return rc;
}

void gck_owner_serve(int socket)
{
	struct stat st;
	int fd;

	for (;;) {
		struct owner o = { UNKNOWN, UNKNOWN };
		size_t n = 1;
		char c;
		ssize_t got = gck_fd_receive(socket, &c, 1, &fd, &n, 0);

		if (got == 0 || (got < 0 && errno != EINTR))
			return;
		if (n && fstat(fd, &st) == 0)
			o = (struct owner){ st.st_uid, st.st_gid };
		if (n)
			close(fd);
		if (got > 0)
			gck_fd_send(socket, &o, sizeof o, NULL, 0, 0);
	}
}

/* SPDX-License-Identifier: Apache-2.0
 * Unix sockets that a process which is being rebuilt makes itself. */
#include "config.h"

#include "shim/process/ptrace/socket_maker.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process/ptrace/fd_channel.h"

struct gck_restore *gck_restore_find(struct gck_restore *r, int32_t vpid)
{
	struct gck_restore *found = r->img->vpid == vpid ? r : NULL;

	for (size_t i = 0; i < r->nchildren && !found; i++)
		found = gck_restore_find(r->children[i], vpid);
	return found;
}

/* Its result; -1 with errno. */
static int64_t call(struct gck_restore *by, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	struct gck_error why;
	int64_t r = gck_remote_call(&by->remote, by->remote.pid, &why, nr, a, b, c, d);

	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

static int take(const struct gck_restore *by, int theirs)
{
	struct gck_error why;

	return gck_restore_take(by, theirs, &why);
}

static void close_in(struct gck_restore *by, int theirs)
{
	int error = errno;

	call(by, SYS_close, (uint64_t)theirs, 0, 0, 0);
	errno = error;
}

int gck_socket_make(struct gck_made_socket *m, struct gck_restore *by, int type)
{
	*m = (struct gck_made_socket){.fd = -1, .by = by, .theirs = -1};
	if (!by) {
		m->fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
		return m->fd < 0 ? -1 : 0;
	}
	m->theirs = (int)call(by, SYS_socket, AF_UNIX, (uint64_t)(type | SOCK_CLOEXEC), 0, 0);
	if (m->theirs < 0)
		return -1;
	m->fd = take(by, m->theirs);
	if (m->fd < 0)
		gck_socket_leave(m);
	return m->fd < 0 ? -1 : 0;
}

int gck_socket_listen(const struct gck_made_socket *m, int backlog)
{
	return m->by ? (int)call(m->by, SYS_listen, (uint64_t)m->theirs, (uint64_t)backlog, 0, 0)
		     : listen(m->fd, backlog);
}

int gck_socket_connect(const struct gck_made_socket *m, const struct sockaddr *to, socklen_t n)
{
	struct gck_error why;

	if (!m->by)
		return connect(m->fd, to, n);
	if (gck_remote_write(&m->by->remote, m->by->remote.scratch, to, n, &why))
		return errno = EFAULT, -1;
	return (int)call(m->by, SYS_connect, (uint64_t)m->theirs, m->by->remote.scratch, n, 0);
}

void gck_socket_leave(struct gck_made_socket *m)
{
	if (m->theirs >= 0)
		close_in(m->by, m->theirs);
	m->theirs = -1;
}

static int take_both(struct gck_restore *by, const int theirs[2], int end[2])
{
	int both[2] = {take(by, theirs[0]), -1};

	if (both[0] < 0)
		return -1;
	both[1] = take(by, theirs[1]);
	if (both[1] < 0) {
		close(both[0]);
		return -1;
	}
	end[0] = both[0];
	end[1] = both[1];
	return 0;
}

int gck_socket_pair(struct gck_restore *by, int type, int end[2])
{
	struct gck_error why;
	int theirs[2], failed;

	type |= SOCK_CLOEXEC;
	if (!by)
		return socketpair(AF_UNIX, type, 0, end);
	if (call(by, SYS_socketpair, AF_UNIX, (uint64_t)type, 0, by->remote.scratch))
		return -1;
	if (gck_remote_read(&by->remote, by->remote.scratch, theirs, sizeof theirs, &why))
		return errno = EFAULT, -1;
	failed = take_both(by, theirs, end);
	close_in(by, theirs[0]);
	close_in(by, theirs[1]);
	return failed;
}

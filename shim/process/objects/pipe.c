/* SPDX-License-Identifier: Apache-2.0
 * Descriptors with two ends, pipes and socketpairs: is the other one in the rank, too? */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/process/objects/fds.h"
#include "shim/process/proc/procfs.h"

int gck_fd_pipe(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	int copy = gck_target_fd(s->t, v->fd), size;

	if (copy < 0)
		return gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", v->fd,
				(int)s->t->pid, strerror(errno));
	size = fcntl(copy, F_GETPIPE_SZ);
	close(copy);
	x->kind = GCK_FD_PIPE;
	x->id = v->st.st_ino;
	x->pipe_size = size > 0 ? (uint32_t)size : 0;
	x->write_end = (x->flags & O_ACCMODE) == O_WRONLY;
	if ((x->flags & O_ACCMODE) == O_RDWR)
		gck_find(s->f, true, v->object, "use pipe()",
			 "a pipe opened for reading and writing");
	return 0;
}

/* Does anybody have the other end of this pipe? */
static int pipe_peer(struct gck_scan *s, int fd, bool write_end)
{
	struct pollfd p = {.fd = gck_target_fd(s->t, fd), .events = POLLIN};

	if (p.fd < 0)
		return gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", fd,
				(int)s->t->pid, strerror(errno));
	poll(&p, 1, 0);
	close(p.fd);
	return !(p.revents & (write_end ? POLLERR : POLLHUP));
}

/* 1 if the end is somewhere else, 0 if nowhere or in the rank. */
static int outside(struct gck_scan *s, size_t i, const int *fds)
{
	struct gck_file *x = &s->img->files[i];
	size_t other = 0, same = 0;

	for (size_t k = 0; k < s->img->nfiles; k++) {
		const struct gck_file *o = &s->img->files[k];

		if (k == i || o->kind != x->kind || o->id != x->id)
			continue;
		if (x->kind == GCK_FD_PIPE && o->write_end == x->write_end)
			same++;
		else
			other++;
	}
	if (same) {
		char object[32];

		snprintf(object, sizeof(object), "fd %d", fds[i]);
		gck_find(s->f, true, object, "use dup()", "an end of a pipe was opened twice");
	}
	if (other)
		return 0;
	return x->kind == GCK_FD_PIPE ? pipe_peer(s, fds[i], x->write_end) : x->count != 0;
}

int gck_fds_check_ends(struct gck_scan *s, const int *fds)
{
	for (size_t i = 0; i < s->img->nfiles; i++) {
		struct gck_file *x = &s->img->files[i];
		char object[32];
		int result;

		if (x->kind != GCK_FD_PIPE && x->kind != GCK_FD_SOCKETPAIR)
			continue;
		result = outside(s, i, fds);
		if (result < 0)
			return -1;
		snprintf(object, sizeof(object), "fd %d", fds[i]);
		if (result)
			gck_find(s->f, true, object, "close it before a checkpoint",
				 "the other end of a %s is in another process",
				 x->kind == GCK_FD_PIPE ? "pipe" : "socketpair");
	}
	for (size_t i = 0; i < s->img->nfiles; i++)
		if (s->img->files[i].kind == GCK_FD_SOCKETPAIR)
			s->img->files[i].count = 0;
	return 0;
}

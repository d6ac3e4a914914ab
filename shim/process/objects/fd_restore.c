/* SPDX-License-Identifier: Apache-2.0
 * Restore: all of the image's descriptors, in the order of its files; shutdowns, and what epoll
 * watches, when all are there. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process/ptrace/rebuild.h"

static int place_one(struct gck_restore *r, size_t i, struct gck_error *err)
{
	int fd, failed;

	if (r->img->files[i].kind == GCK_FD_STDIO)
		return gck_restore_place(r, i, -1, err);
	fd = gck_restore_make(r, i, err);
	if (fd < 0)
		return -1;
	failed = gck_restore_place(r, i, fd, err);
	close(fd);
	return failed;
}

static const struct gck_fd *first_fd(const struct gck_restore *r, size_t file)
{
	for (size_t i = 0; i < r->img->nfds; i++)
		if (r->img->fds[i].file == file)
			return &r->img->fds[i];
	return NULL;
}

static void close_pairs(struct gck_restore *r)
{
	for (size_t i = 0; i < r->npairs; i++) {
		close(r->pairs[i].end[0]);
		close(r->pairs[i].end[1]);
	}
	r->npairs = 0;
}

/* What was shut down stays so; only now, since both ends have been refilled. */
static int shut_down(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_file *f = &r->img->files[i];
		const struct gck_fd *d = first_fd(r, i);

		if (f->kind == GCK_FD_SOCKETPAIR && f->shutdown && d &&
		    gck_remote_call(&r->remote, r->remote.pid, err, SYS_shutdown, (uint64_t)d->fd,
				    f->shutdown == 3   ? SHUT_RDWR
				    : f->shutdown == 2 ? SHUT_WR
						       : SHUT_RD))
			return gck_fail(err, EIO, "descriptor %d: shutting its socket down failed",
					d->fd);
	}
	return 0;
}

static int watch(struct gck_restore *r, int epoll, const struct gck_epoll_entry *e,
		 struct gck_error *err)
{
	struct epoll_event event = {.events = e->events, .data.u64 = e->data};
	int64_t result;

	if (gck_remote_write(&r->remote, r->remote.scratch, &event, sizeof event, err))
		return -1;
	result = gck_remote_call(&r->remote, r->remote.pid, err, SYS_epoll_ctl, (uint64_t)epoll,
				 EPOLL_CTL_ADD, (uint64_t)e->fd, r->remote.scratch);
	if (result)
		return gck_fail(err, (int)-result, "epoll descriptor %d cannot watch %d again: %s",
				epoll, e->fd, strerror((int)-result));
	return 0;
}

/* Added by the target itself: a signalfd is watched for the process that adds it. */
static int watch_all(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_file *f = &r->img->files[i];
		const struct gck_fd *d = first_fd(r, i);

		for (size_t k = 0; d && k < f->nentries; k++)
			if (watch(r, d->fd, &f->entries[k], err))
				return -1;
	}
	return 0;
}

int gck_restore_fds(struct gck_restore *r, struct gck_error *err)
{
	int failed = 0;

	for (size_t i = 0; i < r->img->nfiles && !failed; i++)
		if (!r->deferred[i])
			failed = place_one(r, i, err);
	close_pairs(r);
	return failed || shut_down(r, err) || watch_all(r, err) ? -1 : 0;
}

/* Files whose names were missing until gck_restore_files made them again. */
int gck_restore_deferred(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++)
		if (r->deferred[i] && place_one(r, i, err))
			return -1;
	return 0;
}

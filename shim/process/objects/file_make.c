/* SPDX-License-Identifier: Apache-2.0
 * Restore: make an open file as the image has it, in this process. Whatever depends on the target
 * (epoll's entries, armed timers) comes later. Each maker returns a descriptor or -1. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim/process/ptrace/rebuild.h"

#define NOT_AGAIN (O_CREAT | O_EXCL | O_TRUNC)
#define SET_LATER (O_APPEND | O_NONBLOCK | O_ASYNC | O_DIRECT | O_NOATIME)

static const char *name_of(const struct gck_file *f)
{
	return f->path ? f->path : "";
}

static int fail_on(struct gck_error *err, const struct gck_file *f, const char *what)
{
	return gck_fail(err, errno, "%s %s: %s", what, name_of(f), strerror(errno));
}

/* Close fd with err filled. */
static int drop(int fd)
{
	close(fd);
	return -1;
}

/* How to open it: not made anew, and no directory because of O_TMPFILE, which contains that bit. */
static int open_flags(const struct gck_file *f)
{
	int flags = (int)f->flags & ~NOT_AGAIN;

	return (f->kind == GCK_FD_DIR ? flags : flags & ~O_TMPFILE) | O_CLOEXEC | O_NOCTTY;
}

static int seek(int fd, const struct gck_file *f)
{
	return f->flags & O_PATH || f->kind == GCK_FD_DEVICE || lseek(fd, f->offset, SEEK_SET) >= 0
		       ? 0
		       : -1;
}

/* The same file opened anew: an open file description of its own, with the image's flags. */
static int reopen(int fd, const struct gck_file *f, struct gck_error *err)
{
	char path[64];
	int own;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	own = open(path, open_flags(f));
	if (own < 0)
		return fail_on(err, f, "opening");
	if (seek(own, f))
		return fail_on(err, f, "seeking in"), drop(own);
	return own;
}

static int make_path(const struct gck_file *f, struct gck_error *err)
{
	int fd = open(f->path, open_flags(f));

	if (fd < 0)
		return fail_on(err, f, "opening");
	if (seek(fd, f))
		return fail_on(err, f, "seeking in"), drop(fd);
	return fd;
}

/* A file that has no name any more: one without a name in the same directory, else in memory. */
static int make_unlinked(struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	char path[PATH_MAX];
	int fd, own;

	snprintf(path, sizeof path, "%s", f->path);
	fd = open(dirname(path), O_TMPFILE | O_RDWR | O_CLOEXEC, f->mode & 07777);
	if (fd < 0)
		fd = memfd_create(f->path, MFD_CLOEXEC);
	if (fd < 0)
		return fail_on(err, f, "making anew the deleted file");
	if (gck_restore_fill_file(r, &f->data, f->size, fd, f->path, err))
		return drop(fd);
	own = reopen(fd, f, err);
	close(fd);
	return own;
}

static int make_eventfd(const struct gck_file *f, struct gck_error *err)
{
	int fd = eventfd(0, EFD_CLOEXEC | (f->semaphore ? EFD_SEMAPHORE : 0) |
				    (f->flags & O_NONBLOCK ? EFD_NONBLOCK : 0));

	if (fd < 0)
		return fail_on(err, f, "eventfd");
	if (f->count && write(fd, &f->count, sizeof f->count) != sizeof f->count)
		return fail_on(err, f, "setting an eventfd"), drop(fd);
	return fd;
}

static int make_signalfd(const struct gck_file *f, struct gck_error *err)
{
	int fd = (int)syscall(SYS_signalfd4, -1, &f->sigmask, sizeof f->sigmask,
			      SFD_CLOEXEC | (f->flags & O_NONBLOCK));

	return fd < 0 ? fail_on(err, f, "signalfd") : fd;
}

static int make_timerfd(const struct gck_file *f, struct gck_error *err)
{
	int fd = timerfd_create(f->clock, TFD_CLOEXEC | (int)(f->flags & O_NONBLOCK));

	return fd < 0 ? fail_on(err, f, "timerfd") : fd;
}

static int make_epoll(const struct gck_file *f, struct gck_error *err)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	return fd < 0 ? fail_on(err, f, "epoll") : fd;
}

/* ---- pipes and socketpairs: both ends at the first, the other is taken when it comes -------- */

static struct gck_pair *find_pair(struct gck_restore *r, const struct gck_file *f)
{
	for (size_t i = 0; i < r->npairs; i++)
		if (r->pairs[i].id == f->id && r->pairs[i].kind == f->kind)
			return &r->pairs[i];
	return NULL;
}

static struct gck_pair *add_pair(struct gck_restore *r, const struct gck_file *f,
				 struct gck_error *err)
{
	struct gck_pair *more = reallocarray(r->pairs, r->npairs + 1, sizeof *more);
	struct gck_pair pair = {.kind = f->kind, .id = f->id};
	int made;

	if (!more) {
		gck_fail(err, ENOMEM, "no memory for %zu pipes", r->npairs + 1);
		return NULL;
	}
	r->pairs = more;
	if (f->kind == GCK_FD_PIPE)
		made = pipe2(pair.end, O_CLOEXEC);
	else
		made = socketpair(AF_UNIX, f->sock_type | SOCK_CLOEXEC, 0, pair.end);
	if (made) {
		fail_on(err, f, f->kind == GCK_FD_PIPE ? "pipe" : "socketpair");
		return NULL;
	}
	r->pairs[r->npairs] = pair;
	return &r->pairs[r->npairs++];
}

/* What was written and not yet read goes in again, without waiting for room. */
static int put_back(struct gck_restore *r, const struct gck_file *f, int from, int into)
{
	int flags = fcntl(into, F_GETFL);
	ssize_t n = 1;

	if (flags < 0 || fcntl(into, F_SETFL, flags | O_NONBLOCK))
		return -1;
	for (uint64_t done = 0; n > 0 && done < f->data_size; done += (uint64_t)n) {
		n = pread(from, r->buffer, GCK_CHUNK_MAX, (off_t)done);
		if (n > 0)
			n = write(into, r->buffer, (size_t)n);
	}
	return n <= 0 || fcntl(into, F_SETFL, flags) ? -1 : 0;
}

static int refill(struct gck_restore *r, const struct gck_file *f, int into, struct gck_error *err)
{
	int failed, staged = memfd_create("gpuckpt", MFD_CLOEXEC);

	if (staged < 0)
		return fail_on(err, f, "memfd");
	failed = gck_restore_fill_file(r, &f->data, f->data_size, staged, "what waits in a pipe",
				       err);
	if (!failed && put_back(r, f, staged, into))
		failed = gck_fail(err, errno, "putting %llu bytes back into a pipe or socket: %s",
				  (unsigned long long)f->data_size, strerror(errno));
	close(staged);
	return failed;
}

static int set_status(int fd, const struct gck_file *f, struct gck_error *err)
{
	return fcntl(fd, F_SETFL, (int)(f->flags & SET_LATER)) ? fail_on(err, f, "fcntl") : 0;
}

static int make_pipe(struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	struct gck_pair *pair = find_pair(r, f);
	int side = f->write_end ? 1 : 0;

	if (!pair && !(pair = add_pair(r, f, err)))
		return -1;
	if (f->pipe_size && fcntl(pair->end[1], F_GETPIPE_SZ) != (int)f->pipe_size &&
	    fcntl(pair->end[1], F_SETPIPE_SZ, (int)f->pipe_size) < 0)
		return fail_on(err, f, "setting the size of a pipe");
	if (f->data_size && refill(r, f, pair->end[1], err))
		return -1;
	if (set_status(pair->end[side], f, err))
		return -1;
	return dup(pair->end[side]);
}

/* An end's data is what it can still receive: the other end sends it. */
static int make_socket(struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	struct gck_pair *pair = find_pair(r, f);
	int side = pair ? 1 : 0;

	if (!pair && !(pair = add_pair(r, f, err)))
		return -1;
	if (f->data_size && f->sock_type != SOCK_STREAM)
		return gck_fail(err, ENOTSUP, "messages that wait in a socketpair are not carried");
	if (f->data_size && refill(r, f, pair->end[!side], err))
		return -1;
	if (set_status(pair->end[side], f, err))
		return -1;
	return dup(pair->end[side]);
}

static int make_listener(const struct gck_file *f, struct gck_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + f->name_size;
	int fd = socket(AF_UNIX, f->sock_type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return fail_on(err, f, "socket");
	memcpy(a.sun_path + 1, f->name, f->name_size);
	if (bind(fd, (struct sockaddr *)&a, (socklen_t)size) || listen(fd, (int)f->count)) {
		gck_fail(err, errno, "listening at @%.*s: %s", (int)f->name_size,
			 (const char *)f->name, strerror(errno));
		return drop(fd);
	}
	return set_status(fd, f, err) ? drop(fd) : fd;
}

int gck_restore_make(struct gck_restore *r, size_t i, struct gck_error *err)
{
	const struct gck_file *f = &r->img->files[i];

	switch (f->kind) {
	case GCK_FD_FILE:
		return f->unlinked ? make_unlinked(r, f, err) : make_path(f, err);
	case GCK_FD_DIR:
	case GCK_FD_DEVICE:
		return make_path(f, err);
	case GCK_FD_PIPE:
		return make_pipe(r, f, err);
	case GCK_FD_SOCKETPAIR:
		return make_socket(r, f, err);
	case GCK_FD_LISTENER:
		return make_listener(f, err);
	case GCK_FD_EVENTFD:
		return make_eventfd(f, err);
	case GCK_FD_EPOLL:
		return make_epoll(f, err);
	case GCK_FD_TIMERFD:
		return make_timerfd(f, err);
	case GCK_FD_SIGNALFD:
		return make_signalfd(f, err);
	case GCK_FD_MEMFD:
		return reopen(r->objects[f->object], f, err);
	case GCK_FD_STDIO:
		break;
	}
	return gck_fail(err, EINVAL, "file %zu of the image is of an unknown kind", i);
}

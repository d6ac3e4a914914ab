/* SPDX-License-Identifier: Apache-2.0
 * Copying contents of files, pipes and socketpairs while the rank is held. Nothing is consumed. */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/process/objects/fds.h"
#include "shim/process/objects/file_copy.h"
#include "shim/process/objects/log_prefix.h"

static int hold_file(struct gck_hold *h, uint32_t i)
{
	struct gck_file *x = &h->img->files[i];
	int fd = gck_fd_reopen(h->t, gck_image_fd_of(h->img, i), h->err), result;

	if (fd < 0)
		return -1;
	x->data_size = x->size;
	result = gck_kept_file(h->kept, GCK_KEPT_FILE, i, fd, x->size, h->err) ||
		 (!x->unlinked && gck_outside_add(h->outside, GCK_KEPT_FILE, i, fd, x->size,
						  x->mtime_ns, h->err));
	close(fd);
	return result ? gck_fail_in(h->err, "%s", x->path) : 0;
}

/* Duplicate what is in a pipe into one of ours (tee(2) consumes nothing), then read that. */
static ssize_t tee_pipe(int from, size_t size, char *data)
{
	int pair[2];
	ssize_t n, done = 0;

	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK))
		return -1;
	if (fcntl(pair[1], F_SETPIPE_SZ, (int)size) < 0) {
		close(pair[0]);
		close(pair[1]);
		return -1;
	}
	n = tee(from, pair[1], size, SPLICE_F_NONBLOCK);
	close(pair[1]);
	while (done < n) {
		ssize_t got = read(pair[0], data + done, (size_t)(n - done));

		if (got <= 0)
			break;
		done += got;
	}
	close(pair[0]);
	return done;
}

static int keep_bytes(struct gck_hold *h, uint32_t i, const char *data, size_t n)
{
	h->img->files[i].data_size = n;
	return gck_kept_bytes(h->kept, GCK_KEPT_FILE, i, data, n, h->err);
}

static int hold_pipe(struct gck_hold *h, uint32_t i)
{
	const struct gck_file *x = &h->img->files[i];
	int fd = gck_target_fd(h->t, gck_image_fd_of(h->img, i)), bytes = 0, result;
	char *data;

	if (fd < 0 || ioctl(fd, FIONREAD, &bytes)) {
		result = gck_fail(h->err, errno, "cannot look into a pipe: %s", strerror(errno));
	} else if (!bytes) {
		result = 0;
	} else if (x->flags & O_DIRECT) {
		result = gck_fail(h->err, EAGAIN, "a pipe of packets (O_DIRECT) is not empty; try "
				  "again");
	} else {
		data = malloc((size_t)bytes);
		result = data && tee_pipe(fd, x->pipe_size, data) == bytes
				 ? keep_bytes(h, i, data, (size_t)bytes)
				 : gck_fail(h->err, data ? errno : ENOMEM, "cannot copy the %d "
					    "bytes in a pipe (is fs.pipe-user-pages-soft "
					    "reached?)", bytes);
		free(data);
	}
	if (fd >= 0)
		close(fd);
	return result;
}

/* Look at what waits in a socket, and at descriptors that come with it. */
static ssize_t peek(int fd, char *data, size_t size, bool *descriptors)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(253 * sizeof(int)) + 256];
	} control;
	struct iovec part = {data, size};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*descriptors = false;
	for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		*descriptors = true;
		for (size_t k = 0; k < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); k++) {
			int got;

			memcpy(&got, CMSG_DATA(c) + k * sizeof(int), sizeof(got));
			close(got);
		}
	}
	return n;
}

static int hold_socket(struct gck_hold *h, uint32_t i)
{
	const struct gck_file *x = &h->img->files[i];
	int fd = gck_target_fd(h->t, gck_image_fd_of(h->img, i)), bytes = 0, result = 0;
	bool descriptors = false;
	char *data = NULL;

	if (fd < 0 || ioctl(fd, FIONREAD, &bytes)) {
		result = gck_fail(h->err, errno, "cannot look into a socketpair: %s",
				  strerror(errno));
	} else if (bytes && x->sock_type != SOCK_STREAM) {
		result = gck_fail(h->err, EAGAIN, "packets are under way in a socketpair; try "
				  "again");
	} else if (bytes) {
		data = malloc((size_t)bytes);
		if (!data || peek(fd, data, (size_t)bytes, &descriptors) != bytes || descriptors)
			result = gck_fail(h->err, EAGAIN, "cannot copy the %d bytes in a "
					  "socketpair%s; try again", bytes,
					  descriptors ? ": a descriptor comes with them" : "");
		else
			result = keep_bytes(h, i, data, (size_t)bytes);
	}
	free(data);
	if (fd >= 0)
		close(fd);
	return result;
}

static int hold_one(struct gck_hold *h, uint32_t i)
{
	const struct gck_file *x = &h->img->files[i];

	if (x->kind == GCK_FD_FILE && (x->whole || x->unlinked))
		return hold_file(h, i);
	if (x->kind == GCK_FD_PIPE && !x->write_end)
		return hold_pipe(h, i);
	if (x->kind == GCK_FD_SOCKETPAIR)
		return hold_socket(h, i);
	return 0;
}

int gck_hold_files(struct gck_hold *h)
{
	for (uint32_t i = 0; i < h->img->nfiles; i++)
		if (hold_one(h, i))
			return gck_fail_in(h->err, "fd %d", gck_image_fd_of(h->img, i));
	return 0;
}

static int settle(struct gck_hold *h, const struct gck_outside *x)
{
	struct gck_file *f = x->of == GCK_KEPT_FILE ? &h->img->files[x->index] : NULL;
	const char *name = f ? f->path : h->img->objects[x->index].name;
	struct stat now;
	bool same;

	if (gck_outside_same(x, &now, &same, h->err))
		return gck_fail_in(h->err, "%s", name);
	if (same)
		return 0;
	if (!f || !(f->flags & O_APPEND) || (uint64_t)now.st_size < x->size)
		return gck_fail(h->err, EAGAIN, "%s, whose content is in the checkpoint, was "
				"changed by another process while this one was held; try again",
				name);
	f->size = f->data_size = (uint64_t)now.st_size;
	f->mtime_ns = gck_mtime_ns(&now);
	gck_kept_drop(h->kept, GCK_KEPT_FILE, x->index);
	return gck_kept_file(h->kept, GCK_KEPT_FILE, x->index, x->fd, f->size, h->err);
}

int gck_hold_settle(struct gck_hold *h)
{
	for (size_t i = 0; i < h->outside->n; i++)
		if (settle(h, &h->outside->v[i]))
			return -1;
	return 0;
}

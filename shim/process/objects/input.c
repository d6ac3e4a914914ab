/* SPDX-License-Identifier: Apache-2.0
 * The task's own standard input. The new task's is fed again from its first byte, so the image has
 * the number of bytes that were consumed, and a restart continues behind them. Of a file that is
 * its offset. Of a pipe the relay (coordinator/input) has counted what it handed on, of which the
 * pipe still has a part; the rest of the input is discarded by the new task's relay. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/input_relay.h"
#include "shim/process/objects/objects.h"
#include "shim/process/ptrace/fd_channel.h"

#define LOOKS 100 /* the relay goes on until the pipe is full */

/* ---- scan ---------------------------------------------------------------------------------- */

/* The bytes that were consumed of a pipe, or -1. Exact if the rank is held. */
static int64_t consumed(uint64_t inode, int fd)
{
	struct gck_input_message before = {0}, after = {0};
	int waiting = 0;

	for (int i = 0; i < LOOKS; i++) {
		before.op = after.op = GCK_INPUT_COUNT;
		if (gck_input_ask(inode, &before) || ioctl(fd, FIONREAD, &waiting) ||
		    gck_input_ask(inode, &after))
			return -1;
		if (before.bytes == after.bytes)
			break;
	}
	return (int64_t)after.bytes - waiting;
}

/* Whether nothing more can come out of it. */
static bool has_ended(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};
	int bytes = 1;

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLRDHUP)) &&
	       !ioctl(fd, FIONREAD, &bytes) && !bytes;
}

void gck_fd_input(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	bool pipe = S_ISFIFO(v->st.st_mode);
	int64_t bytes;
	int fd;

	if (!pipe && !S_ISSOCK(v->st.st_mode))
		return;
	fd = gck_target_fd(s->t, v->fd);
	bytes = pipe && fd >= 0 ? consumed(v->st.st_ino, fd) : -1;
	if (bytes >= 0)
		x->offset = bytes;
	else if (fd < 0 || !has_ended(fd))
		gck_obstacle_add(s->f, false, "standard input",
				 "use srun --input=none, or read a file that the program opens "
				 "itself",
				 "it is a %s that is still open and has no relay "
				 "(gpuckpt-input): a program that reads it gets it from the "
				 "beginning again after a restart",
				 pipe ? "pipe" : "socket");
	if (fd >= 0)
		close(fd);
}

/* ---- check --------------------------------------------------------------------------------- */

static const struct gck_file *input_of(const struct gck_image *img)
{
	for (size_t i = 0; i < img->nfiles; i++)
		if (img->files[i].kind == GCK_FD_STDIO && !img->files[i].peer)
			return &img->files[i];
	return NULL;
}

/* What is wrong with the new task's standard input, or NULL. A pipe may still get more. */
static const char *mismatch(const struct gck_restore *r, int64_t bytes)
{
	struct gck_input_message m = {.op = GCK_INPUT_COUNT};
	struct stat st;
	char name[32];

	snprintf(name, sizeof name, "fd/%d", r->high);
	if (fstatat(r->proc, name, &st, 0))
		return "closed";
	if (S_ISREG(st.st_mode))
		return st.st_size >= bytes ? NULL : "shorter";
	if (!S_ISFIFO(st.st_mode))
		return "neither a file nor a pipe";
	if (gck_input_ask(st.st_ino, &m))
		return "a pipe without anything in it, or without a relay (gpuckpt-input)";
	return m.ended && m.bytes < (uint64_t)bytes ? "shorter" : NULL;
}

int gck_restore_check_input(struct gck_restore *r, struct gck_error *err)
{
	const struct gck_file *f = input_of(r->img);
	const char *wrong;

	r->input = 0;
	if (r->trial || !f || f->offset <= 0 || !(S_ISREG(f->mode) || S_ISFIFO(f->mode)) ||
	    (f->flags & O_ACCMODE) != O_RDONLY)
		return 0;
	wrong = mismatch(r, f->offset);
	if (wrong)
		return gck_fail(err, ESTALE, "standard input, of which %lld bytes had been read, "
				"is now %s: start the step with the same input",
				(long long)f->offset, wrong);
	r->input = f->offset;
	return 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

/* Take the bytes that lie in the pipe out of it. */
static int drain(int fd, uint64_t bytes)
{
	char buffer[4096];
	int waiting = 0;

	if (ioctl(fd, FIONREAD, &waiting))
		return -1;
	if ((uint64_t)waiting < bytes)
		return errno = ESTALE, -1; /* another program has read it */
	while (bytes) {
		ssize_t n = read(fd, buffer, bytes < sizeof buffer ? bytes : sizeof buffer);

		if (n <= 0)
			return -1;
		bytes -= (uint64_t)n;
	}
	return 0;
}

/* What the relay has not taken from the input yet it discards by itself, also once the rank
 * runs. */
static int skip(int fd, uint64_t inode, uint64_t bytes)
{
	struct gck_input_message m = {.op = GCK_INPUT_SKIP, .bytes = bytes};

	return gck_input_ask(inode, &m) ? -1 : drain(fd, m.bytes < bytes ? m.bytes : bytes);
}

int gck_restore_input(struct gck_restore *r, struct gck_error *err)
{
	struct stat st;
	int fd, rc;

	if (!r->input)
		return 0;
	fd = gck_restore_take(r, r->high, err);
	if (fd < 0)
		return -1;
	rc = fstat(fd, &st);
	if (!rc && S_ISREG(st.st_mode))
		rc = lseek(fd, r->input, SEEK_SET) < 0 ? -1 : 0;
	else if (!rc)
		rc = skip(fd, st.st_ino, (uint64_t)r->input);
	if (rc)
		gck_fail(err, errno, "standard input cannot be set to byte %lld: %s",
			 (long long)r->input, strerror(errno));
	close(fd);
	return rc;
}

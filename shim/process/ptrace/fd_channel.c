/* SPDX-License-Identifier: Apache-2.0
 * Restore: the target's descriptors. This process, of the same user, opens the files and passes
 * them over a socketpair whose other end is the target's. The new task's standard input,
 * output and error wait above the image's highest descriptor, followed by the channel. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process/ptrace/fd_channel.h"

static int64_t call(struct gck_restore *r, struct gck_error *err, long nr, uint64_t a, uint64_t b,
		    uint64_t c, uint64_t d)
{
	return gck_remote_call(&r->remote, r->remote.pid, err, nr, a, b, c, d);
}

/* The image's descriptors, and ours above them, must fit; the image's own limit is set last. */
static int raise_limit(struct gck_restore *r, int high, struct gck_error *err)
{
	struct rlimit limit;

	if (prlimit(r->remote.pid, RLIMIT_NOFILE, NULL, &limit))
		return gck_fail(err, errno, "process %d: reading its limits: %s", r->remote.pid,
				strerror(errno));
	limit.rlim_cur = limit.rlim_max;
	if ((rlim_t)high + GCK_RESTORE_OURS > limit.rlim_max ||
	    prlimit(r->remote.pid, RLIMIT_NOFILE, &limit, NULL))
		return gck_fail(err, EMFILE,
				"the image has descriptor %d, and this node allows %llu: "
				"raise the hard limit of open files (ulimit -n)",
				high - 1, (unsigned long long)limit.rlim_max);
	return 0;
}

static int highest(const struct gck_restore *r)
{
	int high = 2;

	for (size_t i = 0; i < r->img->nfds; i++)
		if (r->img->fds[i].fd > high)
			high = r->img->fds[i].fd;
	return high + 1;
}

/* Move the task's own 0..2 up, from 0..2 or from where a previous build put them. Calls for
 * descriptors that the task does not have fail. */
static int save_stdio(struct gck_restore *r, int from, int high, struct gck_error *err)
{
	struct gck_batch b;

	b.n = 0;
	for (int i = 0; i < 3; i++)
		gck_batch_add(&b, SYS_dup3, (uint64_t)(from + i), (uint64_t)(high + i), O_CLOEXEC);
	gck_batch_add(&b, SYS_close_range, 0, (uint64_t)high - 1, 0);
	gck_batch_add(&b, SYS_close_range, (uint64_t)high + 3, UINT_MAX, 0);
	return gck_remote_run(&r->remote, r->remote.pid, &b, err);
}

int gck_restore_take(const struct gck_restore *r, int fd, struct gck_error *err)
{
	int pidfd = (int)syscall(SYS_pidfd_open, r->remote.pid, 0);
	int copy = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	if (copy < 0)
		gck_fail(err, errno, "process %d: taking its descriptor: %s", r->remote.pid,
			 strerror(errno));
	if (pidfd >= 0)
		close(pidfd);
	return copy;
}

/* Make a socketpair in the target, and take over one end. */
static int make_channel(struct gck_restore *r, struct gck_error *err)
{
	int64_t made = call(r, err, SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
			    r->remote.scratch);
	struct gck_batch b;
	int pair[2];

	if (made)
		return made == -ESRCH ? -1
				      : gck_fail(err, (int)-made, "process %d: socketpair: %s",
						 r->remote.pid, strerror((int)-made));
	if (gck_remote_read(&r->remote, r->remote.scratch, pair, sizeof pair, err))
		return -1;
	r->channel = gck_restore_take(r, pair[0], err);
	if (r->channel < 0)
		return -1;
	b.n = 0;
	gck_batch_add(&b, SYS_dup3, (uint64_t)pair[1], (uint64_t)GCK_RESTORE_CHANNEL(r), O_CLOEXEC);
	gck_batch_add(&b, SYS_close, (uint64_t)pair[0]);
	gck_batch_add(&b, SYS_close, (uint64_t)pair[1]);
	return gck_remote_run(&r->remote, r->remote.pid, &b, err);
}

int gck_restore_channel(struct gck_restore *r, struct gck_error *err)
{
	int before = r->high, high = highest(r);

	if (before && high < before + GCK_RESTORE_OURS)
		high = before + GCK_RESTORE_OURS;
	if (r->channel >= 0)
		close(r->channel);
	r->channel = -1;
	if (raise_limit(r, high, err) || save_stdio(r, before, high, err))
		return -1;
	r->high = high;
	return make_channel(r, err);
}

/* Arguments and result of recvmsg in the target. */
struct mailbox {
	struct msghdr msg;
	struct iovec iov;
	char byte;
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(GCK_FDS_MAX * sizeof(int))];
	} control;
};

int gck_restore_give_all(struct gck_restore *r, const int *fds, size_t n, int *there,
			 struct gck_error *err)
{
	char *at = (char *)(uintptr_t)r->remote.scratch;
	struct mailbox box = {.iov = {at + offsetof(struct mailbox, byte), 1}};
	int64_t got;

	box.msg.msg_iov = (struct iovec *)(void *)(at + offsetof(struct mailbox, iov));
	box.msg.msg_iovlen = 1;
	box.msg.msg_control = at + offsetof(struct mailbox, control);
	box.msg.msg_controllen = CMSG_LEN(n * sizeof *fds);
	if (gck_fd_send(r->channel, "", 1, fds, n, 0) != 1)
		return gck_fail(err, errno, "handing descriptor %d to process %d: %s", fds[0],
				r->remote.pid, strerror(errno));
	if (gck_remote_write(&r->remote, r->remote.scratch, &box, sizeof box, err))
		return -1;
	got = call(r, err, SYS_recvmsg, (uint64_t)GCK_RESTORE_CHANNEL(r), r->remote.scratch,
		   MSG_DONTWAIT, 0);
	if (got == -ESRCH || gck_remote_read(&r->remote, r->remote.scratch, &box, sizeof box, err))
		return -1;
	if (got != 1 || box.msg.msg_controllen < CMSG_LEN(n * sizeof *fds))
		return gck_fail(err, EMFILE, "process %d could not take a descriptor: %s",
				r->remote.pid, got < 0 ? strerror((int)-got) : "too many are open");
	memcpy(there, CMSG_DATA(&box.control.header), n * sizeof *there);
	return 0;
}

int gck_restore_give(struct gck_restore *r, int fd, struct gck_error *err)
{
	int there;

	return gck_restore_give_all(r, &fd, 1, &there, err) ? -1 : there;
}

static int run_dups(struct gck_restore *r, struct gck_batch *b, struct gck_error *err)
{
	if (gck_remote_run(&r->remote, r->remote.pid, b, err))
		return -1;
	for (unsigned i = 0; i < b->n; i++)
		if (b->calls[i].result < 0)
			return gck_fail(err, (int)-b->calls[i].result,
					"descriptor %llu cannot be made from %llu: %s",
					(unsigned long long)b->calls[i].args[1],
					(unsigned long long)b->calls[i].args[0],
					strerror((int)-b->calls[i].result));
	b->n = 0;
	return 0;
}

int gck_restore_spread(struct gck_restore *r, size_t file, int there, struct gck_error *err)
{
	bool stays = there >= r->high;
	struct gck_batch b;

	b.n = 0;
	for (size_t i = 0; i < r->img->nfds; i++) {
		const struct gck_fd *d = &r->img->fds[i];

		if (d->file != file)
			continue;
		if (d->fd == there)
			gck_batch_add(&b, SYS_fcntl, (uint64_t)there, F_SETFD,
				      d->cloexec ? FD_CLOEXEC : 0);
		else
			gck_batch_add(&b, SYS_dup3, (uint64_t)there, (uint64_t)d->fd,
				      d->cloexec ? O_CLOEXEC : 0);
		stays |= d->fd == there;
		if (b.n + 1 == GCK_REMOTE_CALLS && run_dups(r, &b, err))
			return -1;
	}
	if (!stays)
		gck_batch_add(&b, SYS_close, (uint64_t)there);
	return run_dups(r, &b, err);
}

int gck_restore_place(struct gck_restore *r, size_t file, int fd, struct gck_error *err)
{
	const struct gck_file *f = &r->img->files[file];
	int there;

	if (f->kind == GCK_FD_STDIO)
		there = r->high + f->peer;
	else
		there = gck_restore_give(r, fd, err);
	if (there < 0)
		return -1;
	if (gck_restore_spread(r, file, there, err))
		return f->kind == GCK_FD_STDIO
			       ? gck_fail_in(err, "the new task's descriptor %d", f->peer)
			       : -1;
	return 0;
}

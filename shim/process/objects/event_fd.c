/* SPDX-License-Identifier: Apache-2.0
 * Descriptors without a file: eventfd, timerfd, signalfd, epoll, pidfd. Scan and restore; timers.c
 * starts a timerfd when the rank runs, watch/ has inotify and fanotify, and ring/ io_uring. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/ring/ring.h"
#include "shim/process/tree/tree.h"
#include "shim/process/watch/fanotify.h"
#include "shim/process/watch/inotify.h"

/* ---- scan ---------------------------------------------------------------------------------- */

static int read_eventfd(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	(void)s;
	x->kind = GCK_FD_EVENTFD;
	x->count = gck_proc_number(v->info, "eventfd-count:", 16, 0);
	x->semaphore = gck_proc_number(v->info, "eventfd-semaphore:", 10, 0) != 0;
	return 0;
}

static uint64_t read_pair(const char *info, const char *key)
{
	const char *at = gck_proc_field(info, key);
	unsigned long long s = 0, ns = 0;

	return at && sscanf(at, "(%llu, %llu)", &s, &ns) == 2 ? s * 1000000000ull + ns : 0;
}

static void parse_timerfd(const char *info, struct gck_file *x)
{
	x->clock = (int32_t)gck_proc_number(info, "clockid:", 10, 0);
	x->ticks = gck_proc_number(info, "ticks:", 10, 0);
	x->value_ns = read_pair(info, "it_value:");
	x->interval_ns = read_pair(info, "it_interval:");
}

/* An expired periodic timer stops until it is read. Asking for its time makes the kernel count the
 * ticks since and start it again, as the rank's next read would. */
static int read_timerfd(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	struct gck_target_place at = gck_target_at(s->t, v->fd);
	struct itimerspec unused;
	char name[32], *info;
	int copy;

	x->kind = GCK_FD_TIMERFD;
	parse_timerfd(v->info, x);
	if (x->value_ns || !x->interval_ns)
		return 0;
	copy = gck_target_fd(s->t, v->fd);
	if (copy < 0 || timerfd_gettime(copy, &unused)) {
		gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", v->fd,
			 (int)s->t->pid, strerror(errno));
		if (copy >= 0)
			close(copy);
		return -1;
	}
	close(copy);
	snprintf(name, sizeof(name), "fdinfo/%d", at.fd);
	info = gck_proc_read(at.proc, name, NULL, s->err);
	if (info)
		parse_timerfd(info, x);
	free(info);
	return info ? 0 : -1;
}

static int read_signalfd(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	(void)s;
	x->kind = GCK_FD_SIGNALFD;
	x->sigmask = gck_proc_number(v->info, "sigmask:", 16, 0);
	return 0;
}

static int read_epoll(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	x->kind = GCK_FD_EPOLL;
	for (const char *line = v->info; line; line = strchr(line, '\n')) {
		struct gck_epoll_entry e, *slot;
		unsigned long long data;

		line += *line == '\n';
		if (sscanf(line, "tfd: %d events: %x data: %llx", &e.fd, &e.events, &data) != 3)
			continue;
		e.data = data;
		slot = gck_grow(&x->entries, &x->nentries, sizeof(*slot), s->err);
		if (!slot)
			return -1;
		*slot = e;
	}
	return 0;
}

/* Of a process of the rank, which a restart makes again. A thread's own has O_EXCL. */
static int read_pidfd(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	const pid_t pid = (pid_t)gck_proc_number(v->info, "Pid:", 10, 0);

	x->kind = GCK_FD_PIDFD;
	if (pid <= 0)
		return 0;
	x->process = gck_fd_process(s, pid);
	if (!x->process)
		gck_obstacle_add(s->f, true, v->object, "close it first",
				 "a pidfd of a process that is no descendant of the rank: %d",
				 (int)pid);
	if (x->flags & O_EXCL)
		gck_obstacle_add(s->f, true, v->object, "close it first", "a pidfd of a thread");
	return 0;
}

static int read_inotify(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	return gck_inotify_scan(s, v->fd, v->info, x);
}

static int read_fanotify(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	return gck_fanotify_scan(s, v->fd, v->info, x);
}

static int read_ring(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	x->id = v->st.st_ino;
	return gck_ring_scan(s, v->fd, x);
}

int gck_fd_anonymous(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	static const struct {
		const char *link;
		int (*read)(struct gck_scan *, const struct gck_fd_view *, struct gck_file *);
	} kinds[] = {
		{"anon_inode:[eventfd]", read_eventfd},
		{"anon_inode:[timerfd]", read_timerfd},
		{"anon_inode:[signalfd]", read_signalfd},
		{"anon_inode:[eventpoll]", read_epoll},
		{"anon_inode:[pidfd]", read_pidfd},
		{"anon_inode:inotify", read_inotify},
		{"anon_inode:[fanotify]", read_fanotify},
		{"anon_inode:[io_uring]", read_ring},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(v->link, kinds[i].link))
			return kinds[i].read(s, v, x);
	gck_obstacle_add(s->f, true, v->object, "close it first",
			 "an unsupported kernel object: %s", v->link);
	return 0;
}

static bool open_here(const struct gck_image *img, int fd)
{
	for (size_t i = 0; i < img->nfds; i++)
		if (img->fds[i].fd == fd)
			return true;
	return false;
}

/* Whether an epoll entry's descriptor still is the watched file. An epoll watches open files; the
 * descriptor that it shows may be another file's by now. */
static bool watches(const struct gck_scan *s, const struct gck_file *x, size_t entry, int epoll)
{
	struct kcmp_epoll_slot slot = {.efd = (uint32_t)epoll,
				       .tfd = (uint32_t)x->entries[entry].fd};

	for (size_t i = 0; i < entry; i++)
		slot.toff += x->entries[i].fd == x->entries[entry].fd;
	return open_here(s->img, x->entries[entry].fd) &&
	       syscall(SYS_kcmp, s->t->pid, s->t->pid, KCMP_EPOLL_TFD, x->entries[entry].fd,
		       &slot) == 0;
}

int gck_fds_check_epolls(struct gck_scan *s, const int *fds)
{
	for (size_t i = 0; i < s->img->nfiles; i++) {
		const struct gck_file *x = &s->img->files[i];
		char object[32];

		snprintf(object, sizeof(object), "fd %d", fds[i]);
		for (size_t k = 0; k < x->nentries; k++)
			if (!watches(s, x, k, fds[i]))
				gck_obstacle_add(s->f, true, object,
						 "remove it from the epoll first",
						 "an epoll watches a file that was descriptor %d "
						 "and is closed under that number",
						 x->entries[k].fd);
	}
	return 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

int gck_make_eventfd(const struct gck_file *f, struct gck_error *err)
{
	int fd = eventfd(0, EFD_CLOEXEC | (f->semaphore ? EFD_SEMAPHORE : 0) |
				    (f->flags & O_NONBLOCK ? EFD_NONBLOCK : 0));

	if (fd < 0)
		return gck_make_failed(err, f, "eventfd");
	if (f->count && write(fd, &f->count, sizeof f->count) != sizeof f->count)
		return gck_make_failed(err, f, "setting an eventfd"), gck_close_failed(fd);
	return fd;
}

int gck_make_signalfd(const struct gck_file *f, struct gck_error *err)
{
	int fd = (int)syscall(SYS_signalfd4, -1, &f->sigmask, sizeof f->sigmask,
			      SFD_CLOEXEC | (f->flags & O_NONBLOCK));

	return fd < 0 ? gck_make_failed(err, f, "signalfd") : fd;
}

int gck_make_timerfd(const struct gck_file *f, struct gck_error *err)
{
	int fd = timerfd_create(f->clock, TFD_CLOEXEC | (int)(f->flags & O_NONBLOCK));

	return fd < 0 ? gck_make_failed(err, f, "timerfd") : fd;
}

int gck_make_epoll(const struct gck_file *f, struct gck_error *err)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	return fd < 0 ? gck_make_failed(err, f, "epoll") : fd;
}

/* A descriptor of a process that has ended and was waited for. */
static int open_ended(int flags)
{
	pid_t pid = fork();
	int fd = -1;

	if (!pid)
		_exit(0);
	if (pid > 0) {
		fd = (int)syscall(SYS_pidfd_open, pid, flags);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return fd;
}

int gck_make_pidfd(const struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	int flags = (int)f->flags & O_NONBLOCK, fd;

	if (!f->process)
		fd = open_ended(flags);
	else
		fd = (int)syscall(SYS_pidfd_open, gck_fd_process_now(r, f->process), flags);
	return fd < 0 ? gck_make_failed(err, f, "pidfd") : fd;
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
	return gck_remote_check(result, err, "epoll descriptor %d cannot watch %d again", epoll,
				e->fd);
}

/* The target adds the entries itself: a signalfd is watched for the process that adds it. */
int gck_restore_epolls(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_file *f = &r->img->files[i];
		const struct gck_fd *d = gck_restore_first_fd(r, i);

		for (size_t k = 0; d && k < f->nentries; k++)
			if (watch(r, d->fd, &f->entries[k], err))
				return -1;
	}
	return 0;
}

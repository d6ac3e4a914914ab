/* SPDX-License-Identifier: Apache-2.0
 * Pseudo-terminals: scan, copy while the rank is held, restore. */
#include "config.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "shim/process/proc/procfs.h"
#include "shim/process/terminal/terminal.h"

#define KEPT (O_ACCMODE | O_NONBLOCK | 0100000) /* the kernel's O_LARGEFILE */
#define SLAVES 136      /* the first of their eight major numbers */
#define OTHERS 5        /* major of /dev/tty and the masters */
#define MASTER 2        /* minor */
#define STAT_GROUP 5
#define STAT_TERMINAL 7 /* the number of a device */
#define STAT_FOREGROUND 8
#define MOST_TRIES 256  /* numbers below the wanted one that are free */

bool gck_terminal_is(const struct stat *st)
{
	unsigned number = major(st->st_rdev);

	return S_ISCHR(st->st_mode) &&
	       ((number >= SLAVES && number < SLAVES + 8) ||
		(number == OTHERS && (minor(st->st_rdev) == 0 || minor(st->st_rdev) == MASTER)));
}

/* ---- scan ---------------------------------------------------------------------------------- */

static int read_state(int master, struct gck_terminal *t)
{
	struct pollfd p = {.fd = master};
	int packets = 0, locked = 0;

	if (ioctl(master, TCGETS2, t->settings) || ioctl(master, TIOCGWINSZ, t->size) ||
	    ioctl(master, TIOCGPKT, &packets) || ioctl(master, TIOCGPTLCK, &locked) ||
	    ioctl(master, TIOCGPTN, &t->number))
		return -1;
	poll(&p, 1, 0);
	t->closed = p.revents & POLLHUP;
	t->packets = packets;
	t->locked = locked;
	if (ioctl(master, TIOCGSID, &t->session) || ioctl(master, TIOCGPGRP, &t->foreground))
		t->session = t->foreground = 0;
	return 0;
}

static void check(struct gck_scan *s, const char *object, const struct gck_terminal *t)
{
	pid_t rank = s->t->rank ? s->t->rank->pid : s->t->pid;
	struct termios2 settings;

	memcpy(&settings, t->settings, sizeof settings);
	if (settings.c_line)
		gck_obstacle_add(s->f, true, object, "close it first",
				 "a terminal with line discipline %d", settings.c_line);
	if (t->session == rank)
		gck_obstacle_add(s->f, true, object, "let a child lead the session (setsid)",
				 "the rank itself leads the session of a pseudo-terminal");
}

static int add_state(struct gck_file *x, struct gck_error *err)
{
	x->terminals = calloc(1, sizeof *x->terminals);
	x->nterminals = x->terminals != NULL;
	return x->terminals ? 0 : gck_fail(err, ENOMEM, "out of memory for the image");
}

static int scan_open(struct gck_scan *s, int copy, const char *object, struct gck_file *x)
{
	unsigned device;

	if (ioctl(copy, TIOCGDEV, &device)) {
		x->unlinked = true;
		return 0;
	}
	x->id = device;
	if (!x->write_end)
		return 0;
	if (add_state(x, s->err))
		return -1;
	if (read_state(copy, x->terminals))
		return gck_fail(s->err, errno, "cannot look at the terminal of %s: %s", object,
				strerror(errno));
	check(s, object, x->terminals);
	return 0;
}

int gck_terminal_scan(struct gck_scan *s, int fd, const struct stat *st, struct gck_file *x)
{
	int copy = gck_target_fd(s->t, fd), result;
	char object[32];

	if (copy < 0)
		return gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", fd,
				(int)s->t->pid, strerror(errno));
	snprintf(object, sizeof object, "fd %d", fd);
	x->kind = GCK_FD_TERMINAL;
	x->write_end = major(st->st_rdev) == OTHERS && minor(st->st_rdev) == MASTER;
	result = scan_open(s, copy, object, x);
	close(copy);
	return result;
}

/* The group in the foreground of the terminal, if it is not the process's own, whose terminal it
 * is. */
static int32_t own_foreground(const struct gck_scan *s, const struct stat *st)
{
	uint64_t v[GCK_STAT_FIELDS];
	unsigned n = minor(st->st_rdev);
	uint64_t device = (n & 0xff) | major(st->st_rdev) << 8 | (n & ~0xffu) << 12;
	char state;

	if (gck_proc_stat(s->t->proc, &state, v, NULL) || v[STAT_TERMINAL] != device ||
	    v[STAT_FOREGROUND] == v[STAT_GROUP] || (int32_t)v[STAT_FOREGROUND] < 0)
		return 0;
	return (int32_t)v[STAT_FOREGROUND];
}

/* One that was hung up has no settings. */
int gck_terminal_scan_own(struct gck_scan *s, int fd, const struct stat *st, struct gck_file *x)
{
	int copy = gck_terminal_is(st) ? gck_target_fd(s->t, fd) : -1, failed = 0;
	struct gck_terminal t = {.foreground = own_foreground(s, st)};

	if (copy >= 0 && !ioctl(copy, TCGETS2, t.settings) && !ioctl(copy, TIOCGWINSZ, t.size)) {
		failed = add_state(x, s->err);
		if (!failed)
			*x->terminals = t;
	}
	if (copy >= 0)
		close(copy);
	return failed;
}

/* ---- hold ---------------------------------------------------------------------------------- */

/* The ioctl would keep O_CLOEXEC among the file's own flags, and fdinfo show it for each descriptor
 * of the file. */
static int open_peer(int master, int flags)
{
	int fd = ioctl(master, TIOCGPTPEER, flags | O_NOCTTY);

	if (fd >= 0)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

static int set_lock(int master, int locked)
{
	return ioctl(master, TIOCSPTLCK, &locked);
}

static int hold(struct gck_hold *h, struct gck_terminal *t, int master)
{
	int peer, result;

	if (t->locked && set_lock(master, 0))
		return gck_fail(h->err, errno, "unlocking a terminal: %s", strerror(errno));
	peer = open_peer(master, O_RDWR | O_NONBLOCK);
	if (t->locked)
		set_lock(master, 1);
	if (peer < 0)
		return gck_fail(h->err, errno, "cannot open a pseudo-terminal: %s",
				strerror(errno));
	result = gck_terminal_copy(master, peer, t, h->err);
	close(peer);
	return result;
}

int gck_terminal_hold(struct gck_hold *h, struct gck_terminal *t, int fd)
{
	int master = gck_target_fd(h->t, fd), result;

	if (master < 0)
		return gck_fail(h->err, errno, "cannot look at a terminal: %s", strerror(errno));
	result = hold(h, t, master);
	close(master);
	return result;
}

/* ---- restore ------------------------------------------------------------------------------- */

/* Nothing, if the new task has none. The size is srun's, if that has a terminal. */
int gck_terminal_set_own(const struct gck_restore *r, const struct gck_file *f,
			 struct gck_error *err)
{
	static const unsigned char none[sizeof f->terminals->size];
	unsigned char size[sizeof none];
	struct termios2 now;
	char name[32];
	int fd, failed;

	snprintf(name, sizeof name, "fd/%d", r->high + f->peer);
	fd = f->nterminals && !r->trial
		     ? openat(r->proc, name, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) : -1;
	failed = fd >= 0 && !ioctl(fd, TCGETS2, &now) &&
		 (ioctl(fd, TCSETS2, f->terminals->settings) || ioctl(fd, TIOCGWINSZ, size) ||
		  (!memcmp(size, none, sizeof none) &&
		   ioctl(fd, TIOCSWINSZ, f->terminals->size)));
	if (failed)
		failed = gck_fail(err, errno, "the terminal of the step cannot be set: %s",
				  strerror(errno));
	if (fd >= 0)
		close(fd);
	return failed;
}

/* The kernel gives the first number that is free. */
static int open_master(int number)
{
	int others[MOST_TRIES], n = 0, fd, got = 0;

	while ((fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)) >= 0 &&
	       !ioctl(fd, TIOCGPTN, &got) && got < number && n < MOST_TRIES)
		others[n++] = fd;
	while (n)
		close(others[--n]);
	return fd;
}

static int set_up(struct gck_terminal_pair *p)
{
	p->master = open_master(p->state->number);
	if (p->master < 0 || set_lock(p->master, 0) ||
	    ioctl(p->master, TIOCSWINSZ, p->state->size))
		return -1;
	p->peer = open_peer(p->master, O_RDWR | O_NONBLOCK);
	return p->peer < 0 ? -1 : gck_terminal_put(p->master, p->peer, p->state);
}

static int make(struct gck_restore *root, const struct gck_file *f, struct gck_error *err)
{
	struct gck_terminal_pair *p =
		gck_grow(&root->terminals, &root->nterminals, sizeof *p, err);

	if (!p)
		return -1;
	*p = (struct gck_terminal_pair){.state = f->terminals, .id = f->id, .master = -1,
					.peer = -1};
	return set_up(p) ? gck_fail(err, errno, "a pseudo-terminal cannot be made: %s",
				    strerror(errno))
			 : 0;
}

static int make_all(struct gck_restore *root, const struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++)
		if (r->img->files[i].kind == GCK_FD_TERMINAL && r->img->files[i].nterminals &&
		    make(root, &r->img->files[i], err))
			return -1;
	for (size_t i = 0; i < r->nchildren; i++)
		if (make_all(root, r->children[i], err))
			return -1;
	return 0;
}

int gck_terminals_make(struct gck_restore *root, struct gck_error *err)
{
	return make_all(root, root, err);
}

/* Have a process of the session open its terminal. Its descriptor there, or -1. */
static int64_t open_there(const struct gck_terminal_pair *p, struct gck_remote *leader, int flags,
			  struct gck_error *err)
{
	char path[32];
	int number;
	int64_t fd;

	if (ioctl(p->master, TIOCGPTN, &number))
		return gck_fail(err, errno, "a terminal has no number: %s", strerror(errno));
	snprintf(path, sizeof path, "/dev/pts/%d", number);
	if (gck_remote_write(leader, leader->scratch, path, sizeof path, err))
		return -1;
	fd = gck_remote_call(leader, leader->pid, err, SYS_open, leader->scratch,
			     (uint64_t)flags);
	return gck_remote_check(fd, err, "its terminal %s cannot be opened", path) ? -1 : fd;
}

static int close_there(struct gck_remote *leader, int64_t fd, struct gck_error *err)
{
	return gck_remote_check(gck_remote_call(leader, leader->pid, err, SYS_close, (uint64_t)fd),
				err, "its terminal cannot be closed");
}

int gck_terminal_take(struct gck_restore *r, struct gck_remote *leader, int32_t session,
		      struct gck_error *err)
{
	for (size_t i = 0; i < r->root->nterminals; i++) {
		struct gck_terminal_pair *p = &r->root->terminals[i];
		int64_t fd;

		if (p->state->session != session)
			continue;
		fd = open_there(p, leader, O_RDWR, err);
		if (fd < 0 || close_there(leader, fd, err))
			return -1;
		p->leader = leader->pid;
	}
	return 0;
}

/* One whose master was closed. */
static int open_hung_up(int flags)
{
	int master = open_master(0), fd = -1;

	if (master >= 0 && !set_lock(master, 0))
		fd = open_peer(master, flags);
	if (master >= 0)
		close(master);
	return fd;
}

int gck_terminal_open(const struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	int flags = (int)f->flags & KEPT, fd = -1;

	for (size_t i = 0; i < r->root->nterminals && fd < 0 && !f->unlinked; i++) {
		const struct gck_terminal_pair *p = &r->root->terminals[i];

		if (p->id != f->id)
			continue;
		fd = f->write_end ? fcntl(p->master, F_DUPFD_CLOEXEC, 0)
				  : open_peer(p->master, flags);
		if (fd >= 0 && f->write_end && fcntl(fd, F_SETFL, flags)) {
			close(fd);
			fd = -1;
		}
	}
	if (f->unlinked)
		fd = open_hung_up(flags);
	return fd < 0 ? gck_fail(err, errno, "a pseudo-terminal cannot be opened: %s",
				 strerror(errno))
		      : fd;
}

static int set_foreground(struct gck_restore *r, const struct gck_terminal_pair *p, pid_t group,
			  struct gck_error *err)
{
	uint64_t at = r->remote.scratch;
	int64_t fd = open_there(p, &r->remote, O_RDWR | O_NOCTTY, err), result;

	if (fd < 0 || gck_remote_write(&r->remote, at, &group, sizeof group, err))
		return -1;
	result = gck_remote_call(&r->remote, r->remote.pid, err, SYS_ioctl, (uint64_t)fd, TIOCSPGRP,
				 at);
	return gck_remote_check(result, err, "its terminal's foreground process group cannot be "
				"set") ||
	       close_there(&r->remote, fd, err) ? -1 : 0;
}

/* By the rank, which leads the session. The new task need not have a terminal. */
static int set_own_foreground(struct gck_restore *r, const struct gck_file *f,
			      struct gck_error *err)
{
	int32_t before = f->terminals->foreground;
	pid_t group = before ? gck_restore_pid(r, before) : 0;
	uint64_t at = r->remote.scratch;
	int64_t result;

	if (!group)
		return 0;
	if (gck_remote_write(&r->remote, at, &group, sizeof group, err))
		return -1;
	result = gck_remote_call(&r->remote, r->remote.pid, err, SYS_ioctl,
				 (uint64_t)(r->high + f->peer), TIOCSPGRP, at);
	return result == -ENOTTY ? 0 : gck_remote_check(result, err, "the foreground process group "
							"of the step's terminal cannot be set");
}

int gck_terminals_foreground(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; r == r->root && !r->trial && i < r->img->nfiles; i++)
		if (r->img->files[i].kind == GCK_FD_STDIO && r->img->files[i].nterminals &&
		    set_own_foreground(r, &r->img->files[i], err))
			return -1;
	for (size_t i = 0; i < r->root->nterminals; i++) {
		const struct gck_terminal_pair *p = &r->root->terminals[i];
		pid_t group = p->leader == r->remote.pid && p->state->foreground
				      ? gck_restore_pid(r->root, p->state->foreground) : 0;

		if (group && set_foreground(r, p, group, err))
			return -1;
	}
	return 0;
}

void gck_terminals_close(struct gck_restore *root)
{
	for (size_t i = 0; i < root->nterminals; i++) {
		const struct gck_terminal_pair *p = &root->terminals[i];

		if (p->peer >= 0)
			close(p->peer);
		if (p->master >= 0) {
			if (p->state->locked)
				set_lock(p->master, 1);
			close(p->master);
		}
	}
	free(root->terminals);
	root->terminals = NULL;
	root->nterminals = 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * What inotify descriptors watch. The kernel tells the number, mask and file of each watch, but not
 * its name. The preload records the names that a process has watched (preload/pid/watch_calls.c);
 * watching them here, too, shows whose file is which. */
#include "config.h"

#include "shim/process/watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/place/owner.h"
#include "common/place/place.h"
#include "shim/process/proc/pages.h"
#include "shim/process/proc/procfs.h"

#define MAX_NAMES (1u << 20) /* of a process, more than its preload records */
#define PROBE IN_EXCL_UNLINK /* no event */

/* ---- what the kernel tells ------------------------------------------------------------------- */

struct watched {
	uint32_t wd, mask, device;
	unsigned long inode;
	char *handle;        /* of the file, which tells it from one that had its inode before */
};

struct seen {
	struct watched *v;
	size_t n;
};

static void free_seen(struct seen *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i].handle);
	free(w->v);
}

static int read_seen(const char *info, struct seen *to, struct gck_error *err)
{
	for (const char *line = info; line; line = strchr(line, '\n')) {
		struct watched w, *slot;
		int end = 0;

		line += *line == '\n';
		if (sscanf(line, "inotify wd:%x ino:%lx sdev:%x mask:%x ignored_mask:%*x %n",
			   &w.wd, &w.inode, &w.device, &w.mask, &end) != 4 || !end)
			continue;
		w.handle = strndup(line + end, strcspn(line + end, "\n"));
		slot = w.handle ? gck_grow(&to->v, &to->n, sizeof *slot, err) : NULL;
		if (!slot) {
			free(w.handle);
			return gck_fail(err, ENOMEM, "out of memory for what is watched");
		}
		*slot = w;
	}
	return 0;
}

static int by_file(const void *a, const void *b)
{
	const struct watched *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return strcmp(x->handle, y->handle);
}

static int by_number(const void *a, const void *b)
{
	const struct gck_watch *x = a, *y = b;

	return (x->wd > y->wd) - (x->wd < y->wd);
}

/* ---- the names ------------------------------------------------------------------------------- */

/* Watches of our own: of each name that was recorded. They stay between scans. */
struct probe {
	int fd;              /* the rank's target's */
	int failed;          /* errno, if that or a watch cannot be made */
	char **names;        /* by number; NULL: it was not named again */
	size_t n;
	struct seen seen;    /* by file */
};

static int probe_add(struct probe *p, const char *name, struct gck_error *err)
{
	int wd = inotify_add_watch(p->fd, name, PROBE | IN_DONT_FOLLOW);

	if (wd < 0 && (errno == ENOSPC || errno == ENOMEM))
		p->failed = errno;
	if (wd < 0) /* it is gone */
		return 0;
	while (p->n <= (size_t)wd)
		if (!gck_grow(&p->names, &p->n, sizeof *p->names, err))
			return -1;
	free(p->names[wd]);
	p->names[wd] = strdup(name);
	return p->names[wd] ? 0 : gck_fail(err, ENOMEM, "out of memory for names");
}

/* Those that one list of a process's preload has recorded. */
static int probe_list(struct probe *p, pid_t pid, uint64_t at, struct gck_error *err)
{
	for (size_t i = 0; at && i < MAX_NAMES; i++) {
		struct gck_shim_watched entry;
		char name[PATH_MAX];

		if (gck_memory_read(pid, at, &entry, sizeof entry, err))
			return -1;
		if (!entry.size || entry.size > sizeof name ||
		    gck_memory_read(pid, at + sizeof entry, name, entry.size, err))
			return gck_fail(err, EPROTO, "process %d: its list of watched names is "
					"damaged", (int)pid);
		name[entry.size - 1] = '\0';
		if (name[0] == '/' && probe_add(p, name, err))
			return -1;
		at = entry.next;
	}
	return 0;
}

static int probe_process(struct probe *p, const struct gck_target *t, struct gck_error *err)
{
	for (size_t i = 0; i < GCK_SHIM_WATCHED; i++)
		if (probe_list(p, t->pid, t->shim->watched[i], err))
			return -1;
	return 0;
}

/* A program that another one has executed watches what that has watched; mostly it is the rank. */
static int probe_read(struct probe *p, const struct gck_target *t, struct gck_error *err)
{
	const struct gck_target *rank = t->rank ? t->rank : t;
	char name[48], *info;
	int failed;

	if (*rank->probe < 0)
		*rank->probe = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	p->fd = *rank->probe;
	p->failed = p->fd < 0 ? errno : 0;
	if (p->fd < 0)
		return 0;
	if (probe_process(p, t, err) || (rank != t && probe_process(p, rank, err)))
		return -1;
	snprintf(name, sizeof name, "/proc/self/fdinfo/%d", p->fd);
	info = gck_proc_read(AT_FDCWD, name, NULL, err);
	failed = !info || read_seen(info, &p->seen, err);
	free(info);
	if (!failed && p->seen.n)
		qsort(p->seen.v, p->seen.n, sizeof p->seen.v[0], by_file);
	return failed ? -1 : 0;
}

static void probe_free(struct probe *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->names[i]);
	free(p->names);
	free_seen(&p->seen);
}

/* Our watch of the same file, if it has a name; its name. */
static const struct watched *probe_find(const struct probe *p, const struct watched *w,
					const char **name)
{
	const struct watched *same = p->seen.n ? bsearch(w, p->seen.v, p->seen.n, sizeof *w,
							 by_file) : NULL;

	*name = same && same->wd < p->n ? p->names[same->wd] : NULL;
	return *name ? same : NULL;
}

/* ---- scan ------------------------------------------------------------------------------------ */

static void refuse(struct gck_scan *s, const char *object, const struct probe *p,
		   const struct watched *w)
{
	if (p->failed)
		gck_obstacle_add_passing(s->f, object, "raise fs.inotify.max_user_watches and "
					 "max_user_instances (sysctl)",
					 "inotify: what it watches cannot be found: %s",
					 strerror(p->failed));
	else
		gck_obstacle_add(s->f, true, object, "remove the watch, or close it",
				 "inotify: watch %u is of a file that was removed or renamed, or "
				 "whose name was not given to libc's inotify_add_watch (inode %lu)",
				 w->wd, w->inode);
}

static int add(struct gck_file *x, const struct watched *w, const char *name, struct gck_error *err)
{
	struct gck_watch *slot;
	struct stat st;

	if (gck_owner_fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW))
		return gck_fail(err, EAGAIN, "%s, which is watched, was removed", name);
	slot = gck_grow(&x->watches, &x->nwatches, sizeof *slot, err);
	if (!slot)
		return -1;
	*slot = (struct gck_watch){.wd = (int32_t)w->wd, .mask = w->mask, .path = strdup(name),
				   .was = {st.st_ino, st.st_uid}};
	return slot->path ? 0 : gck_fail(err, ENOMEM, "out of memory for what is watched");
}

/* The first one that is refused stands for all. */
static int add_all(struct gck_scan *s, const char *object, const struct seen *from,
		   const struct probe *p, struct gck_file *x)
{
	for (size_t i = 0; i < from->n; i++) {
		const char *name;
		const struct watched *w = &from->v[i], *same = probe_find(p, w, &name);

		if (!same) {
			refuse(s, object, p, w);
			return 0;
		}
		if (!(same->mask & IN_EXCL_UNLINK)) {
			gck_obstacle_add(s->f, true, object, "use a kernel from 5.19 on",
					 "inotify: this kernel does not tell how it watches");
			return 0;
		}
		if (w->wd > GCK_WATCH_MAX) {
			gck_obstacle_add(s->f, true, object, "close it, and watch anew",
					 "inotify: a watch has the number %u: a restart counts up "
					 "to %u", w->wd, GCK_WATCH_MAX);
			return 0;
		}
		if (add(x, w, name, s->err))
			return -1;
	}
	qsort(x->watches, x->nwatches, sizeof x->watches[0], by_number);
	return 0;
}

/* Events can only be read once. */
static int check_waiting(struct gck_scan *s, const char *object, int fd)
{
	int copy = gck_target_fd(s->t, fd), bytes = 0;

	if (copy < 0 || ioctl(copy, FIONREAD, &bytes)) {
		gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", fd,
			 (int)s->t->pid, strerror(errno));
		if (copy >= 0)
			close(copy);
		return -1;
	}
	close(copy);
	if (bytes)
		gck_obstacle_add_passing(s->f, object, "read them first",
					 "inotify: events wait that were not read (%d bytes)",
					 bytes);
	return 0;
}

int gck_watch_scan(struct gck_scan *s, int fd, const char *info, struct gck_file *x)
{
	struct seen seen = {0};
	struct probe p = {.fd = -1};
	char object[32];
	int failed;

	x->kind = GCK_FD_INOTIFY;
	snprintf(object, sizeof object, "fd %d", fd);
	failed = read_seen(info, &seen, s->err) || check_waiting(s, object, fd);
	if (!failed && seen.n) {
		failed = probe_read(&p, s->t, s->err) || add_all(s, object, &seen, &p, x);
		probe_free(&p);
	}
	free_seen(&seen);
	return failed ? -1 : 0;
}

/* ---- restore --------------------------------------------------------------------------------- */

int gck_watch_make(const struct gck_file *f, struct gck_error *err)
{
	int fd = inotify_init1(IN_CLOEXEC | (int)(f->flags & O_NONBLOCK));

	return fd < 0 ? gck_fail(err, errno, "an inotify descriptor cannot be made: %s: raise "
				 "fs.inotify.max_user_instances (sysctl)", strerror(errno)) : fd;
}

static int watch_file(int fd, int file, uint32_t mask)
{
	char name[48];

	snprintf(name, sizeof name, "/proc/self/fd/%d", file);
	return inotify_add_watch(fd, name, mask);
}

static void drop_events(int fd)
{
	char events[4096];
	int bytes;

	while (!ioctl(fd, FIONREAD, &bytes) && bytes)
		if (read(fd, events, sizeof events) < 0)
			break;
}

/* The kernel counts numbers up. `other`: a file that nobody watches. -1 with errno. */
static int skip_to(int fd, int other, int32_t last, int32_t wd)
{
	while (++last < wd) {
		int made = watch_file(fd, other, IN_DELETE_SELF);

		if (made < 0 || inotify_rm_watch(fd, made))
			return -1;
		drop_events(fd);
	}
	return 0;
}

static int set_one(int fd, int other, int32_t last, const struct gck_watch *w,
		   struct gck_error *err)
{
	int file = gck_place_open(w->path, &w->was, NULL), wd;

	if (file < 0)
		return gck_fail(err, errno, "%s was watched (inotify) at the checkpoint: %s",
				w->path, gck_place_reason(errno));
	wd = skip_to(fd, other, last, w->wd) ? -1 : watch_file(fd, file, w->mask);
	if (wd < 0)
		gck_fail(err, errno, "%s cannot be watched (inotify): %s%s", w->path,
			 strerror(errno), errno == ENOSPC ? ": raise fs.inotify.max_user_watches "
							    "(sysctl)" : "");
	close(file);
	if (wd >= 0 && wd != w->wd)
		return gck_fail(err, EEXIST, "%s gets the watch %d, and had %d: is it another "
				"watched file's name by now?", w->path, wd, (int)w->wd);
	return wd < 0 ? -1 : 0;
}

static int set_all(int fd, const struct gck_file *f, struct gck_error *err)
{
	int other = memfd_create("unwatched", MFD_CLOEXEC), failed = 0;
	int32_t last = 0;

	if (other < 0)
		return gck_fail(err, errno, "memfd: %s", strerror(errno));
	for (size_t i = 0; i < f->nwatches && !failed; i++) {
		failed = set_one(fd, other, last, &f->watches[i], err);
		last = f->watches[i].wd;
	}
	drop_events(fd);
	close(other);
	return failed;
}

static int set_file(const struct gck_restore *r, size_t i, struct gck_error *err)
{
	int pidfd = (int)syscall(SYS_pidfd_open, r->remote.pid, 0), fd = -1, failed;

	for (size_t k = 0; pidfd >= 0 && fd < 0 && k < r->img->nfds; k++)
		if (r->img->fds[k].file == i)
			fd = (int)syscall(SYS_pidfd_getfd, pidfd, r->img->fds[k].fd, 0);
	if (fd < 0)
		failed = gck_fail(err, errno, "process %d: its inotify descriptor: %s",
				  r->remote.pid, strerror(errno));
	else
		failed = set_all(fd, &r->img->files[i], err);
	if (fd >= 0)
		close(fd);
	if (pidfd >= 0)
		close(pidfd);
	return failed;
}

int gck_restore_watches(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++)
		if (r->img->files[i].nwatches && set_file(r, i, err))
			return -1;
	return 0;
}

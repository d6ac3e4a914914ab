/* SPDX-License-Identifier: Apache-2.0
 * The kernel tells the file of each watch, but not its name. The preload records the names that a
 * process has watched (preload/pid/watch_calls.c); watching them here, too, shows whose file is
 * which. */
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/place/owner.h"
#include "shim/process/proc/pages.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/watch/fanotify.h"
#include "shim/process/watch/inotify.h"

#define MAX_NAMES (1u << 20) /* of a process, more than its preload records */
#define PROBE IN_EXCL_UNLINK /* no event */

/* ---- what the kernel tells ------------------------------------------------------------------- */

void gck_watched_free(struct gck_watched_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].handle);
	free(l->v);
}

int gck_watched_add(struct gck_watched_list *l, const struct gck_watched *w, const char *handle,
		    struct gck_error *err)
{
	struct gck_watched *slot = gck_grow(&l->v, &l->n, sizeof *slot, err);

	if (!slot)
		return -1;
	*slot = *w;
	slot->handle = strndup(handle, strcspn(handle, "\n"));
	return slot->handle ? 0 : gck_fail(err, ENOMEM, "out of memory for what is watched");
}

int gck_inotify_read(const char *info, struct gck_watched_list *to, struct gck_error *err)
{
	for (const char *line = info; line; line = strchr(line, '\n')) {
		struct gck_watched w = {0};
		int end = 0;

		line += *line == '\n';
		if (sscanf(line, "inotify wd:%x ino:%lx sdev:%x mask:%x ignored_mask:%*x %n",
			   &w.wd, &w.inode, &w.device, &w.mask, &end) == 4 && end &&
		    gck_watched_add(to, &w, line + end, err))
			return -1;
	}
	return 0;
}

static int by_file(const void *a, const void *b)
{
	const struct gck_watched *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return strcmp(x->handle, y->handle);
}

/* ---- the names ------------------------------------------------------------------------------- */

/* Watches of our own: of each name that was recorded. They stay between scans. */
struct names {
	int fd;              /* the rank's target's */
	int failed;          /* errno, if that or a watch cannot be made */
	char **names;        /* by number; NULL: it was not named again */
	size_t n;
	struct gck_watched_list seen; /* by file */
};

static int probe_add(struct names *p, const char *name, struct gck_error *err)
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
static int probe_list(struct names *p, pid_t pid, uint64_t at, struct gck_error *err)
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

static int probe_process(struct names *p, const struct gck_target *t, struct gck_error *err)
{
	for (size_t i = 0; i < GCK_SHIM_WATCHED; i++)
		if (probe_list(p, t->pid, t->shim->watched[i], err))
			return -1;
	return 0;
}

/* A program that another one has executed watches what that has watched; mostly it is the rank. */
static int read_names(struct names *p, const struct gck_target *t,
		      struct gck_error *err)
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
	failed = !info || gck_inotify_read(info, &p->seen, err);
	free(info);
	if (!failed && p->seen.n)
		qsort(p->seen.v, p->seen.n, sizeof p->seen.v[0], by_file);
	return failed ? -1 : 0;
}

static void free_names(struct names *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->names[i]);
	free(p->names);
	gck_watched_free(&p->seen);
}

/* Our watch of the same file, if it has a name; its name. */
static const struct gck_watched *find(const struct names *p,
				      const struct gck_watched *w, const char **name)
{
	const struct gck_watched *same = p->seen.n ? bsearch(w, p->seen.v, p->seen.n, sizeof *w,
							 by_file) : NULL;

	*name = same && same->wd < p->n ? p->names[same->wd] : NULL;
	return *name ? same : NULL;
}

/* ---- scan ------------------------------------------------------------------------------------ */

static void refuse(struct gck_scan *s, const char *object, const char *what,
		   const struct names *p, const struct gck_watched *w)
{
	char number[32] = "";

	if (w->wd)
		snprintf(number, sizeof number, "watch %u is of ", w->wd);
	if (p->failed)
		gck_obstacle_add_passing(s->f, object, "raise fs.inotify.max_user_watches and "
					 "max_user_instances (sysctl)",
					 "%s: what it watches cannot be found: %s", what,
					 strerror(p->failed));
	else
		gck_obstacle_add(s->f, true, object, "remove the watch, or close it",
				 "%s: %sa file that was removed or renamed, or whose name was not "
				 "given to libc's %s (inode %lu)", what,
				 w->wd ? number : "it watches ", w->wd ? "inotify_add_watch"
								       : "fanotify_mark",
				 w->inode);
}

static int add(struct gck_file *x, const struct gck_watched *w, const char *name,
	       struct gck_error *err)
{
	struct gck_watch *slot;
	struct stat st;

	if (gck_owner_fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW))
		return gck_fail(err, EAGAIN, "%s, which is watched, was removed", name);
	slot = gck_grow(&x->watches, &x->nwatches, sizeof *slot, err);
	if (!slot)
		return -1;
	*slot = (struct gck_watch){.wd = (int32_t)w->wd, .mask = w->mask, .ignored = w->ignored,
				   .flags = w->flags, .path = strdup(name),
				   .was = {st.st_ino, st.st_uid}};
	return slot->path ? 0 : gck_fail(err, ENOMEM, "out of memory for what is watched");
}

int gck_watch_add_all(struct gck_scan *s, const char *object, const char *what,
		      const struct gck_watched_list *from, struct gck_file *x)
{
	struct names p = {.fd = -1};
	int failed = from->n ? read_names(&p, s->t, s->err) : 0;

	for (size_t i = 0; i < from->n && !failed; i++) {
		const char *name;
		const struct gck_watched *w = &from->v[i], *same = find(&p, w, &name);

		if (!same) {
			refuse(s, object, what, &p, w);
			break;
		}
		if (!(same->mask & IN_EXCL_UNLINK)) {
			gck_obstacle_add(s->f, true, object, "use a kernel from 5.19 on",
					 "%s: this kernel does not tell how it watches", what);
			break;
		}
		failed = add(x, w, name, s->err);
	}
	free_names(&p);
	return failed;
}

/* Events can only be read once. */
int gck_watch_check_waiting(struct gck_scan *s, const char *object, const char *what, int fd)
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
					 "%s: events wait that were not read (%d bytes)", what,
					 bytes);
	return 0;
}

/* ---- restore --------------------------------------------------------------------------------- */

static int set_file(const struct gck_restore *r, size_t i, struct gck_error *err)
{
	const struct gck_file *f = &r->img->files[i];
	int pidfd = (int)syscall(SYS_pidfd_open, r->remote.pid, 0), fd = -1, failed;

	for (size_t k = 0; pidfd >= 0 && fd < 0 && k < r->img->nfds; k++)
		if (r->img->fds[k].file == i)
			fd = (int)syscall(SYS_pidfd_getfd, pidfd, r->img->fds[k].fd, 0);
	if (fd < 0)
		failed = gck_fail(err, errno, "process %d: its descriptor that watches: %s",
				  r->remote.pid, strerror(errno));
	else
		failed = r->img->files[i].kind == GCK_FD_INOTIFY ? gck_inotify_set(fd, f, err)
								 : gck_fanotify_set(fd, f, err);
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

/* SPDX-License-Identifier: Apache-2.0
 * inotify descriptors. A restart gives watches the numbers that they had. */
#include "config.h"

#include "shim/process/watch/inotify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/place/place.h"
#include "shim/process/watch/watch.h"

/* ---- scan ------------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
	const struct gck_watch *x = a, *y = b;

	return (x->wd > y->wd) - (x->wd < y->wd);
}

static void check_numbers(struct gck_scan *s, const char *object, const struct gck_file *x)
{
	int32_t last = x->nwatches ? x->watches[x->nwatches - 1].wd : 0;

	if ((uint32_t)last > GCK_WATCH_MAX)
		gck_obstacle_add(s->f, true, object, "close it, and watch anew", "inotify: a watch "
				 "has the number %d: a restart counts up to %u", (int)last,
				 GCK_WATCH_MAX);
}

int gck_inotify_scan(struct gck_scan *s, int fd, const char *info, struct gck_file *x)
{
	struct gck_watched_list all = {0};
	char object[32];
	int failed;

	x->kind = GCK_FD_INOTIFY;
	snprintf(object, sizeof object, "fd %d", fd);
	failed = gck_inotify_read(info, &all, s->err) ||
		 gck_watch_check_waiting(s, object, "inotify", fd) ||
		 gck_watch_add_all(s, object, "inotify", &all, x);
	gck_watched_free(&all);
	if (failed)
		return -1;
	if (x->nwatches)
		qsort(x->watches, x->nwatches, sizeof x->watches[0], by_number);
	check_numbers(s, object, x);
	return 0;
}

/* ---- restore --------------------------------------------------------------------------------- */

int gck_inotify_make(const struct gck_file *f, struct gck_error *err)
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

int gck_inotify_set(int fd, const struct gck_file *f, struct gck_error *err)
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

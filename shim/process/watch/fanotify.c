/* SPDX-License-Identifier: Apache-2.0
 * fanotify descriptors that watch files and directories, as any user may since Linux 5.13. */
#include "config.h"

#include "shim/process/watch/fanotify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <unistd.h>

#include "common/place/place.h"
#include "shim/process/watch/watch.h"

#define CLASSES 0xcu     /* of flags of fanotify_init(2): those that decide about accesses */
#define IGNORE 0x400u    /* FAN_MARK_IGNORE, of Linux 6.0 */
#define EVICTABLE 0x200u /* FAN_MARK_EVICTABLE, of 5.19 */
#define SURVIVES FAN_MARK_IGNORED_SURV_MODIFY

/* ---- scan ------------------------------------------------------------------------------------ */

/* *more: it watches whole mounts or file systems, too. */
static int read_marks(const char *info, struct gck_file *x, struct gck_watched_list *to,
		      bool *more, struct gck_error *err)
{
	for (const char *line = info; line; line = strchr(line, '\n')) {
		struct gck_watched w = {0};
		int end = 0;

		line += *line == '\n';
		if (sscanf(line, "fanotify flags:%x event-flags:%x", &x->init_flags,
			   &x->event_flags) == 2)
			continue;
		*more |= !strncmp(line, "fanotify mnt_id:", 16) ||
			 !strncmp(line, "fanotify sdev:", 14) ||
			 !strncmp(line, "fanotify mnt_ns:", 16);
		if (sscanf(line, "fanotify ino:%lx sdev:%x mflags:%x mask:%x ignored_mask:%x %n",
			   &w.inode, &w.device, &w.flags, &w.mask, &w.ignored, &end) == 5 && end &&
		    gck_watched_add(to, &w, line + end, err))
			return -1;
	}
	return 0;
}

static unsigned init_flags(const struct gck_file *f)
{
	return (f->init_flags & ~(unsigned)FAN_NONBLOCK) | FAN_CLOEXEC |
	       (f->flags & O_NONBLOCK ? FAN_NONBLOCK : 0);
}

static void check(struct gck_scan *s, const char *object, const struct gck_file *x, bool more)
{
	int again;

	if (x->init_flags & CLASSES)
		gck_obstacle_add(s->f, true, object, "close it", "fanotify: it decides about "
				 "accesses to files");
	else if (more)
		gck_obstacle_add(s->f, true, object, "watch files and directories", "fanotify: it "
				 "watches a whole mount or file system");
	if (s->held) /* to close one takes long */
		return;
	again = fanotify_init(init_flags(x), x->event_flags);
	if (again < 0)
		gck_obstacle_add_passing(s->f, object, "raise fs.fanotify.max_user_groups "
					 "(sysctl), or use flags that every user may use",
					 "fanotify: another cannot be made: %s", strerror(errno));
	else
		close(again);
}

int gck_fanotify_scan(struct gck_scan *s, int fd, const char *info, struct gck_file *x)
{
	struct gck_watched_list all = {0};
	bool more = false;
	char object[32];
	int failed;

	x->kind = GCK_FD_FANOTIFY;
	snprintf(object, sizeof object, "fd %d", fd);
	failed = read_marks(info, x, &all, &more, s->err) ||
		 gck_watch_check_waiting(s, object, "fanotify", fd) ||
		 gck_watch_add_all(s, object, "fanotify", &all, x);
	gck_watched_free(&all);
	if (failed)
		return -1;
	check(s, object, x, more);
	return 0;
}

/* ---- restore --------------------------------------------------------------------------------- */

int gck_fanotify_make(const struct gck_file *f, struct gck_error *err)
{
	int fd = fanotify_init(init_flags(f), f->event_flags);

	return fd < 0 ? gck_fail(err, errno, "a fanotify descriptor cannot be made: %s: raise "
				 "fs.fanotify.max_user_groups (sysctl)", strerror(errno)) : fd;
}

static int mark(int fd, int file, const struct gck_watch *w)
{
	const unsigned kept = w->flags & EVICTABLE;
	const unsigned ignore = w->flags & IGNORE ? IGNORE : FAN_MARK_IGNORED_MASK;
	char name[48];

	snprintf(name, sizeof name, "/proc/self/fd/%d", file);
	if (w->mask && fanotify_mark(fd, FAN_MARK_ADD | kept, w->mask, AT_FDCWD, name))
		return -1;
	return w->ignored ? fanotify_mark(fd, FAN_MARK_ADD | kept | ignore |
					  (w->flags & SURVIVES), w->ignored, AT_FDCWD, name) : 0;
}

static int set_one(int fd, const struct gck_watch *w, struct gck_error *err)
{
	int file = gck_place_open(w->path, &w->was, NULL), failed;

	if (file < 0)
		return gck_fail(err, errno, "%s was watched (fanotify) at the checkpoint: %s",
				w->path, gck_place_reason(errno));
	failed = mark(fd, file, w);
	if (failed)
		gck_fail(err, errno, "%s cannot be watched (fanotify): %s", w->path,
			 strerror(errno));
	close(file);
	return failed ? -1 : 0;
}

int gck_fanotify_set(int fd, const struct gck_file *f, struct gck_error *err)
{
	for (size_t i = 0; i < f->nwatches; i++)
		if (set_one(fd, &f->watches[i], err))
			return -1;
	return 0;
}

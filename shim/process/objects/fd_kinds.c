/* SPDX-License-Identifier: Apache-2.0
 * Kinds of descriptors that are known by their file or by /proc/PID/fdinfo. */
#include "config.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shim/process/objects/fds.h"
#include "shim/process/proc/procfs.h"

bool gck_file_whole(const struct gck_file *x)
{
	if (x->flags & O_APPEND)
		return x->written && x->size <= GCK_LOG_MAX;
	return x->written && (x->size <= GCK_WHOLE_MAX || (uint64_t)x->offset != x->size);
}

uint64_t gck_file_carried(const struct gck_file *x)
{
	return x->kind == GCK_FD_FILE && (x->whole || x->unlinked) ? x->size : 0;
}

int gck_fd_reopen(const struct gck_target *t, int fd, struct gck_error *err)
{
	char name[32];
	int copy;

	snprintf(name, sizeof(name), "fd/%d", fd);
	copy = openat(t->proc, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (copy < 0)
		return gck_fail(err, errno, "cannot read the file of fd %d of process %d: %s", fd,
				(int)t->pid, strerror(errno));
	return copy;
}

/* Has the file still the name that the kernel shows? */
static void check_name(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	struct stat st;

	if (v->st.st_nlink == 0) {
		x->unlinked = true;
		x->path[strlen(x->path) - (gck_path_deleted(x->path) ? strlen(" (deleted)") : 0)] =
			'\0';
	} else if (stat(x->path, &st) || st.st_ino != v->st.st_ino || st.st_dev != v->st.st_dev) {
		gck_find(s->f, true, v->object, "close it first",
			 "the name of its file is gone or belongs to another file: %s", v->link);
	}
}

int gck_fd_file(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	x->kind = S_ISDIR(v->st.st_mode) ? GCK_FD_DIR : GCK_FD_FILE;
	x->path = strdup(v->link);
	if (!x->path)
		return gck_fail(s->err, ENOMEM, "out of memory for the image");
	if (!strncmp(v->link, "/proc/", 6)) {
		gck_find(s->f, true, v->object, "close it first",
			 "a file of /proc shows this process only: %s", v->link);
		return 0;
	}
	check_name(s, v, x);
	x->mtime_ns = v->st.st_mtim.tv_sec * 1000000000ll + v->st.st_mtim.tv_nsec;
	if (x->kind == GCK_FD_DIR) {
		if (x->unlinked)
			gck_find(s->f, true, v->object, "close it first",
				 "its directory is gone: %s", v->link);
		return 0;
	}
	x->size = x->least = (uint64_t)v->st.st_size;
	x->written = !(x->flags & O_PATH) && (x->flags & O_ACCMODE) != O_RDONLY;
	if (x->unlinked)
		return gck_fd_memfd(s, v, x);
	x->whole = gck_file_whole(x);
	if (x->written && !x->whole && !(x->flags & O_APPEND))
		gck_find(s->f, false, v->object, "open it with O_APPEND if it is only appended to; "
			 "else write new files", "%s (%llu bytes) is taken for a log: if what was "
			 "written of it is changed later, the checkpoint cannot be used", x->path,
			 (unsigned long long)x->size);
	return 0;
}

/* The object that is a mapping of this file, which has no name: the mapping may show another device (btrfs). */
static int mapped_object(const struct gck_scan *s, const struct gck_fd_view *v)
{
	uint64_t device = v->st.st_dev;

	for (size_t i = 0; i < s->maps.n; i++) {
		const struct gck_vma *x = &s->maps.v[i];

		if (x->shared && x->inode == v->st.st_ino && !strcmp(x->name, v->link))
			device = x->device;
	}
	for (size_t i = 0; i < s->img->nobjects; i++) {
		const struct gck_object *o = &s->img->objects[i];

		if (o->inode == v->st.st_ino && (o->device == v->st.st_dev || o->device == device))
			return (int)i;
	}
	return -1;
}

/* A file without a name: shared memory if it is a memfd or mapped shared, else its content goes
 * with the descriptor. */
int gck_fd_memfd(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	bool memfd = !strncmp(v->link, "/memfd:", 7);
	char name[256] = "";
	struct gck_object *o;
	int copy;

	x->object = mapped_object(s, v);
	if (!memfd && x->object < 0)
		return 0;
	if (memfd)
		snprintf(name, sizeof(name), "%.*s",
			 (int)(strlen(v->link) - strlen("/memfd: (deleted)")), v->link + 7);
	x->kind = GCK_FD_MEMFD;
	if (x->object < 0)
		x->object = gck_scan_object(s, v->st.st_dev, v->st.st_ino, name);
	if (x->object < 0)
		return -1;
	o = &s->img->objects[x->object];
	o->device = v->st.st_dev;
	o->size = (uint64_t)v->st.st_size;
	o->mode = v->st.st_mode & 07777;
	copy = memfd ? gck_fd_reopen(s->t, v->fd, s->err) : -1;
	if (copy >= 0) {
		struct statfs fs;
		int seals = fcntl(copy, F_GET_SEALS);

		o->seals = seals > 0 ? (uint32_t)seals : 0;
		if (fstatfs(copy, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC)
			gck_find(s->f, true, v->object, "use transparent huge pages",
				 "a memfd of huge pages: %s", v->link);
		close(copy);
	}
	return memfd && copy < 0 ? -1 : 0;
}

int gck_fd_device(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	static const unsigned char minors[] = {3, 5, 7, 8, 9}; /* null zero full random urandom */

	x->kind = GCK_FD_DEVICE;
	x->path = strdup(v->link);
	if (!x->path)
		return gck_fail(s->err, ENOMEM, "out of memory for the image");
	if (gck_left_out_device(&s->t->left, v->link))
		return 0;
	if (major(v->st.st_rdev) != 1 || minor(v->st.st_rdev) > 9 ||
	    !memchr(minors, (int)minor(v->st.st_rdev), sizeof(minors)))
		gck_find(s->f, true, v->object, "close it first", "a device: %s", v->link);
	return 0;
}

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

/* A periodic timer that has expired stands still until somebody looks: asking for its time makes
 * the kernel count the ticks since and set it going again, as the rank's next read would. */
static int read_timerfd(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
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
	snprintf(name, sizeof(name), "fdinfo/%d", v->fd);
	info = gck_proc_read(s->t->proc, name, NULL, s->err);
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
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(v->link, kinds[i].link))
			return kinds[i].read(s, v, x);
	gck_find(s->f, true, v->object, "close it first", "a kernel object that is not carried: %s",
		 v->link);
	return 0;
}

static bool open_here(const struct gck_image *img, int fd)
{
	for (size_t i = 0; i < img->nfds; i++)
		if (img->fds[i].fd == fd)
			return true;
	return false;
}

/* An epoll remembers open files; the number that it shows may be another file's by now. */
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
				gck_find(s->f, true, object, "remove it from the epoll first",
					 "an epoll watches a file that was descriptor %d and is "
					 "closed under that number", x->entries[k].fd);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * Regular files, directories and devices: the image's record of each, the copy of a file's content
 * while the rank is held, and opening it again at a restart. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "shim/process/memory/memory.h"
#include "shim/process/memory/external_files.h"
#include "shim/process/objects/file_rights.h"
#include "shim/process/objects/log_prefix.h"
#include "shim/process/objects/objects.h"

/* Flags that only matter when a file is first opened. The kernel keeps O_NOFOLLOW among a
 * descriptor's flags; it would refuse the link /proc/self/fd/N. O_TMPFILE contains O_DIRECTORY. */
#define NOT_AGAIN (O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW | O_TMPFILE)

/* ---- scan ---------------------------------------------------------------------------------- */

/* Whether the image has the content of a written file: a log if it is small; another file if it is
 * small or not only appended to. */
static bool is_whole(const struct gck_file *x)
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
	struct gck_target_place at = gck_target_at(t, fd);
	char name[32];
	int copy;

	snprintf(name, sizeof(name), "fd/%d", at.fd);
	copy = openat(at.proc, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (copy < 0)
		return gck_fail(err, errno, "cannot read the file of fd %d of process %d: %s", fd,
				(int)t->pid, strerror(errno));
	return copy;
}

void gck_fd_check_name(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	struct stat st;

	if (v->st.st_nlink == 0) {
		x->unlinked = true;
		x->path[strlen(x->path) - (gck_path_deleted(x->path) ? strlen(" (deleted)") : 0)] =
			'\0';
	} else if (stat(x->path, &st) || st.st_ino != v->st.st_ino || st.st_dev != v->st.st_dev) {
		gck_obstacle_add(s->f, true, v->object, "close it first",
			 "the name of its file is gone or belongs to another file: %s", v->link);
	}
}

int gck_fd_file(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	x->kind = S_ISDIR(v->st.st_mode) ? GCK_FD_DIR : GCK_FD_FILE;
	x->was = (struct gck_place_file){v->st.st_ino, v->st.st_uid};
	x->path = strdup(v->link);
	if (!x->path)
		return gck_fail(s->err, ENOMEM, "out of memory for the image");
	if (*v->link != '/') {
		gck_obstacle_add(s->f, true, v->object, "close it first",
			 "it refers to a namespace, not to a file: %s", v->link);
		return 0;
	}
	gck_fd_check_name(s, v, x);
	x->mtime_ns = v->st.st_mtim.tv_sec * 1000000000ll + v->st.st_mtim.tv_nsec;
	if (x->kind == GCK_FD_DIR) {
		if (x->unlinked)
			gck_obstacle_add(s->f, true, v->object, "close it first",
				 "its directory is gone: %s", v->link);
		return 0;
	}
	x->size = x->least = (uint64_t)v->st.st_size;
	x->written = !(x->flags & O_PATH) && (x->flags & O_ACCMODE) != O_RDONLY;
	if (x->unlinked)
		return gck_fd_memfd(s, v, x);
	x->whole = is_whole(x);
	if (x->written && !x->whole && !(x->flags & O_APPEND))
		gck_obstacle_add(s->f, false, v->object,
				 "open it with O_APPEND if it is only appended to; else write new "
				 "files",
				 "%s (%llu bytes) is taken for a log: if what was written of it is "
				 "changed later, the checkpoint cannot be used",
				 x->path, (unsigned long long)x->size);
	return 0;
}

/* slurmstepd opens a file of its own for each task, or for each node, if the name of srun's -o
 * differs between them; other files of -o are srun's. */
int gck_fd_output(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	struct stat st;

	if (!S_ISREG(v->st.st_mode) || access(v->link, R_OK | W_OK) || stat(v->link, &st) ||
	    st.st_ino != v->st.st_ino || st.st_dev != v->st.st_dev)
		return 0;
	x->size = (uint64_t)v->st.st_size;
	x->path = strdup(v->link);
	return x->path ? 0 : gck_fail(s->err, ENOMEM, "out of memory for the image");
}

int gck_fd_device(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	static const unsigned char minors[] = {3, 5, 7, 8, 9}; /* null zero full random urandom */

	const struct gck_exclusions *excluded = &s->t->excluded;
	bool left = gck_exclusions_parents_device(excluded, v->link);

	x->kind = GCK_FD_DEVICE;
	x->path = strdup(left ? "/dev/null" : v->link); /* its number stays taken */
	if (!x->path)
		return gck_fail(s->err, ENOMEM, "out of memory for the image");
	if (left || gck_exclusions_device(excluded, v->link))
		return 0;
	if (major(v->st.st_rdev) != 1 || minor(v->st.st_rdev) > 9 ||
	    !memchr(minors, (int)minor(v->st.st_rdev), sizeof(minors)))
		gck_obstacle_add(s->f, true, v->object, "close it first", "a device: %s", v->link);
	return 0;
}

/* ---- hold ---------------------------------------------------------------------------------- */

static bool is_leased_to_write(const struct gck_file *x)
{
	bool is = false;

	for (size_t i = 0; i < x->nlocks; i++)
		is |= x->locks[i].kind == GCK_LOCK_LEASE && x->locks[i].exclusive;
	return is;
}

/* Read a file through the process's own descriptor: another open of it would break its lease, which
 * also says that nobody else changes it. Its offset is not moved. */
static int hold_leased(struct gck_hold *h, uint32_t i)
{
	struct gck_file *x = &h->img->files[i];
	int fd = gck_target_fd(h->t, gck_image_fd_of(h->img, i)), result = -1;
	size_t space = (x->size / GCK_PAGE + 1) * GCK_PAGE, done = 0;
	void *data = NULL;
	ssize_t n = 1;

	if (fd < 0 || posix_memalign(&data, GCK_PAGE, space)) /* it may be one for O_DIRECT */
		gck_fail(h->err, fd < 0 ? errno : ENOMEM, "%s cannot be copied: %s", x->path,
			 strerror(fd < 0 ? errno : ENOMEM));
	while (data && n > 0 && done < x->size) {
		n = pread(fd, (char *)data + done, space - done, (off_t)done);
		done += n > 0 ? (size_t)n : 0;
	}
	if (data && done != x->size)
		gck_fail(h->err, n < 0 ? errno : EAGAIN, "%s cannot be read: %s", x->path,
			 n < 0 ? strerror(errno) : "it has another size now; try again");
	else if (data)
		result = gck_frozen_bytes(h->copies, GCK_FROZEN_FILE, i, data, x->size, h->err);
	x->data_size = x->size;
	free(data);
	if (fd >= 0)
		close(fd);
	return result;
}

int gck_hold_file(struct gck_hold *h, uint32_t i)
{
	struct gck_file *x = &h->img->files[i];
	int fd, result;

	if (is_leased_to_write(x))
		return hold_leased(h, i);
	fd = gck_fd_reopen(h->t, gck_image_fd_of(h->img, i), h->err);
	if (fd < 0)
		return -1;
	x->data_size = x->size;
	result = gck_frozen_file(h->copies, GCK_FROZEN_FILE, i, fd, 0, x->size, h->err) ||
		 (!x->unlinked && gck_external_add(h->external, GCK_FROZEN_FILE, i, fd, x->size,
						  x->mtime_ns, h->err));
	close(fd);
	return result ? gck_fail_in(h->err, "%s", x->path) : 0;
}

static int update_file(struct gck_hold *h, const struct gck_external_file *x)
{
	struct gck_file *f = x->of == GCK_FROZEN_FILE ? &h->img->files[x->index] : NULL;
	const char *name = f ? f->path : h->img->objects[x->index].name;
	struct stat now;
	bool same;

	if (gck_external_same(x, &now, &same, h->err))
		return gck_fail_in(h->err, "%s", name);
	if (same)
		return 0;
	if (!f || !(f->flags & O_APPEND) || (uint64_t)now.st_size < x->size)
		return gck_fail(h->err, EAGAIN, "%s, whose content is in the checkpoint, was "
				"changed by another process while this one was held; try again",
				name);
	f->size = f->data_size = (uint64_t)now.st_size;
	f->mtime_ns = gck_mtime_ns(&now);
	gck_frozen_drop(h->copies, GCK_FROZEN_FILE, x->index);
	return gck_frozen_file(h->copies, GCK_FROZEN_FILE, x->index, x->fd, 0, f->size, h->err);
}

/* Tasks of a node may share it. */
static int measure_output(struct gck_hold *h, uint32_t i)
{
	struct gck_file *x = &h->img->files[i];
	int fd = gck_target_fd(h->t, gck_image_fd_of(h->img, i));
	struct stat st;
	int rc = fd < 0 ? -1 : fstat(fd, &st);

	if (rc)
		gck_fail(h->err, errno, "cannot look at %s: %s", x->path, strerror(errno));
	else
		x->size = (uint64_t)st.st_size;
	if (fd >= 0)
		close(fd);
	return rc;
}

int gck_hold_update_files(struct gck_hold *h)
{
	for (uint32_t i = 0; i < h->img->nfiles; i++)
		if (gck_file_is_output(&h->img->files[i]) && measure_output(h, i))
			return -1;
	for (size_t i = 0; i < h->external->n; i++)
		if (update_file(h, &h->external->v[i]))
			return -1;
	return 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

int gck_make_failed(struct gck_error *err, const struct gck_file *f, const char *what)
{
	return gck_fail(err, errno, "%s %s: %s", what, f->path ? f->path : "",
			gck_place_reason(errno));
}

int gck_close_failed(int fd)
{
	close(fd);
	return -1;
}

/* Open the file of a descriptor with the image's flags, as far as this file system has direct I/O
 * and the file's owner allows O_NOATIME: a program may ask for both, and can do without. */
static int open_again(int at, const struct gck_file *f)
{
	int flags = ((int)f->flags & ~NOT_AGAIN) | O_CLOEXEC | O_NOCTTY;
	int fd = gck_rights_reopen(at, flags);

	if (fd < 0 && errno == EINVAL && flags & O_DIRECT)
		fd = gck_rights_reopen(at, flags &= ~O_DIRECT);
	if (fd < 0 && errno == EPERM && flags & O_NOATIME)
		fd = gck_rights_reopen(at, flags & ~O_NOATIME);
	return fd;
}

static int seek(int fd, const struct gck_file *f)
{
	return f->flags & O_PATH || f->kind == GCK_FD_DEVICE || lseek(fd, f->offset, SEEK_SET) >= 0
		       ? 0
		       : -1;
}

/* Open the file again: a new open file description, with the image's flags. */
int gck_make_reopen(int fd, const struct gck_file *f, struct gck_error *err)
{
	int own = open_again(fd, f);

	if (own < 0)
		return gck_make_failed(err, f, "opening");
	if (seek(own, f))
		return gck_make_failed(err, f, "seeking in"), gck_close_failed(own);
	return own;
}

int gck_make_path(const struct gck_file *f, struct gck_error *err)
{
	int at = gck_place_open(f->path, &f->was, NULL), fd;

	if (at < 0)
		return gck_make_failed(err, f, "opening");
	fd = gck_make_reopen(at, f, err);
	close(at);
	return fd;
}

/* A new file without a name with space for the content: in the same directory, or in memory. */
static int make_nameless(const struct gck_file *f)
{
	char path[PATH_MAX], name[200];
	int fd, at;

	snprintf(path, sizeof path, "%s", f->path);
	snprintf(name, sizeof name, "%s", basename(path));
	at = gck_place_open(dirname(path), NULL, NULL);
	fd = at < 0 ? -1 : openat(at, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (at >= 0)
		close(at);
	if (fd >= 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)f->size) &&
	    (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
		close(fd);
		fd = -1;
	}
	return fd >= 0 ? fd : memfd_create(name, MFD_CLOEXEC);
}

int gck_make_unlinked(struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	int fd = make_nameless(f), own;

	if (fd < 0)
		return gck_make_failed(err, f, "making the deleted file again");
	if (gck_restore_fill_file(r, &f->data, f->size, fd, f->path, err))
		return gck_close_failed(fd);
	own = gck_make_reopen(fd, f, err);
	if (own >= 0 && (fchmod(fd, f->mode & 07777) || gck_set_mtime(fd, f->mtime_ns)))
		own = gck_make_failed(err, f, "setting mode and time of"), gck_close_failed(own);
	close(fd);
	return own;
}

/* SPDX-License-Identifier: Apache-2.0
 * The `file:` backend: writing. A file is complete before it gets its name. An object is fsynced a
 * few objects later, so that its write-back runs while the next one is filled. */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "storage/file/file.h"

#define PAGE 4096u
#define DIRECT_LEAST (1u << 20)

static int open_temporary(struct gck_file_store *f, const char *dir, char name[GCK_NAME_MAX],
			  struct gck_error *err)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL;
	uint64_t r;
	int fd;

	if (getrandom(&r, sizeof r, 0) != sizeof r)
		return gck_fail(err, errno, "getrandom: %s", strerror(errno));
	if (snprintf(name, GCK_NAME_MAX, "%s/tmp-%016" PRIx64, dir, r) >= GCK_NAME_MAX)
		return gck_file_fail(f, "create", dir, ENAMETOOLONG, err);
	fd = gck_file_at_open(f, name, flags);
	if (fd < 0 && errno == ENOENT && (mkdirat(f->step_fd, dir, 0700) == 0 || errno == EEXIST))
		fd = gck_file_at_open(f, name, flags);
	return fd < 0 ? gck_file_fail(f, "create", name, errno, err) : fd;
}

/* Bypassing the page cache is faster on a disk of this node (doc/store.md); elsewhere it was not
 * measured, and tmpfs does not support it. */
static bool direct_pays(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 &&
	       (st.f_type == EXT4_SUPER_MAGIC || st.f_type == XFS_SUPER_MAGIC);
}

static int write_all(struct gck_file_store *f, int fd, const char *name, const char *data,
		     size_t size, struct gck_error *err)
{
	bool direct = size >= DIRECT_LEAST && (uintptr_t)data % PAGE == 0 && direct_pays(fd) &&
		      fcntl(fd, F_SETFL, O_DIRECT) == 0;

	while (size > 0) {
		ssize_t n = write(fd, data, direct ? size - size % PAGE : size);

		if (n < 0 && errno == EINTR)
			continue;
		/* The rest is less than a page, or this file system has other alignment rules. */
		if (direct && (n < 0 ? errno == EINVAL : size - (size_t)n < PAGE)) {
			direct = false;
			fcntl(fd, F_SETFL, 0);
			n = n < 0 ? 0 : n;
		}
		if (n < 0)
			return gck_file_fail(f, "write", name, errno, err);
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Rename a complete file to its name. On failure it is removed; its descriptor stays open. */
static int give_name(struct gck_file_store *f, const char *temporary, const char *name,
		     struct gck_error *err)
{
	if (gck_file_at_rename(f, temporary, name) == 0)
		return 0;
	gck_file_fail(f, "rename to", name, errno, err);
	(void)!gck_file_at_remove(f, temporary); /* if this fails, the next prune removes it */
	return -1;
}

/* Write a file under a temporary name, durably if now is set. Returns it open. */
static int write_temporary(struct gck_file_store *f, const char *dir, const void *data, size_t size,
			   bool now, char temporary[GCK_NAME_MAX], struct gck_error *err)
{
	int fd = open_temporary(f, dir, temporary, err);
	int rc;

	if (fd < 0)
		return -1;
	rc = write_all(f, fd, temporary, data, size, err);
	if (rc == 0 && now && fsync(fd) < 0)
		rc = gck_file_fail(f, "fsync", temporary, errno, err);
	if (rc == 0)
		return fd;
	close(fd);
	(void)!gck_file_at_remove(f, temporary); /* if this fails, the next prune removes it */
	return -1;
}

/* Wait until an object is on disk. */
static int sync_object(struct gck_file_store *f, const struct gck_file_open *o,
		       struct gck_error *err)
{
	int code = fsync(o->fd) < 0 ? errno : 0;

	close(o->fd);
	return code ? gck_file_fail(f, "fsync", o->name, code, err) : 0;
}

/* Start the write-back of an object, and wait for that of an earlier one. */
static int sync_later(struct gck_file_store *f, int fd, const char *name, struct gck_error *err)
{
	struct gck_file_open *place, before;

	sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	pthread_mutex_lock(&f->lock);
	place = &f->pending[f->next_pending++ % GCK_FILE_PENDING];
	before = *place;
	place->fd = fd;
	snprintf(place->name, sizeof place->name, "%s", name);
	pthread_mutex_unlock(&f->lock);
	return before.fd >= 0 ? sync_object(f, &before, err) : 0;
}

/* Open the object that another rank has put; -1: there is none. It may not be on disk yet. */
static int open_same(struct gck_file_store *f, const char *name, size_t size)
{
	uint64_t found;
	int fd = gck_file_open_regular(f, name, &found, NULL);

	if (fd < 0 || found == size)
		return fd;
	close(fd);
	return -1;
}

int gck_file_put_object(struct gck_backend *b, const char *name, const void *data, size_t size,
			bool shared, struct gck_error *err)
{
	struct gck_file_store *f = (struct gck_file_store *)b;
	char dir[GCK_NAME_MAX], temporary[GCK_NAME_MAX];
	int fd = shared ? open_same(f, name, size) : -1;

	if (fd < 0) {
		snprintf(dir, sizeof dir, "%.*s", (int)strcspn(name, "/"), name);
		fd = write_temporary(f, dir, data, size, false, temporary, err);
		if (fd < 0)
			return -1;
		if (give_name(f, temporary, name, err) < 0) {
			close(fd);
			return -1;
		}
	}
	return sync_later(f, fd, name, err);
}

int gck_file_flush(struct gck_backend *b, struct gck_error *err)
{
	struct gck_file_store *f = (struct gck_file_store *)b;
	int rc = 0;

	for (size_t i = 0; i < GCK_FILE_PENDING; i++) {
		if (f->pending[i].fd >= 0 && sync_object(f, &f->pending[i], rc ? NULL : err) < 0)
			rc = -1;
		f->pending[i].fd = -1;
	}
	return rc;
}

void gck_file_drop_pending(struct gck_file_store *f)
{
	for (size_t i = 0; i < GCK_FILE_PENDING; i++)
		if (f->pending[i].fd >= 0)
			close(f->pending[i].fd);
}

/* Make the entry of a name in its directory durable. */
static int sync_directory(struct gck_file_store *f, const char *name, struct gck_error *err)
{
	char dir[GCK_NAME_MAX];
	char *slash;
	int fd, code;

	snprintf(dir, sizeof dir, "%s", name);
	slash = strchr(dir, '/');
	if (!slash)
		return fsync(f->step_fd) < 0 ? gck_file_fail(f, "fsync", "", errno, err) : 0;
	*slash = '\0';
	fd = gck_file_at_open(f, dir, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return gck_file_fail(f, "open", dir, errno, err);
	code = fsync(fd) < 0 ? errno : 0;
	close(fd);
	return code ? gck_file_fail(f, "fsync", dir, code, err) : 0;
}

int gck_file_put(struct gck_backend *b, const char *name, const char *dir, const void *data,
		 size_t size, struct gck_error *err)
{
	struct gck_file_store *f = (struct gck_file_store *)b;
	char temporary[GCK_NAME_MAX];
	int fd = write_temporary(f, dir, data, size, true, temporary, err);

	if (fd < 0)
		return -1;
	close(fd);
	return give_name(f, temporary, name, err) < 0 ? -1 : sync_directory(f, name, err);
}

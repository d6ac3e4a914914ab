/* SPDX-License-Identifier: Apache-2.0
 * The `file:` backend: writing. Whatever gets its name here is whole; fsync of an object comes a
 * few objects later, so that its write-back runs while the next one is filled. */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/file.h"

struct gck_stream {
	struct gck_file_store *f;
	int fd;
	char name[GCK_NAME_MAX]; /* the temporary one */
};

static int open_temporary(struct gck_file_store *f, const char *dir, char name[GCK_NAME_MAX],
			  struct gck_error *err)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	uint64_t r;
	int fd;

	if (getrandom(&r, sizeof r, 0) != sizeof r)
		return gck_fail(err, errno, "getrandom: %s", strerror(errno));
	if (snprintf(name, GCK_NAME_MAX, "%s/tmp-%016" PRIx64, dir, r) >= GCK_NAME_MAX)
		return gck_file_fail(f, "create", dir, ENAMETOOLONG, err);
	fd = openat(f->step_fd, name, flags, 0600);
	if (fd < 0 && errno == ENOENT && (mkdirat(f->step_fd, dir, 0700) == 0 || errno == EEXIST))
		fd = openat(f->step_fd, name, flags, 0600);
	return fd < 0 ? gck_file_fail(f, "create", name, errno, err) : fd;
}

static int write_all(struct gck_file_store *f, int fd, const char *name, const char *data,
		     size_t size, struct gck_error *err)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gck_file_fail(f, "write", name, errno, err);
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

struct gck_stream *gck_file_stream_open(struct gck_backend *b, const char *dir,
					struct gck_error *err)
{
	struct gck_stream *st = malloc(sizeof *st);

	if (!st) {
		gck_fail(err, ENOMEM, "no memory to write to %s", b->where);
		return NULL;
	}
	st->f = (struct gck_file_store *)b;
	st->fd = open_temporary(st->f, dir, st->name, err);
	if (st->fd >= 0)
		return st;
	free(st);
	return NULL;
}

int gck_file_stream_write(struct gck_stream *st, const void *data, size_t size,
			  struct gck_error *err)
{
	return write_all(st->f, st->fd, st->name, data, size, err);
}

void gck_file_stream_discard(struct gck_stream *st)
{
	close(st->fd);
	unlinkat(st->f->step_fd, st->name, 0);
	free(st);
}

/* Wait until a finished object is on disk. Its slot is free whatever comes of it. */
static int settle(struct gck_file_store *f, struct gck_file_open *o, struct gck_error *err)
{
	int code = fsync(o->fd) < 0 ? errno : 0;

	close(o->fd);
	o->fd = -1;
	return code ? gck_file_fail(f, "fsync", o->name, code, err) : 0;
}

int gck_file_stream_finish(struct gck_stream *st, const char *name, struct gck_error *err)
{
	struct gck_file_store *f = st->f;
	struct gck_file_open *o = &f->pending[f->next_pending++ % GCK_FILE_PENDING];

	if (o->fd >= 0 && settle(f, o, err) < 0) {
		gck_file_stream_discard(st);
		return -1;
	}
	if (renameat(f->step_fd, st->name, f->step_fd, name) < 0) {
		gck_file_fail(f, "rename to", name, errno, err);
		gck_file_stream_discard(st);
		return -1;
	}
	gck_file_forget(f);
	sync_file_range(st->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	o->fd = st->fd;
	snprintf(o->name, sizeof o->name, "%s", name);
	free(st);
	return 0;
}

int gck_file_flush(struct gck_backend *b, struct gck_error *err)
{
	struct gck_file_store *f = (struct gck_file_store *)b;
	int rc = 0;

	for (size_t i = 0; i < GCK_FILE_PENDING; i++)
		if (f->pending[i].fd >= 0 && settle(f, &f->pending[i], rc ? NULL : err) < 0)
			rc = -1;
	return rc;
}

void gck_file_drop_pending(struct gck_file_store *f)
{
	for (size_t i = 0; i < GCK_FILE_PENDING; i++)
		if (f->pending[i].fd >= 0)
			close(f->pending[i].fd);
}

/* The directory that a name lies in. */
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
	fd = openat(f->step_fd, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
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
	int fd = open_temporary(f, dir, temporary, err);
	int rc;

	if (fd < 0)
		return -1;
	rc = write_all(f, fd, temporary, data, size, err);
	if (rc == 0 && fsync(fd) < 0)
		rc = gck_file_fail(f, "fsync", temporary, errno, err);
	close(fd);
	if (rc == 0 && renameat(f->step_fd, temporary, f->step_fd, name) < 0)
		rc = gck_file_fail(f, "rename to", name, errno, err);
	if (rc < 0) {
		unlinkat(f->step_fd, temporary, 0);
		return -1;
	}
	return sync_directory(f, name, err);
}

/* SPDX-License-Identifier: Apache-2.0
 * Files outside the rank that an image depends on. */
#include "config.h"

#include "shim/process/memory/external_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND 1000000000ll

int64_t gck_mtime_ns(const struct stat *st)
{
	return st->st_mtim.tv_sec * SECOND + st->st_mtim.tv_nsec;
}

int gck_set_mtime(int fd, int64_t mtime_ns)
{
	int64_t part = (mtime_ns % SECOND + SECOND) % SECOND; /* also before 1970 */
	const struct timespec times[] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = (mtime_ns - part) / SECOND, .tv_nsec = part},
	};

	return futimens(fd, times);
}

/* Open the file again, which makes a network file system ask its server for size and times. */
static int open_again(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

int gck_external_add(struct gck_external_files *o, enum gck_frozen_of of, uint32_t index, int fd,
		    uint64_t size, int64_t mtime_ns, struct gck_error *err)
{
	struct gck_external_file *x;
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy < 0)
		return gck_fail(err, errno, "cannot keep a descriptor of a file: %s",
				strerror(errno));
	x = gck_grow(&o->v, &o->n, sizeof(*x), err);
	if (!x) {
		close(copy);
		return -1;
	}
	*x = (struct gck_external_file){of, index, copy, size, mtime_ns};
	return 0;
}

int gck_external_same(const struct gck_external_file *x, struct stat *now, bool *same,
		     struct gck_error *err)
{
	int fd = open_again(x->fd), failed = fd < 0 || fstat(fd, now);

	if (failed)
		gck_fail(err, errno, "cannot look again at a file that was copied: %s",
			 strerror(errno));
	if (fd >= 0)
		close(fd);
	if (failed)
		return -1;
	*same = (uint64_t)now->st_size == x->size && gck_mtime_ns(now) == x->mtime_ns;
	return 0;
}

void gck_external_free(struct gck_external_files *o)
{
	for (size_t i = 0; i < o->n; i++)
		close(o->v[i].fd);
	free(o->v);
	*o = (struct gck_external_files){0};
}

/* EINVAL (the file system has nothing to flush) and EROFS are not failures. */
int gck_external_sync(int fd, const char *path, struct gck_error *err)
{
	if (!fsync(fd) || errno == EINVAL || errno == EROFS)
		return 0;
	return gck_fail(err, errno, "%s, which the checkpoint depends on, cannot be flushed to its "
			"file system: %s", path, strerror(errno));
}

static int sync_path(const char *path, struct gck_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), result = 0;
	struct stat st;

	if (fd < 0)
		return 0; /* removed since, or not readable for us: the restart checks it */
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		result = gck_external_sync(fd, path, err);
	close(fd);
	return result;
}

int gck_external_sync_named(const struct gck_image *img, struct gck_error *err)
{
	for (size_t i = 0; i < img->nfiles; i++) {
		const struct gck_file *x = &img->files[i];

		if (((x->kind == GCK_FD_FILE && !x->written && !x->unlinked) ||
		     gck_file_is_output(x)) &&
		    sync_path(x->path, err))
			return -1;
	}
	for (size_t i = 0; i < img->ncontents; i++)
		if (!img->contents[i].carried && sync_path(img->contents[i].path, err))
			return -1;
	return 0;
}

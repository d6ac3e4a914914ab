/* SPDX-License-Identifier: Apache-2.0
 * The `file:` backend: reading, listing, removing. The job's directory belongs to the user and
 * is closed to others (step_dir.c), but root reads and removes there, too: changes that the
 * owner makes meanwhile, such as links, must not lead outside (open_files.c). */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "storage/file/file.h"

static struct gck_file_store *file_of(struct gck_backend *b)
{
	return (struct gck_file_store *)b;
}

static void file_close(struct gck_backend *b)
{
	struct gck_file_store *f = file_of(b);

	gck_file_drop_pending(f);
	gck_file_forget(f);
	close(f->step_fd);
	close(f->job_fd);
	close(f->cluster_fd);
	pthread_mutex_destroy(&f->lock);
	free(b->where);
	free(b->squatter);
	free(f->cluster);
	free(f);
}

static int file_size(struct gck_backend *b, const char *name, uint64_t *size,
		     struct gck_error *err)
{
	uint64_t n;
	int fd = gck_file_open_regular(file_of(b), name, &n, err);

	if (fd < 0)
		return -1;
	close(fd);
	*size = n;
	return 0;
}

static int read_all(struct gck_file_store *f, int fd, const char *name, uint64_t offset, char *data,
		    size_t size, struct gck_error *err)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(fd, data + done, size - done, (off_t)(offset + done));

		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			return gck_fail(err, EBADMSG, "%s/%s is cut off at %llu", f->head.where,
					name, (unsigned long long)(offset + done));
		else if (errno != EINTR)
			return gck_file_fail(f, "read", name, errno, err);
	}
	return 0;
}

/* Objects are read in parts and stay open; documents are read at once and may be replaced. */
static int file_get(struct gck_backend *b, const char *name, uint64_t offset, void *data,
		    size_t size, struct gck_error *err)
{
	struct gck_file_store *f = file_of(b);
	bool object = gck_name_is_object(name);
	uint64_t all;
	int fd = object ? gck_file_acquire(f, name, err) :
			  gck_file_open_regular(f, name, &all, err);
	int rc;

	if (fd < 0)
		return -1;
	rc = read_all(f, fd, name, offset, data, size, err);
	if (object)
		gck_file_release(f, fd);
	else
		close(fd);
	return rc;
}

static bool is_directory(int dirfd_, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	return fstatat(dirfd_, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int list_open(struct gck_file_store *f, DIR *d, const char *dir, gck_list_fn *fn, void *arg,
		     struct gck_error *err)
{
	char name[sizeof(((struct dirent *)NULL)->d_name) + 1];
	struct dirent *e;

	while (errno = 0, (e = readdir(d))) {
		if (e->d_name[0] == '.') /* including files that NFS keeps after removal */
			continue;
		snprintf(name, sizeof name, "%s%s", e->d_name,
			 is_directory(dirfd(d), e) ? "/" : "");
		if (fn(arg, name, err) < 0)
			return -1;
	}
	return errno ? gck_file_fail(f, "list", dir, errno, err) : 0;
}

static int file_list(struct gck_backend *b, const char *dir, gck_list_fn *fn, void *arg,
		     struct gck_error *err)
{
	struct gck_file_store *f = file_of(b);
	int fd = gck_file_at_open(f, *dir ? dir : ".", O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int rc;

	if (!d) {
		rc = errno;
		if (fd >= 0)
			close(fd);
		return rc == ENOENT ? 0 : gck_file_fail(f, "list", dir, rc, err);
	}
	rc = list_open(f, d, dir, fn, arg, err);
	closedir(d);
	return rc;
}

static int file_remove(struct gck_backend *b, const char *name, struct gck_error *err)
{
	struct gck_file_store *f = file_of(b);
	bool dir = *name && name[strlen(name) - 1] == '/';

	gck_file_forget(f);
	if (gck_file_at_remove(f, name) == 0 || errno == ENOENT)
		return 0;
	if (dir && (errno == ENOTEMPTY || errno == EEXIST))
		return 0;
	return gck_file_fail(f, "remove", name, errno, err);
}

/* On a file system without locks every caller succeeds. */
static int file_lock(struct gck_backend *b, struct gck_error *err)
{
	if (flock(file_of(b)->step_fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
		return 0;
	return gck_fail(err, EBUSY,
			"%s: another import into it is under way; try again when that has ended",
			b->where);
}

static int file_space(struct gck_backend *b, uint64_t *bytes, struct gck_error *err)
{
	struct statvfs v;

	if (fstatvfs(file_of(b)->step_fd, &v) < 0)
		return gck_file_fail(file_of(b), "ask for the space in", "", errno, err);
	*bytes = (uint64_t)v.f_bavail * v.f_frsize;
	return 0;
}

static void file_remove_empty(struct gck_backend *b)
{
	struct gck_file_store *f = file_of(b);

	if (unlinkat(f->job_fd, f->step, AT_REMOVEDIR) == 0)
		unlinkat(f->cluster_fd, f->job, AT_REMOVEDIR);
}

const struct gck_backend_ops gck_file_ops = {
	.close = file_close,
	.put_object = gck_file_put_object,
	.flush = gck_file_flush,
	.put = gck_file_put,
	.size = file_size,
	.get = file_get,
	.list = file_list,
	.remove = file_remove,
	.lock = file_lock,
	.space = file_space,
	.remove_empty = file_remove_empty,
};

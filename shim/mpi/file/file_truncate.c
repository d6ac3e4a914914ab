/* SPDX-License-Identifier: Apache-2.0
 * Truncates a file of MPI-IO that has grown since the checkpoint. */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/mpi/file/file.h"

/* Makes a file beside it with the first free number, as file_restore.c of shim/process does for
 * other files. */
static int make_rest_file(const char *path, mode_t mode, char *rest_path, size_t size,
			  struct gck_error *err)
{
	for (unsigned n = 1;; n++) {
		int fd;

		if ((size_t)snprintf(rest_path, size, "%s.gpuckpt-cut-%u", path, n) >= size)
			return gck_fail(err, ENAMETOOLONG,
					"%s: the name of the file beside it, for the bytes "
					"since the checkpoint, would be too long",
					path);
		fd = gck_place_make(rest_path, O_WRONLY, mode & 0777);
		if (fd >= 0 || errno != EEXIST)
			return fd >= 0 ? fd
				       : gck_fail(err, errno,
						  "%s, for the bytes written since the checkpoint, "
						  "cannot be created: %s",
						  rest_path, gck_place_reason(errno));
	}
}

int gck_mpi_file_find(const char *path, const struct gck_place_file *was, struct gck_error *err)
{
	bool another;
	int at = gck_place_open(path, was, &another);

	if (at < 0)
		return gck_fail(err, errno,
				"%s was open by MPI_File_open at the checkpoint: %s: it must be on "
				"a file system that all nodes share",
				path, gck_place_reason(errno));
	if (!another)
		return at;
	close(at);
	return gck_fail(err, ESTALE, "%s is another file than the one that MPI_File_open had open "
				     "at the checkpoint: put that file back", path);
}

static int copy_rest(int from, off_t at, int to)
{
	char buf[65536];

	for (;;) {
		ssize_t n = copy_file_range(from, &at, to, NULL, 1 << 30, 0);

		if (n > 0)
			continue;
		if (n == 0)
			return 0;
		/* these file systems do not support it */
		n = pread(from, buf, sizeof(buf), at);
		if (n <= 0)
			return (int)n;
		at += n;
		if (write(to, buf, (size_t)n) != n)
			return -1;
	}
}

static int move_rest(const char *path, int fd, off_t size, mode_t mode, struct gck_error *err)
{
	char rest_path[PATH_MAX];
	int to = make_rest_file(path, mode, rest_path, sizeof(rest_path), err), rc;

	if (to < 0)
		return -1;
	rc = copy_rest(fd, size, to);
	if (rc || (fsync(to) && errno != EINVAL)) {
		rc = gck_fail(err, errno,
			      "%s: copying the bytes since the checkpoint from %s failed: %s",
			      rest_path, path, strerror(errno));
		gck_place_remove(rest_path, to);
		close(to);
		return rc;
	}
	close(to);
	if (ftruncate(fd, size))
		return gck_fail(err, errno, "%s: truncating it to %lld bytes failed: %s", path,
				(long long)size, strerror(errno));
	return 0;
}

static int open_to_cut(const char *path, const struct gck_place_file *was, struct gck_error *err)
{
	int at = gck_mpi_file_find(path, was, err), fd;
	char name[32];

	if (at < 0)
		return -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", at);
	fd = open(name, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		gck_fail(err, errno, "%s cannot be opened to cut it back to the checkpoint: %s",
			 path, strerror(errno));
	close(at);
	return fd;
}

int gck_mpi_file_cut(const char *path, const struct gck_place_file *was, long long size,
		     struct gck_error *err)
{
	int fd = open_to_cut(path, was, err), rc = 0;
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st)) {
		rc = gck_fail(err, errno, "%s: %s", path, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		rc = 0;
	} else if (st.st_size < size) {
		rc = gck_fail(err, ESTALE,
			      "%s has %lld bytes, but had %lld at the checkpoint: put that version "
			      "of it back",
			      path, (long long)st.st_size, size);
	} else if (st.st_size > size) {
		rc = move_rest(path, fd, size, st.st_mode, err);
	}
	close(fd);
	return rc;
}

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
		fd = open(rest_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
		if (fd >= 0 || errno != EEXIST)
			return fd >= 0 ? fd
				       : gck_fail(err, errno,
						  "%s, for the bytes written since the checkpoint, "
						  "cannot be created: %s",
						  rest_path, strerror(errno));
	}
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
	if (close(to) || rc) {
		rc = gck_fail(err, errno,
			      "%s: copying the bytes since the checkpoint from %s failed: %s",
			      rest_path, path, strerror(errno));
		unlink(rest_path);
		return rc;
	}
	if (ftruncate(fd, size))
		return gck_fail(err, errno, "%s: truncating it to %lld bytes failed: %s", path,
				(long long)size, strerror(errno));
	return 0;
}

int gck_mpi_file_cut(const char *path, long long size, struct gck_error *err)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), rc = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		gck_fail(err, errno,
			 "%s was open by MPI_File_open at the checkpoint: %s: it must be on a file "
			 "system that all nodes share",
			 path, strerror(errno));
		rc = -1;
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
	if (fd >= 0)
		close(fd);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 * What was written to a file of MPI-IO after the checkpoint: a file that has grown is cut back. */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/mpi/file/file.h"

/* A new file beside it, under the first number that is free, as for other files
 * (restore_stage.c). */
static int make_kept(const char *path, mode_t mode, char *kept, size_t size, struct gck_error *err)
{
	for (unsigned n = 1;; n++) {
		int fd;

		if ((size_t)snprintf(kept, size, "%s.gpuckpt-cut-%u", path, n) >= size)
			return gck_fail(err, ENAMETOOLONG,
					"%s: its name is too long to keep what is "
					"cut from it beside it",
					path);
		fd = open(kept, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
		if (fd >= 0 || errno != EEXIST)
			return fd >= 0 ? fd
				       : gck_fail(err, errno,
						  "%s, to keep what is cut from a file, "
						  "cannot be made: %s",
						  kept, strerror(errno));
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
		/* not between these file systems */
		n = pread(from, buf, sizeof(buf), at);
		if (n <= 0)
			return (int)n;
		at += n;
		if (write(to, buf, (size_t)n) != n)
			return -1;
	}
}

static int keep_and_cut(const char *path, int fd, off_t size, mode_t mode, struct gck_error *err)
{
	char kept[PATH_MAX];
	int to = make_kept(path, mode, kept, sizeof(kept), err), rc;

	if (to < 0)
		return -1;
	rc = copy_rest(fd, size, to);
	if (close(to) || rc) {
		rc = gck_fail(err, errno, "%s: keeping there what is cut from %s: %s", kept, path,
			      strerror(errno));
		unlink(kept);
		return rc;
	}
	if (ftruncate(fd, size))
		return gck_fail(err, errno, "%s: cutting it to %lld bytes: %s", path,
				(long long)size, strerror(errno));
	return 0;
}

int gck_mpi_file_cut(const char *path, long long size, struct gck_error *err)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), rc = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		gck_fail(err, errno,
			 "%s was open by MPI_File_open at the checkpoint: %s: it has to be "
			 "on a file system that every node sees",
			 path, strerror(errno));
		rc = -1;
	} else if (!S_ISREG(st.st_mode)) {
		rc = 0;
	} else if (st.st_size < size) {
		rc = gck_fail(err, ESTALE,
			      "%s has %lld bytes, and %lld at the checkpoint: put that file back",
			      path, (long long)st.st_size, size);
	} else if (st.st_size > size) {
		rc = keep_and_cut(path, fd, size, st.st_mode, err);
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 * Give a file a name without replacing another. link() does, except on exFAT, vfat and many file
 * systems of CIFS and FUSE. There a rename is used, if necessary over an empty file of our own. */
#include "config.h"

#include "coordinator/cli/cli.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_same(const char *a, const char *b)
{
	struct stat x, y;

	return lstat(a, &x) == 0 && lstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Between the two calls other processes see an empty file. */
static int rename_over_empty(const char *temporary, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int code;

	if (fd < 0)
		return -1;
	close(fd);
	if (rename(temporary, path) == 0)
		return 0;
	code = errno;
	unlink(path);
	errno = code;
	return -1;
}

static int rename_new(const char *temporary, const char *path)
{
	if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
		return 0;
	return errno == EEXIST ? -1 : rename_over_empty(temporary, path);
}

static int name_new(const char *temporary, const char *path)
{
	if (link(temporary, path) == 0)
		return 0;
	switch (errno) {
	case EEXIST: /* or this is a repeated request whose first answer an NFS server lost */
		if (is_same(temporary, path))
			return 0;
		errno = EEXIST;
		return -1;
	case EPERM:
	case EOPNOTSUPP:
	case ENOSYS:
	case EMLINK:
		return rename_new(temporary, path);
	default:
		return -1;
	}
}

static void sync_directory_of(const char *path)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(copy);
}

int give_name(const char *temporary, const char *path, struct gck_error *err)
{
	if (name_new(temporary, path) < 0)
		return gck_fail(err, errno, "%s: %s", path, strerror(errno));
	sync_directory_of(path);
	return 0;
}

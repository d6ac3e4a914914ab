/* SPDX-License-Identifier: Apache-2.0
 * lying_disk DIR FAULT: a file system (FUSE) over DIR that shows DIR itself, until it is unmounted.
 * The word in the file FAULT says how it lies meanwhile; without the file it does not.
 *   fail   reads, writes and syncs fail (EIO)
 *   fill   nothing can be made or written (ENOSPC), and no space is free
 *   tear   the second half of each write of 64 KiB or more is lost; the write succeeds
 *   delay  each read, write and sync takes 100 ms longer
 * Build with libfuse3; run as root: files are made as their users. */
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int top;
static const char *fault_file;

/* Does it lie so? */
static bool lies(const char *how)
{
	char word[8] = "";
	FILE *f = fopen(fault_file, "r");

	if (f && !fgets(word, sizeof word, f))
		*word = 0;
	if (f)
		fclose(f);
	return !strncmp(word, how, strlen(how));
}

static const char *below(const char *path)
{
	return path[1] ? path + 1 : ".";
}

static int result(int rc)
{
	return rc < 0 ? -errno : 0;
}

/* What is made belongs to the caller. */
static int made(const char *path, int rc)
{
	const struct fuse_context *c = fuse_get_context();

	if (rc < 0)
		return -errno;
	return result(fchownat(top, below(path), c->uid, c->gid, AT_SYMLINK_NOFOLLOW));
}

/* Reads, writes and syncs. */
static int trouble(void)
{
	if (lies("delay"))
		usleep(100000);
	return lies("fail") ? -EIO : 0;
}

static int on_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	(void)fi;
	return result(fstatat(top, below(path), st, AT_SYMLINK_NOFOLLOW));
}

static int on_readdir(const char *path, void *to, fuse_fill_dir_t fill, off_t at,
		      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	int fd = openat(top, below(path), O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	(void)at;
	(void)fi;
	(void)flags;
	if (!dir)
		return -errno;
	while ((e = readdir(dir)))
		fill(to, e->d_name, NULL, 0, 0);
	closedir(dir);
	return 0;
}

static int on_mkdir(const char *path, mode_t mode)
{
	return lies("fill") ? -ENOSPC : made(path, mkdirat(top, below(path), mode));
}

static int on_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	int fd = lies("fill") ? (errno = ENOSPC, -1) :
				openat(top, below(path), fi->flags & ~O_DIRECT, mode);

	fi->fh = (uint64_t)fd;
	return made(path, fd);
}

static int on_open(const char *path, struct fuse_file_info *fi)
{
	int fd = openat(top, below(path), fi->flags & ~O_DIRECT);

	fi->fh = (uint64_t)fd;
	return result(fd);
}

static int on_release(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	return result(close((int)fi->fh));
}

static int on_read(const char *path, char *to, size_t n, off_t at, struct fuse_file_info *fi)
{
	ssize_t got = trouble() ? (errno = EIO, -1) : pread((int)fi->fh, to, n, at);

	(void)path;
	return got < 0 ? -errno : (int)got;
}

static int on_write(const char *path, const char *from, size_t n, off_t at,
		    struct fuse_file_info *fi)
{
	size_t keep = n >= 65536 && lies("tear") ? n / 2 : n;

	(void)path;
	if (trouble())
		return -EIO;
	if (lies("fill"))
		return -ENOSPC;
	if (pwrite((int)fi->fh, from, keep, at) != (ssize_t)keep ||
	    (keep < n && pwrite((int)fi->fh, "", 1, at + (off_t)n - 1) != 1))
		return -EIO;
	return (int)n;
}

static int on_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	int fd = fi ? dup((int)fi->fh) : openat(top, below(path), O_WRONLY), rc;

	if (fd < 0)
		return -errno;
	rc = result(ftruncate(fd, size));
	close(fd);
	return rc;
}

static int on_fsync(const char *path, int data, struct fuse_file_info *fi)
{
	(void)path;
	(void)data;
	(void)fi;
	return trouble();
}

static int on_unlink(const char *path)
{
	return result(unlinkat(top, below(path), 0));
}

static int on_rmdir(const char *path)
{
	return result(unlinkat(top, below(path), AT_REMOVEDIR));
}

static int on_rename(const char *from, const char *to, unsigned flags)
{
	return result(renameat2(top, below(from), top, below(to), flags));
}

static int on_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	(void)fi;
	return result(fchmodat(top, below(path), mode, 0));
}

static int on_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
	(void)fi;
	return result(fchownat(top, below(path), uid, gid, AT_SYMLINK_NOFOLLOW));
}

static int on_utimens(const char *path, const struct timespec t[2], struct fuse_file_info *fi)
{
	(void)fi;
	return result(utimensat(top, below(path), t, AT_SYMLINK_NOFOLLOW));
}

static int on_statfs(const char *path, struct statvfs *v)
{
	(void)path;
	if (fstatvfs(top, v) < 0)
		return -errno;
	if (lies("fill"))
		v->f_bfree = v->f_bavail = 0;
	return 0;
}

/* Nothing is cached, so that every reader sees what is there. */
static void *on_init(struct fuse_conn_info *conn, struct fuse_config *config)
{
	(void)conn;
	config->direct_io = 1;
	config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
	return NULL;
}

static const struct fuse_operations operations = {
	.init = on_init, .getattr = on_getattr, .readdir = on_readdir, .mkdir = on_mkdir,
	.create = on_create, .open = on_open, .release = on_release, .read = on_read,
	.write = on_write, .truncate = on_truncate, .fsync = on_fsync, .fsyncdir = on_fsync,
	.unlink = on_unlink, .rmdir = on_rmdir, .rename = on_rename, .chmod = on_chmod,
	.chown = on_chown, .utimens = on_utimens, .statfs = on_statfs,
};

int main(int argc, char **argv)
{
	char *args[] = {argv[0], "-o", "allow_other,default_permissions", argc > 1 ? argv[1] : "",
			NULL};

	if (argc != 3 || (top = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
		return 2;
	fault_file = argv[2];
	umask(0);
	return fuse_main(4, args, &operations, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * What a restart needs of files outside the rank. */
#include "config.h"

#include "shim/process/objects/file_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/environ_slots.h"
#include "shim/process/objects/log_prefix.h"
#include "shim/process/proc/procfs.h"

#define TRIES 10 /* another rank of the step may set the mode back in between */

/* ---- opening ------------------------------------------------------------------------------- */

/* The mode bits that its owner needs to open a file so. */
static mode_t needed(int flags)
{
	if (flags & O_PATH)
		return 0;
	return (flags & O_ACCMODE) == O_RDONLY   ? S_IRUSR
	       : (flags & O_ACCMODE) == O_WRONLY ? S_IWUSR
						 : S_IRUSR | S_IWUSR;
}

/* Open the file of `at`. If that is forbidden, its owner gets the rights for that moment. */
static int open_lent(int at, int flags)
{
	mode_t rights = needed(flags);
	struct stat st;
	char path[32];
	int fd, why;

	snprintf(path, sizeof path, "/proc/self/fd/%d", at);
	fd = open(path, flags);
	if (fd >= 0 || errno != EACCES)
		return fd;
	if (fstat(at, &st))
		return -1;
	if (st.st_uid != geteuid())
		return errno = EACCES, -1;
	if ((st.st_mode & rights) == rights)
		return open(path, flags);
	if (chmod(path, (st.st_mode & 07777) | rights))
		return -1;
	fd = open(path, flags);
	why = errno;
	if (chmod(path, st.st_mode & 07777) && fd >= 0) {
		why = errno;
		close(fd);
		fd = -1;
	}
	errno = why;
	return fd;
}

int gck_rights_reopen(int at, int flags)
{
	int fd = -1;

	errno = EACCES;
	for (int i = 0; fd < 0 && errno == EACCES && i < TRIES; i++)
		fd = open_lent(at, flags & ~O_NOFOLLOW);
	return fd;
}

int gck_rights_open(const char *path, int flags, const struct gck_place_file *was, bool *another)
{
	int at = gck_place_open(path, was, another), fd, code;

	if (at < 0)
		return -1;
	fd = gck_rights_reopen(at, flags);
	code = errno;
	close(at);
	errno = code;
	return fd;
}

bool gck_rights_fixed(const char *path)
{
	struct statx x;

	return !statx(AT_FDCWD, path, 0, STATX_TYPE, &x) &&
	       x.stx_attributes & (STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE);
}

bool gck_rights_allow(const char *path, int flags)
{
	mode_t rights = needed(flags);
	int mode = (rights & S_IRUSR ? R_OK : 0) | (rights & S_IWUSR ? W_OK : 0);
	struct gck_place p;
	bool allowed;

	if (mode & W_OK && gck_rights_fixed(path))
		return errno = EPERM, false;
	if (gck_place_find(path, &p))
		return false;
	allowed = !faccessat(p.dir, p.name, mode, AT_EACCESS);
	gck_place_leave(&p);
	if (allowed || errno != EACCES)
		return allowed;
	return p.st.st_uid == geteuid();
}

/* ---- what a restart cuts ------------------------------------------------------------------- */

bool gck_rights_directory(unsigned n, const char *path, const char *cwd, const char *home,
			  char directory[PATH_MAX])
{
	char copy[PATH_MAX];
	const char *from = n == 0 ? path : n == 1 ? cwd : n == 2 ? home : NULL;

	if (!from || (size_t)snprintf(copy, sizeof copy, "%s", from) >= sizeof copy)
		return false;
	snprintf(directory, PATH_MAX, "%s", n ? copy : dirname(copy));
	return true;
}

const char *gck_rights_home(const char *environment, size_t size)
{
	static const char name[] = "HOME=";
	const char *entry = environment ? gck_slots_find(environment, size, name) : NULL;

	return entry ? entry + strlen(name) : NULL;
}

bool gck_rights_place(const char *path, const char *cwd, const char *home, unsigned *n,
		      char directory[PATH_MAX])
{
	for (*n = 0; gck_rights_directory(*n, path, cwd, home, directory); ++*n)
		if (!faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS))
			return true;
	return false;
}

/* Report a log beside which nothing can be kept. */
static void check_beside(struct gck_scan *s, const char *object, const char *path,
			 const char *home)
{
	char directory[PATH_MAX];
	unsigned n;

	if (!gck_rights_place(path, s->img->cwd, home, &n, directory))
		gck_obstacle_add(s->f, true, object,
				 "make its directory or the working directory writable",
				 "what a restart cuts from it cannot be kept, in its directory or "
				 "elsewhere: %s", path);
	else if (n)
		gck_obstacle_add(s->f, false, object, "look for it there",
				 "the directory of %s cannot be written: what a restart cuts from "
				 "the file is kept in %s", path, directory);
}

/* ---- scan ---------------------------------------------------------------------------------- */

/* The copy, or the hash of a log, is made with a descriptor of our own. */
static bool may_read(const struct gck_scan *s, int fd)
{
	struct gck_target_place at = gck_target_at(s->t, fd);
	char name[32];

	snprintf(name, sizeof name, "fd/%d", at.fd);
	return !faccessat(at.proc, name, R_OK, AT_EACCESS);
}

static void check_file(struct gck_scan *s, size_t i, const char *home)
{
	const struct gck_file *x = &s->img->files[i];
	int fd = gck_image_fd_of(s->img, i);
	char object[32];

	snprintf(object, sizeof object, "fd %d", fd);
	if ((x->written || x->unlinked) && !may_read(s, fd))
		gck_obstacle_add(s->f, true, object, "allow it to be read (chmod u+r)",
				 "its file cannot be read, and its content is needed: %s", x->path);
	else if (x->written && !x->unlinked && gck_rights_fixed(x->path))
		gck_obstacle_add(s->f, true, object, "chattr -a -i",
				 "a restart cannot set its file back, which is append-only or "
				 "immutable (chattr +a, +i): %s", x->path);
	else if (!x->unlinked && !gck_rights_allow(x->path, x->written ? O_RDWR : (int)x->flags))
		gck_obstacle_add(s->f, true, object, "close it first",
				 "a restart cannot open its file again: %s: %s", x->path,
				 strerror(errno));
	else if (x->written && !x->unlinked && (!x->whole || x->flags & O_APPEND))
		check_beside(s, object, x->path, home);
}

static void check_object(struct gck_scan *s, const struct gck_object *o)
{
	if (o->has_path && !gck_rights_allow(o->name, O_RDWR))
		gck_obstacle_add(s->f, true, o->name, "unmap it first",
				 "a restart cannot open this mapped file again for writing: %s",
				 strerror(errno));
}

/* A long file that a restart could not open is stored, as the mapping shows it. */
static void check_content(struct gck_scan *s, struct gck_content *c)
{
	if (!c->carried)
		c->carried = !gck_rights_allow(c->path, O_RDONLY);
	if (!c->carried)
		gck_obstacle_add(s->f, false, c->path, "keep it as it is",
				 "a mapped file of %llu bytes is not in the image: the node of the "
				 "restart needs the same file", (unsigned long long)c->size);
}

int gck_scan_file_rights(struct gck_scan *s)
{
	struct gck_image *img = s->img;
	size_t size = 0;
	char *environment = gck_proc_read(s->t->proc, "environ", &size, s->err);

	if (!environment)
		return -1;
	for (size_t i = 0; i < img->nfiles; i++)
		if (img->files[i].kind == GCK_FD_FILE || img->files[i].kind == GCK_FD_DIR)
			check_file(s, i, gck_rights_home(environment, size));
	for (size_t i = 0; i < img->nobjects; i++)
		check_object(s, &img->objects[i]);
	for (size_t i = 0; i < img->ncontents; i++)
		check_content(s, &img->contents[i]);
	free(environment);
	return 0;
}

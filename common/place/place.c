/* SPDX-License-Identifier: Apache-2.0
 * Where a path leads at a restart. */
#include "config.h"

#include "common/place/place.h"
#include "common/place/owner.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINKS 40 /* the kernel's limit */
#define OTHERS (S_IWGRP | S_IWOTH) /* who may write; an ACL's mask shows as the group's */

struct walk {
	struct gck_place *p;
	char rest[2 * PATH_MAX];
	unsigned links;
	struct stat dir;         /* of p->dir */
};

static bool is_trusted(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* Whether only root and this user may write the directory. */
static bool is_private(const struct stat *dir)
{
	return is_trusted(dir->st_uid) && !(dir->st_mode & OTHERS);
}

/* Whether another user may have put this entry into the directory. In a sticky one nobody else can
 * replace what is ours or root's. */
static bool is_replaceable(const struct stat *dir, const struct stat *entry)
{
	if (is_private(dir))
		return false;
	return !is_trusted(dir->st_uid) || !(dir->st_mode & S_ISVTX) ||
	       !is_trusted(entry->st_uid);
}

/* Open a directory; "/." makes the kernel mount one that is mounted on demand. */
static int enter(int dir, const char *name)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_NO_SYMLINKS};
	char path[NAME_MAX + 3];

	snprintf(path, sizeof path, "%s/.", name);
	return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

static int move_to(struct walk *w, int dir)
{
	if (dir < 0)
		return -1;
	gck_place_leave(w->p);
	w->p->dir = dir;
	return gck_owner_fstat(dir, &w->dir);
}

/* Whether the path has another component. */
static bool has_next(const struct walk *w)
{
	return w->rest[strspn(w->rest, "/")] != '\0';
}

/* Take it from the rest of the path. */
static int take(struct walk *w)
{
	char *start = w->rest + strspn(w->rest, "/");
	size_t n = strcspn(start, "/");

	if (n > NAME_MAX)
		return errno = ENAMETOOLONG, -1;
	snprintf(w->p->name, sizeof w->p->name, "%.*s", (int)n, start);
	memmove(w->rest, start + n, strlen(start + n) + 1);
	return 0;
}

static int follow(struct walk *w)
{
	char target[2 * PATH_MAX];
	ssize_t n;

	if (w->p->others || !is_private(&w->dir) || ++w->links > LINKS)
		return errno = ELOOP, -1;
	n = readlinkat(w->p->dir, w->p->name, target, PATH_MAX);
	if (n < 0)
		return -1;
	if ((size_t)snprintf(target + n, sizeof target - (size_t)n, "/%s", w->rest) >=
	    sizeof target - (size_t)n)
		return errno = ENAMETOOLONG, -1;
	strcpy(w->rest, target);
	if (*target == '/' && move_to(w, enter(w->p->dir, "/")))
		return -1;
	snprintf(w->p->name, sizeof w->p->name, ".");
	w->p->st = w->dir;
	return 0;
}

/* Look at the next component, and enter the directory that it is unless it is the last one. */
static int step(struct walk *w)
{
	struct gck_place *p = w->p;
	bool last;

	if (take(w))
		return -1;
	last = !has_next(w);
	p->missing = gck_owner_fstatat(p->dir, p->name, &p->st, AT_SYMLINK_NOFOLLOW) != 0;
	if (p->missing)
		return last && errno == ENOENT ? 0 : -1;
	if (S_ISLNK(p->st.st_mode))
		return follow(w);
	p->others |= is_replaceable(&w->dir, &p->st);
	return last ? 0 : move_to(w, enter(p->dir, p->name));
}

int gck_place_find(const char *path, struct gck_place *p)
{
	struct walk w = {.p = p};
	int rc;

	*p = (struct gck_place){.dir = -1, .name = "."};
	if (*path != '/')
		return errno = EINVAL, -1;
	if ((size_t)snprintf(w.rest, PATH_MAX, "%s", path) >= PATH_MAX)
		return errno = ENAMETOOLONG, -1;
	rc = move_to(&w, enter(AT_FDCWD, "/"));
	p->st = w.dir;
	while (rc == 0 && has_next(&w))
		rc = step(&w);
	if (rc)
		gck_place_leave(p);
	return rc;
}

void gck_place_leave(struct gck_place *p)
{
	int code = errno;

	if (p->dir >= 0)
		close(p->dir);
	p->dir = -1;
	errno = code;
}

static int close_as(int fd, int code)
{
	close(fd);
	return errno = code, -1;
}

/* An O_PATH descriptor of what is there, which may be a directory that cannot be entered; p->st is
 * then of that. */
static int open_there(struct gck_place *p)
{
	int fd = S_ISDIR(p->st.st_mode) ? enter(p->dir, p->name) : -1;

	if (fd < 0)
		fd = openat(p->dir, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (gck_owner_fstat(fd, &p->st))
		return close_as(fd, errno);
	return S_ISLNK(p->st.st_mode) ? close_as(fd, ELOOP) : fd;
}

/* Whether it is another file than it was; -1: and another user's. */
static int compare(const struct gck_place *p, const struct gck_place_file *was)
{
	if (!was || !p->others || !was->inode || !was->owner)
		return 0;
	if (p->st.st_ino == was->inode && p->st.st_uid == was->owner)
		return 0;
	if (is_trusted(p->st.st_uid) || p->st.st_uid == was->owner)
		return 1;
	return errno = ENOTUNIQ, -1;
}

int gck_place_open(const char *path, const struct gck_place_file *was, bool *another)
{
	struct gck_place p;
	int fd, differs;

	if (gck_place_find(path, &p))
		return -1;
	fd = open_there(&p);
	gck_place_leave(&p);
	if (fd < 0)
		return -1;
	differs = compare(&p, was);
	if (differs < 0)
		return close_as(fd, errno);
	if (another)
		*another = differs;
	return fd;
}

int gck_place_stat(const char *path, const struct gck_place_file *was, struct stat *st)
{
	struct gck_place p;

	if (gck_place_find(path, &p))
		return -1;
	gck_place_leave(&p);
	if (p.missing)
		return errno = ENOENT, -1;
	if (compare(&p, was) < 0)
		return -1;
	*st = p.st;
	return 0;
}

int gck_place_make(const char *path, int flags, mode_t mode)
{
	struct gck_place p;
	int fd;

	if (gck_place_find(path, &p))
		return -1;
	fd = openat(p.dir, p.name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	gck_place_leave(&p);
	return fd;
}

void gck_place_remove(const char *path, int fd)
{
	struct gck_place p;
	struct stat st;

	if (gck_place_find(path, &p))
		return;
	if (!p.missing && !fstat(fd, &st) && st.st_ino == p.st.st_ino && st.st_dev == p.st.st_dev)
		unlinkat(p.dir, p.name, 0);
	gck_place_leave(&p);
}

const char *gck_place_reason(int code)
{
	switch (code) {
	case ELOOP:
		return "its path had no symbolic link at the checkpoint, and now has one that "
		       "another user may have put there: put back what was there";
	case ENOTUNIQ:
		return "another user's file, put there since the checkpoint: remove it, or put "
		       "back what was there";
	default:
		return strerror(code);
	}
}

/* SPDX-License-Identifier: Apache-2.0
 * The `file:` backend: opening, renaming and removing names below a step's directory, and objects
 * that stay open for reading. The kernel follows a link in the middle of a path, and one at its end
 * if a '/' follows, even with O_NOFOLLOW: therefore each part of a name is opened by itself. The
 * step's owner may replace a directory by a link at any time, while root removes its content. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/file/file.h"

static const char *remedy(int code)
{
	switch (code) {
	case ENOSPC:
		return "; free space there or choose another store";
	case EDQUOT:
		return "; your quota there is used up";
	case EIO:
		return "; the file system is unreliable";
	default:
		return "";
	}
}

int gck_file_fail(const struct gck_file_store *f, const char *what, const char *name, int code,
		  struct gck_error *err)
{
	return gck_fail(err, code, "%s %s/%s: %s%s", what, f->head.where, name, strerror(code),
			remedy(code));
}

/* ---- names ---------------------------------------------------------------------------------- */

struct place {
	int dir; /* O_PATH */
	char leaf[GCK_NAME_MAX];
};

static int find(const struct gck_file_store *f, const char *name, struct place *p)
{
	char copy[GCK_NAME_MAX], *leaf;
	size_t n = strlen(name);

	if (n >= sizeof copy) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(copy, name, n + 1);
	if (n > 0 && copy[n - 1] == '/')
		copy[n - 1] = '\0';
	leaf = strchr(copy, '/');
	if (leaf)
		*leaf++ = '\0';
	snprintf(p->leaf, sizeof p->leaf, "%s", leaf ? leaf : copy);
	if (strchr(p->leaf, '/')) {
		errno = EINVAL;
		return -1;
	}
	p->dir = openat(f->step_fd, leaf ? copy : ".",
			O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return p->dir < 0 ? -1 : 0;
}

/* Close the directory; errno stays that of the operation. */
static int leave(const struct place *p, int rc)
{
	int code = errno;

	close(p->dir);
	errno = code;
	return rc;
}

int gck_file_at_open(const struct gck_file_store *f, const char *name, int flags)
{
	struct place p;

	if (find(f, name, &p) < 0)
		return -1;
	return leave(&p, openat(p.dir, p.leaf, flags | O_NOFOLLOW | O_CLOEXEC, 0600));
}

int gck_file_at_rename(const struct gck_file_store *f, const char *from, const char *to)
{
	struct place a, b;

	if (find(f, from, &a) < 0)
		return -1;
	if (find(f, to, &b) < 0)
		return leave(&a, -1);
	return leave(&a, leave(&b, renameat(a.dir, a.leaf, b.dir, b.leaf)));
}

int gck_file_at_remove(const struct gck_file_store *f, const char *name)
{
	bool dir = *name && name[strlen(name) - 1] == '/';
	struct place p;

	if (find(f, name, &p) < 0)
		return -1;
	return leave(&p, unlinkat(p.dir, p.leaf, dir ? AT_REMOVEDIR : 0));
}

int gck_file_open_regular(const struct gck_file_store *f, const char *name, uint64_t *size,
			  struct gck_error *err)
{
	struct stat st;
	int fd = gck_file_at_open(f, name, O_RDONLY | O_NONBLOCK);

	if (fd < 0)
		return gck_file_fail(f, "open", name, errno, err);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		*size = (uint64_t)st.st_size;
		return fd;
	}
	close(fd);
	return gck_fail(err, EBADMSG, "%s/%s is not a regular file", f->head.where, name);
}

/* ---- objects that stay open ----------------------------------------------------------------- */

/* Called with the lock held. */
static struct gck_file_open *find_open(struct gck_file_store *f, const char *name)
{
	for (size_t i = 0; i < GCK_FILE_CACHED; i++)
		if (f->cached[i].fd >= 0 && !strcmp(f->cached[i].name, name))
			return &f->cached[i];
	return NULL;
}

/* The next entry, in turn, that no thread uses. An object in use is not closed. */
static struct gck_file_open *find_free(struct gck_file_store *f)
{
	for (size_t i = 0; i < GCK_FILE_CACHED; i++) {
		struct gck_file_open *o = &f->cached[f->next_cached++ % GCK_FILE_CACHED];

		if (!o->users)
			return o;
	}
	return NULL;
}

static void keep_open(struct gck_file_store *f, const char *name, int fd)
{
	struct gck_file_open *o = find_free(f);

	if (!o)
		return;
	if (o->fd >= 0)
		close(o->fd);
	o->fd = fd;
	o->users = 1;
	snprintf(o->name, sizeof o->name, "%s", name);
}

int gck_file_acquire(struct gck_file_store *f, const char *name, struct gck_error *err)
{
	struct gck_file_open *o;
	uint64_t size;
	int fd = -1;

	pthread_mutex_lock(&f->lock);
	o = find_open(f, name);
	if (o) {
		o->users++;
		fd = o->fd;
	}
	pthread_mutex_unlock(&f->lock);
	if (fd >= 0)
		return fd;
	fd = gck_file_open_regular(f, name, &size, err);
	if (fd < 0)
		return -1;
	pthread_mutex_lock(&f->lock);
	keep_open(f, name, fd);
	pthread_mutex_unlock(&f->lock);
	return fd;
}

void gck_file_release(struct gck_file_store *f, int fd)
{
	bool kept = false;

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < GCK_FILE_CACHED && !kept; i++) {
		kept = f->cached[i].fd == fd;
		f->cached[i].users -= kept;
	}
	pthread_mutex_unlock(&f->lock);
	if (!kept)
		close(fd);
}

void gck_file_forget(struct gck_file_store *f)
{
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < GCK_FILE_CACHED; i++) {
		struct gck_file_open *o = &f->cached[i];

		if (o->users || o->fd < 0)
			continue;
		close(o->fd);
		o->fd = -1;
	}
	pthread_mutex_unlock(&f->lock);
}

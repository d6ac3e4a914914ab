/* SPDX-License-Identifier: Apache-2.0
 * The `file:` backend: names below a step's directory. The kernel follows a link in the middle of a path,
 * and one at its end if a '/' is behind it, whatever O_NOFOLLOW says: so each part of a name is taken by
 * itself. Whoever owns the step may put a link in a directory's place at any time, while root removes
 * what is in it. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "storage/file/file.h"

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
	p->dir = openat(f->step_fd, leaf ? copy : ".", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return p->dir < 0 ? -1 : 0;
}

/* What was done there keeps its errno. */
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

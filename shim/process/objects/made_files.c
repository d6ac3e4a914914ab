/* SPDX-License-Identifier: Apache-2.0
 * Restore: names of sockets, FIFOs and message queues, and directories of them, which a build has
 * to make. A build that fails, or is not run, removes them. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/place/place.h"
#include "shim/process/objects/objects.h"

int gck_restore_note_made(struct gck_restore *r, const char *path, const struct stat *st)
{
	struct gck_restore *root = r->root;
	struct gck_made_file *more = reallocarray(root->made, root->nmade + 1, sizeof *more);

	if (!more)
		return -1;
	root->made = more;
	more += root->nmade;
	*more = (struct gck_made_file){strdup(path), st->st_dev, st->st_ino};
	if (!more->path)
		return -1;
	root->nmade++;
	return 0;
}

static int make_directory(struct gck_restore *r, const char *path)
{
	struct gck_place p;
	struct stat st;
	int failed;

	if (gck_place_find(path, &p))
		return -1;
	failed = mkdirat(p.dir, p.name, 0700);
	if (!failed)
		failed = fstatat(p.dir, p.name, &st, AT_SYMLINK_NOFOLLOW) ||
			 gck_restore_note_made(r, path, &st);
	else if (errno == EEXIST) /* another rank's restart was faster */
		failed = 0;
	gck_place_leave(&p);
	return failed ? -1 : 0;
}

int gck_restore_make_parent(struct gck_restore *r, const char *path)
{
	char directory[PATH_MAX], *parent;
	struct stat st;

	if ((size_t)snprintf(directory, sizeof directory, "%s", path) >= sizeof directory)
		return errno = ENAMETOOLONG, -1;
	parent = dirname(directory);
	if (!gck_place_stat(parent, NULL, &st))
		return S_ISDIR(st.st_mode) ? 0 : (errno = ENOTDIR, -1);
	return errno != ENOENT || gck_restore_make_parent(r, parent) ? -1
								     : make_directory(r, parent);
}

/* If it still is that file. */
void gck_restore_drop_last_made(struct gck_restore *r)
{
	struct gck_made_file *x = &r->root->made[--r->root->nmade];
	struct gck_place p;

	if (!x->inode)
		mq_unlink(x->path);
	else if (!gck_place_find(x->path, &p)) {
		if (!p.missing && p.st.st_dev == x->device && p.st.st_ino == x->inode)
			unlinkat(p.dir, p.name, S_ISDIR(p.st.st_mode) ? AT_REMOVEDIR : 0);
		gck_place_leave(&p);
	}
	free(x->path);
}

void gck_restore_drop_made(struct gck_restore *r)
{
	if (r != r->root)
		return;
	while (r->nmade && !r->ran)
		gck_restore_drop_last_made(r);
	for (size_t i = 0; i < r->nmade; i++)
		free(r->made[i].path);
	free(r->made);
	r->made = NULL;
	r->nmade = 0;
}

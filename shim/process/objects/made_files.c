/* SPDX-License-Identifier: Apache-2.0
 * Restore: names of sockets and FIFOs, which a build has to make. A build that fails, or is not
 * run, removes them. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/place.h"
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

/* If it still is that file. */
void gck_restore_drop_last_made(struct gck_restore *r)
{
	struct gck_made_file *x = &r->root->made[--r->root->nmade];
	struct gck_place p;

	if (!gck_place_find(x->path, &p)) {
		if (!p.missing && p.st.st_dev == x->device && p.st.st_ino == x->inode)
			unlinkat(p.dir, p.name, 0);
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

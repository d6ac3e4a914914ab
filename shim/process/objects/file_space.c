/* SPDX-License-Identifier: Apache-2.0
 * Space for the contents that a restart puts back into files. The build asks the file systems, so
 * that a restart without enough space fails while nothing has changed. gck_restore_files reserves
 * it before it changes the first file: other ranks and programs take space meanwhile, and a quota
 * shows only then. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "shim/process/objects/file_rights.h"
#include "shim/process/objects/objects.h"

#define BLOCK 512 /* of st_blocks */

static bool has_content(const struct gck_rewrite *w)
{
	return w->staged >= 0 && !w->there && w->size > 0;
}

/* ---- asked for ------------------------------------------------------------------------------ */

struct file_system {
	dev_t device;
	uint64_t bytes;    /* that it must give */
	const char *path;  /* a file on it */
};

struct file_systems {
	struct file_system *all;
	size_t n;
};

static int add(struct file_systems *f, dev_t device, uint64_t bytes, const char *path)
{
	struct file_system *more;
	size_t i = 0;

	while (i < f->n && f->all[i].device != device)
		i++;
	if (i == f->n) {
		more = reallocarray(f->all, f->n + 1, sizeof *more);
		if (!more)
			return -1;
		f->all = more;
		f->all[f->n++] = (struct file_system){device, 0, path};
	}
	f->all[i].bytes += bytes;
	return 0;
}

/* A file that cannot be found or made is for gck_restore_try_files to report. */
static int add_file(struct file_systems *f, const struct gck_rewrite *w)
{
	char directory[PATH_MAX];
	struct stat st;
	uint64_t has = 0;

	if (!gck_place_stat(w->path, &w->was, &st))
		has = (uint64_t)st.st_blocks * BLOCK;
	else if (!gck_rights_directory(0, w->path, NULL, NULL, directory) || stat(directory, &st))
		return 0;
	return w->size > has ? add(f, st.st_dev, w->size - has, w->path) : 0;
}

/* The file may be missing: its directory tells. What is not known, the reservation decides. */
static int check(const struct file_system *f, struct gck_error *err)
{
	char directory[PATH_MAX];
	struct statvfs v;
	uint64_t space;

	if (!gck_rights_directory(0, f->path, NULL, NULL, directory) || statvfs(directory, &v))
		return 0;
	space = (uint64_t)v.f_bavail * v.f_frsize;
	if (f->bytes <= space)
		return 0;
	return gck_fail(err, ENOSPC, "%s: its file system has %llu bytes free, of %llu that a "
			"restart needs to put contents of files back: make space there", f->path,
			(unsigned long long)space, (unsigned long long)f->bytes);
}

int gck_restore_check_space(const struct gck_restore *r, struct gck_error *err)
{
	struct file_systems f = {0};
	int rc = 0;

	for (size_t i = 0; i < r->nrewrites && !rc; i++)
		if (has_content(&r->rewrites[i]) && add_file(&f, &r->rewrites[i]))
			rc = gck_fail(err, ENOMEM, "no memory for %zu file systems", f.n + 1);
	for (size_t i = 0; i < f.n && !rc; i++)
		rc = check(&f.all[i], err);
	free(f.all);
	return rc;
}

/* ---- reserved ------------------------------------------------------------------------------- */

/* Some file systems cannot reserve: then writing decides. */
int gck_restore_reserve(const struct gck_rewrite *w, struct gck_error *err)
{
	int rc = 0;

	if (!has_content(w))
		return 0;
	do
		rc = fallocate(w->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)w->size);
	while (rc && errno == EINTR);
	if (!rc || (errno != ENOSPC && errno != EDQUOT))
		return 0;
	return gck_fail(err, errno, "%s: no space for the %llu bytes of its content: %s; make "
			"space there", w->path, (unsigned long long)w->size, strerror(errno));
}

/* Give back what lies behind the file's end. A log may be growing. */
void gck_restore_give_space_back(const struct gck_rewrite *w)
{
	struct stat st;

	if (has_content(w) && !w->log && w->fd >= 0 && !fstat(w->fd, &st))
		(void)!ftruncate(w->fd, st.st_size);
}

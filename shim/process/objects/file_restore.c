/* SPDX-License-Identifier: Apache-2.0
 * Restore: files outside the process. The build fetches and verifies their contents.
 * gck_restore_files writes them, or cuts files back to their size and saves the cut part in a file
 * beside, or elsewhere if that is not allowed. Everything that may fail is tried before the first
 * file is changed.
 *
 * A log is a file that is only appended to, also by other ranks and jobs. Ranks measure it for
 * their images one after the other, and the first may append again before the last has measured:
 * the smallest of their sizes is the log's size at the checkpoint. So a log that has at least the
 * size that this rank saw is not extended; what others appended is cut and saved in a file beside.
 * A log whose beginning has changed is saved beside as a whole. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/process/memory/memory.h"
#include "shim/process/objects/file_rights.h"
#include "shim/process/objects/objects.h"
#include "shim/process/ptrace/restore_note.h"

static struct gck_rewrite *find(struct gck_restore *r, const char *path)
{
	for (size_t i = 0; i < r->nrewrites; i++)
		if (!strcmp(r->rewrites[i].path, path))
			return &r->rewrites[i];
	return NULL;
}

/* One entry for each path; an entry with the file's whole content replaces one that only cuts
 * it. */
static struct gck_rewrite *entry(struct gck_restore *r, const char *path,
				 struct gck_place_file was, uint64_t size, uint32_t mode, bool log,
				 struct gck_error *err)
{
	struct gck_rewrite *w = find(r, path);

	if (!w) {
		w = reallocarray(r->rewrites, r->nrewrites + 1, sizeof *w);
		if (!w) {
			gck_fail(err, ENOMEM, "no memory for %zu files", r->nrewrites + 1);
			return NULL;
		}
		r->rewrites = w;
		w = &r->rewrites[r->nrewrites++];
		*w = (struct gck_rewrite){.path = path, .was = was, .staged = -1, .fd = -1,
					  .cut_fd = -1, .log = true};
	}
	w->log = w->log && log;
	if (w->staged < 0) {
		w->size = size;
		w->mode = mode;
	}
	return w;
}

static int stage(struct gck_restore *r, struct gck_rewrite *w, const struct gck_page_groups *data,
		 struct gck_error *err)
{
	if (w->staged >= 0)
		return 0;
	w->staged = memfd_create("gpuckpt", MFD_CLOEXEC);
	if (w->staged < 0)
		return gck_fail(err, errno, "no memory file: %s", strerror(errno));
	return gck_restore_fill_file(r, data, w->size, w->staged, w->path, err);
}

/* Whether the new task has the same output file. *now: the file that Slurm has opened. */
static bool is_output_again(const struct gck_restore *r, const struct gck_file *f,
			    struct gck_place_file *now)
{
	char name[32], path[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (!gck_file_is_output(f))
		return false;
	snprintf(name, sizeof name, "fd/%d", r->high + f->peer);
	n = readlinkat(r->proc, name, path, sizeof path - 1);
	path[n > 0 ? n : 0] = '\0';
	if (strcmp(path, f->path) || fstatat(r->proc, name, &st, 0))
		return false;
	*now = (struct gck_place_file){st.st_ino, st.st_uid};
	return true;
}

int gck_restore_stage(struct gck_restore *r, struct gck_error *err)
{
	struct gck_place_file now;
	struct gck_rewrite *w;

	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_file *f = &r->img->files[i];

		if (is_output_again(r, f, &now) &&
		    !entry(r, f->path, now, f->size, f->mode, true, err))
			return -1;
		if (f->kind != GCK_FD_FILE || f->unlinked || !(f->written || f->whole))
			continue;
		w = entry(r, f->path, f->was, f->size, f->mode, gck_file_is_log(f), err);
		if (!w || (f->whole && stage(r, w, &f->data, err)))
			return -1;
		w->min_size = f->least;
	}
	for (size_t i = 0; i < r->img->nobjects; i++) {
		const struct gck_object *o = &r->img->objects[i];

		if (!o->has_path || o->elsewhere)
			continue;
		w = entry(r, o->name, (struct gck_place_file){o->inode, o->owner}, o->size,
			  o->mode, false, err);
		if (!w || stage(r, w, &o->groups, err))
			return -1;
	}
	return 0;
}

/* ---- gck_restore_files --------------------------------------------------------------------- */

/* Copy bytes [from, to) of one file to another, at offset `at`. */
static int copy(struct gck_restore *r, int in, uint64_t from, uint64_t to, int out, uint64_t at)
{
	while (from < to) {
		size_t want = to - from < GCK_CHUNK_MAX ? to - from : GCK_CHUNK_MAX;
		ssize_t n = pread(in, r->buffer, want, (off_t)from);

		if (n > 0)
			n = pwrite(out, r->buffer, (size_t)n, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return errno = n ? errno : EIO, -1;
		from += (uint64_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

/* The file's smallest valid size. A shorter file is another one, or was cut by a program that knows
 * nothing of checkpoints. */
static uint64_t min_size(const struct gck_rewrite *w)
{
	return w->log ? w->min_size : w->size;
}

/* Make a new file in a directory, under the first free number; w->cut gets its name, w->cut_fd its
 * descriptor. */
static int make_in(struct gck_rewrite *w, const char *directory, const struct stat *st,
		   struct gck_error *err)
{
	const char *slash = strrchr(w->path, '/');

	for (unsigned n = 1; w->cut_fd < 0; n++) {
		free(w->cut);
		if (asprintf(&w->cut, "%s/%s.gpuckpt-cut-%u", directory, slash + 1, n) < 0)
			return w->cut = NULL, gck_fail(err, ENOMEM, "%s: no memory", w->path);
		w->cut_fd = gck_place_make(w->cut, O_WRONLY, st->st_mode & 0777);
		if (w->cut_fd < 0 && errno != EEXIST)
			return gck_fail(err, errno, "%s, to keep what is cut from %s, cannot be "
					"made: %s", w->cut, w->path, gck_place_reason(errno));
	}
	return 0;
}

static void remove_cut(struct gck_rewrite *w)
{
	if (w->cut_fd >= 0) {
		gck_place_remove(w->cut, w->cut_fd);
		close(w->cut_fd);
	}
	free(w->cut);
	w->cut = NULL;
	w->cut_fd = -1;
}

/* Another rank of the step cuts the same log back and has saved the cut part: ours is not
 * needed. */
static bool is_cut_already(const struct gck_rewrite *w, const struct stat *before)
{
	struct stat now;

	return !fstat(w->fd, &now) && now.st_size < before->st_size &&
	       (uint64_t)now.st_size >= min_size(w);
}

/* Copy the file from offset `from` on to a new file in a directory. */
static int keep_in(struct gck_restore *r, struct gck_rewrite *w, const char *directory,
		   uint64_t from, const struct stat *st, struct gck_error *err)
{
	if (make_in(w, directory, st, err))
		return remove_cut(w), -1;
	if (!copy(r, w->fd, from, (uint64_t)st->st_size, w->cut_fd, 0))
		return 0;
	gck_fail(err, errno, "%s: keeping the last %llu bytes of %s there: %s", w->cut,
		 (unsigned long long)((uint64_t)st->st_size - from), w->path, strerror(errno));
	remove_cut(w);
	return is_cut_already(w, st) ? 0 : -1;
}

/* Copy it to the first directory that takes it. The reason is that of the best directory. */
static int keep(struct gck_restore *r, struct gck_rewrite *w, uint64_t from, const struct stat *st,
		struct gck_error *err)
{
	const char *home = gck_rights_home(r->environment, r->environment_size);
	char directory[PATH_MAX];
	struct gck_error why;

	for (unsigned n = 0; gck_rights_directory(n, w->path, r->img->cwd, home, directory); n++)
		if (!keep_in(r, w, directory, from, st, n ? &why : err)) {
			return n && w->cut ? gck_restore_note(r, err, "what was cut from %s at "
							      "this restart is in %s", w->path,
							      w->cut) : 0;
		}
	return -1;
}

/* Compare the beginning of the file with the staged content, as far as both reach. */
static int compare(struct gck_restore *r, const struct gck_rewrite *w, uint64_t size, bool *same,
		   struct gck_error *err)
{
	unsigned char *staged = size ? mmap(NULL, size, PROT_READ, MAP_SHARED, w->staged, 0) : NULL;
	ssize_t n = 1;

	*same = true;
	for (uint64_t done = 0; staged != MAP_FAILED && n > 0 && *same && done < size;
	     done += (uint64_t)n) {
		n = pread(w->fd, r->buffer,
			  size - done < GCK_CHUNK_MAX ? size - done : GCK_CHUNK_MAX, (off_t)done);
		*same = n <= 0 || !memcmp(r->buffer, staged + done, (size_t)n);
	}
	if (staged && staged != MAP_FAILED)
		munmap(staged, size);
	if (staged == MAP_FAILED || n < 0)
		return gck_fail(err, errno, "%s: comparing it with what it was: %s", w->path,
				strerror(errno));
	return 0;
}

/* Save the part that will be cut. */
static int keep_cut(struct gck_restore *r, struct gck_rewrite *w, struct gck_error *err)
{
	struct stat st;

	if (fstat(w->fd, &st) || (uint64_t)st.st_size < min_size(w))
		return gck_fail(err, ESTALE,
				"%s has become shorter than %llu bytes since it was checked",
				w->path, (unsigned long long)min_size(w));
	return (uint64_t)st.st_size > w->size ? keep(r, w, w->size, &st, err) : 0;
}

/* Check a file whose content is staged, and which is a log or another file than it was. What others
 * appended, or what it has instead, may not be lost. */
static int keep_other(struct gck_restore *r, struct gck_rewrite *w, struct gck_error *err)
{
	struct stat st;
	uint64_t size;
	bool same;

	if (fstat(w->fd, &st))
		return gck_fail(err, errno, "%s: %s", w->path, strerror(errno));
	size = (uint64_t)st.st_size;
	if (compare(r, w, size < w->size ? size : w->size, &same, err))
		return -1;
	w->there = same && size >= w->min_size;
	if (!same)
		return keep(r, w, 0, &st, err);
	return size > w->size ? keep(r, w, w->size, &st, err) : 0;
}

static int cannot_open(const struct gck_rewrite *w, struct gck_error *err)
{
	return gck_fail(err, errno, "%s cannot be opened to put its content back: %s", w->path,
			gck_place_reason(errno));
}

static int open_outside(struct gck_restore *r, struct gck_rewrite *w, struct gck_error *err)
{
	bool another = false;

	w->fd = gck_rights_open(w->path, O_RDWR | O_CLOEXEC, &w->was, &another);
	if (w->fd < 0 && errno == ENOENT && w->staged >= 0) {
		w->fd = gck_place_make(w->path, O_RDWR, w->mode & 07777);
		w->made = w->fd >= 0;
		if (w->made && fchmod(w->fd, w->mode & 07777)) /* whatever our umask is */
			return gck_fail(err, errno, "%s: setting its mode: %s", w->path,
					strerror(errno));
		if (w->fd < 0 && errno == EEXIST) /* another rank of the step has made it */
			w->fd = gck_rights_open(w->path, O_RDWR | O_CLOEXEC, &w->was, &another);
	}
	if (w->fd < 0)
		return cannot_open(w, err);
	if (w->staged < 0)
		return keep_cut(r, w, err);
	return (w->log || another) && !w->made ? keep_other(r, w, err) : 0;
}

/* A missing file is made, and what is cut from one is kept beside it or elsewhere. */
static int try_outside(const struct gck_restore *r, const struct gck_rewrite *w,
		       struct gck_error *err)
{
	const char *home = gck_rights_home(r->environment, r->environment_size);
	char directory[PATH_MAX];
	struct stat st = {0};
	unsigned n = 0;

	if (gck_place_stat(w->path, &w->was, &st) && errno == ENOENT && w->staged >= 0)
		return gck_rights_directory(0, w->path, NULL, NULL, directory) &&
		       !access(directory, W_OK | X_OK) ? 0 : cannot_open(w, err);
	if (!st.st_mode || !gck_rights_allow(w->path, O_RDWR))
		return cannot_open(w, err);
	if ((uint64_t)st.st_size > w->size && (w->log || w->staged < 0) &&
	    !gck_rights_place(w->path, r->img->cwd, home, &n, directory))
		return gck_fail(err, errno, "%s: a file cannot be made in its directory or "
				"elsewhere for what is cut from it: %s", w->path, strerror(errno));
	return 0;
}

int gck_restore_try_files(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->nrewrites; i++)
		if (try_outside(r, &r->rewrites[i], err))
			return -1;
	return gck_restore_check_space(r, err);
}

static void undo(struct gck_restore *r)
{
	for (size_t i = 0; i < r->nrewrites; i++) {
		struct gck_rewrite *w = &r->rewrites[i];

		remove_cut(w);
		if (w->made)
			gck_place_remove(w->path, w->fd);
		else
			gck_restore_give_space_back(w);
	}
}

static int change(struct gck_restore *r, struct gck_rewrite *w, struct gck_error *err)
{
	struct stat now;

	if (w->staged >= 0 && !w->there && copy(r, w->staged, 0, w->size, w->fd, 0))
		return gck_fail(err, errno, "%s: putting its content back: %s", w->path,
				strerror(errno));
	if (w->log && !fstat(w->fd, &now) && (uint64_t)now.st_size <= w->size)
		return 0;
	if (ftruncate(w->fd, (off_t)w->size))
		return gck_fail(err, errno, "%s: cutting it to %llu bytes: %s", w->path,
				(unsigned long long)w->size, strerror(errno));
	return 0;
}

/* Another rank has given it its content. */
static int open_common(struct gck_restore *r, const struct gck_object *o, struct gck_error *err)
{
	const struct gck_place_file was = {o->inode, o->owner};
	int fd = gck_restore_share_object(r, o, -1);

	if (fd >= 0)
		return 0;
	fd = gck_rights_open(o->name, O_RDWR | O_CLOEXEC, &was, NULL);
	if (fd < 0)
		return gck_fail(err, errno, "%s, which ranks %s share, cannot be opened: %s",
				o->name, o->ranks, gck_place_reason(errno));
	(void)gck_restore_share_object(r, o, fd);
	close(fd);
	return 0;
}

/* Shared mappings of files are made once the files have their content. */
static int map_files(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nobjects; i++) {
		const struct gck_object *o = &r->img->objects[i];
		int fd = o->has_path && !o->elsewhere ? find(r, o->name)->fd : -1;

		if (!o->has_path)
			continue;
		if (fd < 0 && o->ranks && open_common(r, o, err))
			return -1;
		if (o->shared)
			fd = gck_restore_share_object(r, o, fd);
		if (gck_restore_map_object(r, i, fd, err))
			return -1;
	}
	return 0;
}

int gck_restore_own_files(struct gck_restore *r, struct gck_error *err)
{
	if (!r->built || r->filed)
		return gck_fail(err, EINVAL, "files are restored once, after the process is built");
	for (size_t i = 0; i < r->nrewrites; i++)
		if (open_outside(r, &r->rewrites[i], err) ||
		    gck_restore_reserve(&r->rewrites[i], err)) {
			undo(r);
			return -1;
		}
	for (size_t i = 0; i < r->nrewrites; i++)
		if (change(r, &r->rewrites[i], err))
			return -1;
	return 0;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void gck_restore_close_files(struct gck_restore *r)
{
	for (size_t i = 0; i < r->nrewrites; i++) {
		close_one(&r->rewrites[i].fd);
		close_one(&r->rewrites[i].cut_fd);
	}
}

int gck_restore_open_files(struct gck_restore *r, struct gck_error *err)
{
	if (map_files(r, err) || gck_restore_take_locks(r, err) || gck_restore_input(r, err))
		return -1;
	r->filed = true;
	return 0;
}

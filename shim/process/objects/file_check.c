/* SPDX-License-Identifier: Apache-2.0
 * Restore: checks that the files that the image needs are here. A mapped file is used if its bytes
 * are the image's. An opened file must exist and be at least as long as at the checkpoint. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/process/memory/memory.h"
#include "shim/process/memory/external_files.h"
#include "shim/process/objects/file_rights.h"
#include "shim/process/objects/objects.h"

#define SHM "/dev/shm/" /* where directories that are missing are made, too */

static bool read_all(int fd, unsigned char *data, size_t size, uint64_t offset)
{
	while (size) {
		ssize_t n = pread(fd, data, size, (off_t)offset);

		if (n < 0)
			return false;
		if (n == 0) {
			memset(data, 0, size);
			return true;
		}
		data += n;
		size -= (size_t)n;
		offset += (uint64_t)n;
	}
	return true;
}

/* Whether the file has the chunk's bytes in the pages of this group. */
static bool has_group(struct gck_restore *r, int fd, const struct gck_page_group *w)
{
	unsigned char *data = r->buffer;
	unsigned start = 0;
	size_t length;

	if (w->chunk.size != (uint32_t)__builtin_popcountll(w->mask) * GCK_PAGE)
		return false;
	for (unsigned i = 0; (length = gck_restore_run_length(w->mask, i, &start));) {
		if (!read_all(fd, data, length * GCK_PAGE, w->address + (uint64_t)start * GCK_PAGE))
			return false;
		data += length * GCK_PAGE;
		i = start + (unsigned)length;
	}
	return gck_hash_same(gck_hash_bytes(r->buffer, w->chunk.size), w->chunk.hash);
}

/* Whether a shared mapping shows this file, whoever changes it. */
static bool is_shown(const struct gck_image *img, size_t content, int fd)
{
	struct stat st;

	if (fstat(fd, &st) || st.st_ino != img->contents[content].inode)
		return false;
	for (size_t i = 0; i < img->nmaps; i++)
		if (img->maps[i].content == (int32_t)content &&
		    img->maps[i].flags & GCK_MAP_READ_SHARED)
			return true;
	return false;
}

static bool same_groups(const struct gck_page_groups *a, const struct gck_page_groups *b)
{
	bool same = a->rows.n == b->rows.n;

	for (size_t i = 0; i < a->rows.n && same; i++) {
		struct gck_page_group x = gck_page_groups_at(a, i), y = gck_page_groups_at(b, i);

		same = x.address == y.address && x.mask == y.mask &&
		       gck_hash_same(x.chunk.hash, y.chunk.hash);
	}
	return same;
}

/* Whether another process of the rank has found the same of this file. */
static bool is_known(const struct gck_restore *root, const struct stat *st,
		     const struct gck_page_groups *groups)
{
	for (size_t i = 0; i < root->nsame; i++)
		if (root->same[i].inode == st->st_ino && root->same[i].device == st->st_dev &&
		    same_groups(root->same[i].groups, groups))
			return true;
	return false;
}

/* Without memory it is read again. */
static void add_known(struct gck_restore *root, const struct stat *st,
		      const struct gck_page_groups *groups)
{
	struct gck_same_file *v = realloc(root->same, (root->nsame + 1) * sizeof *v);

	if (!v)
		return;
	v[root->nsame++] = (struct gck_same_file){st->st_dev, st->st_ino, groups};
	root->same = v;
}

static bool same_content(struct gck_restore *r, int fd, const struct gck_content *c)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != c->size)
		return false;
	if (!c->carried)
		return gck_mtime_ns(&st) == c->mtime_ns;
	if (is_known(r->root, &st, &c->groups))
		return true;
	for (size_t i = 0; i < c->groups.rows.n; i++) {
		struct gck_page_group x = gck_page_groups_at(&c->groups, i);

		if (!has_group(r, fd, &x))
			return false;
	}
	add_known(r->root, &st, &c->groups);
	return true;
}

int gck_restore_check_contents(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->ncontents; i++) {
		const struct gck_content *c = &r->img->contents[i];
		const struct gck_place_file was = {c->inode, c->owner};
		bool another = false;
		int fd = gck_rights_open(c->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
					 &was, &another);

		if (fd >= 0 && (another || !is_shown(r->img, i, fd)) &&
		    ((another && !c->carried) || !same_content(r, fd, c))) {
			close(fd);
			fd = -1;
		}
		if (fd < 0 && !c->carried)
			return gck_fail(err, ESTALE,
					"%s is mapped, not in the image, and on this node missing "
					"or another one (%llu bytes there): put the same file here",
					c->path, (unsigned long long)c->size);
		r->contents[i] = fd;
	}
	return 0;
}

/* Whether it exists; false with errno. */
static bool has_directory(const char *path)
{
	struct stat st;

	if (gck_place_stat(path, NULL, &st))
		return false;
	errno = ENOTDIR;
	return S_ISDIR(st.st_mode);
}

/* Whether the directory of the file exists. */
static bool has_parent(const char *path)
{
	char copy[PATH_MAX];

	return (size_t)snprintf(copy, sizeof copy, "%s", path) < sizeof copy &&
	       has_directory(dirname(copy));
}

/* Whether this process or one below it has the whole content of the file. */
static bool has_whole(const struct gck_image *img, const char *path)
{
	for (size_t i = 0; i < img->nfiles; i++)
		if (img->files[i].whole && img->files[i].path && !strcmp(img->files[i].path, path))
			return true;
	for (size_t i = 0; i < img->nobjects; i++)
		if (img->objects[i].has_path && !strcmp(img->objects[i].name, path))
			return true;
	for (size_t i = 0; i < img->nprocesses; i++)
		if (has_whole(&img->processes[i], path))
			return true;
	return false;
}

/* Whether the directory of a file that restore makes exists, or can be made; false with errno. */
static bool gets_parent(struct gck_restore *r, const char *path)
{
	return has_parent(path) ||
	       (!strncmp(path, SHM, strlen(SHM)) && !gck_restore_make_parent(r, path));
}

/* Whether restore makes the file, which may then be missing. */
static bool is_made_again(struct gck_restore *r, const char *path)
{
	return has_whole(r->root->img, path) && gets_parent(r, path);
}

/* A log must still begin with the bytes that it had at the checkpoint. */
static int check_prefix(const struct gck_file *f, struct gck_error *err)
{
	int fd = gck_rights_open(f->path, O_RDONLY | O_CLOEXEC, &f->was, NULL);
	struct gck_hash hash;
	void *at = NULL;

	if (fd < 0)
		return gck_fail(err, errno, "%s: its content has to be checked: %s", f->path,
				gck_place_reason(errno));
	if (f->size)
		at = mmap(NULL, f->size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return gck_fail(err, errno, "%s: mapping it: %s", f->path, strerror(errno));
	hash = gck_hash_bytes(at ? at : "", f->size);
	if (at)
		munmap(at, f->size);
	if (gck_hash_same(hash, f->prefix))
		return 0;
	return gck_fail(err, ESTALE,
			"%s: its first %llu bytes are not what they were at the checkpoint: "
			"put that file back",
			f->path, (unsigned long long)f->size);
}

static bool type_fits(const struct gck_file *f, mode_t mode)
{
	switch (f->kind) {
	case GCK_FD_DIR:
		return S_ISDIR(mode);
	case GCK_FD_DEVICE:
		return S_ISCHR(mode) || S_ISBLK(mode);
	case GCK_FD_PIPE:
		return S_ISFIFO(mode);
	default:
		return S_ISREG(mode);
	}
}

static int check_path(struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	struct stat st;

	if (gck_place_stat(f->path, &f->was, &st)) {
		if (errno == ENOENT && (f->kind == GCK_FD_PIPE
						? !gck_restore_make_parent(r, f->path)
						: is_made_again(r, f->path)))
			return 0;
		return gck_fail(err, errno, "%s was open at the checkpoint%s: %s%s", f->path,
				errno == ENOENT ? " and is not here" : "", gck_place_reason(errno),
				errno == ENOENT ? ": it has to be on a file system that every node "
						  "sees" : "");
	}
	if (!type_fits(f, st.st_mode))
		return gck_fail(err, ESTALE, "%s is another kind of file than at the checkpoint",
				f->path);
	if (f->kind != GCK_FD_FILE || f->whole || is_made_again(r, f->path))
		return 0;
	if ((uint64_t)st.st_size < f->size && gck_file_is_log(f) &&
	    (uint64_t)st.st_size >= f->least)
		return 0; /* another rank of the step measured it earlier and has cut it */
	if ((uint64_t)st.st_size < f->size)
		return gck_fail(err, ESTALE,
				"%s has %llu bytes, and %llu at the checkpoint: put that file "
				"back",
				f->path, (unsigned long long)st.st_size,
				(unsigned long long)f->size);
	return f->written ? check_prefix(f, err) : 0;
}

static int check_watches(struct gck_restore *r, const struct gck_file *f,
			 struct gck_error *err)
{
	struct stat st;

	for (size_t i = 0; i < f->nwatches; i++) {
		const struct gck_watch *w = &f->watches[i];

		if (gck_place_stat(w->path, &w->was, &st) &&
		    (errno != ENOENT || !is_made_again(r, w->path)))
			return gck_fail(err, errno, "%s was watched at the checkpoint: "
					"%s: it has to be on a file system that every node sees",
					w->path, gck_place_reason(errno));
	}
	return 0;
}

/* One that is connected needs no name. */
static bool is_socket(const struct gck_file *f)
{
	return f->kind == GCK_FD_LISTENER || f->kind == GCK_FD_SOCKET;
}

int gck_restore_check_files(struct gck_restore *r, struct gck_error *err)
{
	struct stat st;

	if (gck_restore_check_input(r, err))
		return -1;
	if (r->img->cwd && !has_directory(r->img->cwd))
		return gck_fail(err, ENOENT, "the working directory %s is not on this node: %s",
				r->img->cwd, gck_place_reason(errno));
	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_file *f = &r->img->files[i];
		bool named =
			f->kind == GCK_FD_FILE || f->kind == GCK_FD_DIR || f->kind == GCK_FD_DEVICE;

		bool fifo = f->kind == GCK_FD_PIPE && f->path;

		if ((named || fifo) && !f->unlinked && check_path(r, f, err))
			return -1;
		if (check_watches(r, f, err))
			return -1;
		if (f->kind == GCK_FD_PROC && gck_restore_check_proc(f, err))
			return -1;
		if (f->path && is_socket(f) && gck_restore_make_parent(r, f->path))
			return gck_fail(err, ENOENT, "%s is the name of a unix socket, and its "
					"directory cannot be made on this node: %s: it has to be "
					"on a file system that every node sees", f->path,
					gck_place_reason(errno));
		r->deferred[i] = named && !f->unlinked && gck_place_stat(f->path, NULL, &st) &&
				 errno == ENOENT;
	}
	for (size_t i = 0; i < r->img->nobjects; i++) {
		const struct gck_object *o = &r->img->objects[i];

		if (o->has_path && !gets_parent(r, o->name))
			return gck_fail(err, ENOENT,
					"%s was mapped, and its directory is not on this node: %s",
					o->name, gck_place_reason(errno));
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * Hashes of files that a rank appends to. */
#include "config.h"

#include "shim/process/objects/log_prefix.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "shim/process/memory/external_files.h"

#define READ_SIZE (1u << 20)
#define HELD_MAX (256ull << 20) /* bytes to hash at most while the rank is held */

struct gck_prefix {
	uint64_t device, inode, done;
	int fd;
	XXH3_state_t *state;
	int32_t file;            /* index into files of the image; -1 until finished */
};

static bool appended(const struct gck_file *x)
{
	return x->kind == GCK_FD_FILE && x->written && !x->whole && !x->unlinked;
}

/* Hash from *done up to size. It is an error if the file has become shorter. */
static int advance(int fd, XXH3_state_t *state, uint64_t *done, uint64_t size, const char *path,
		   struct gck_error *err)
{
	char *buffer = malloc(READ_SIZE);
	int result = buffer ? 0 : gck_fail(err, ENOMEM, "out of memory to read %s", path);

	while (!result && *done < size) {
		size_t want = size - *done < READ_SIZE ? size - *done : READ_SIZE;
		ssize_t n = pread(fd, buffer, want, (off_t)*done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			result = gck_fail(err, n ? errno : EAGAIN, "cannot read %s: %s", path,
					  n ? strerror(errno) : "it became shorter");
			break;
		}
		XXH3_128bits_update(state, buffer, (size_t)n);
		*done += (uint64_t)n;
	}
	free(buffer);
	return result;
}

static struct gck_hash digest(const XXH3_state_t *state)
{
	XXH128_hash_t h = XXH3_128bits_digest(state);

	return (struct gck_hash){.hi = h.high64, .lo = h.low64};
}

/* Find or make the file's entry, and get the file's current size: opening it again makes a network
 * file system ask its server. */
static struct gck_prefix *find(struct gck_prefixes *p, const struct gck_target *t, int fd,
			       uint64_t *size, struct gck_error *err)
{
	int copy = gck_fd_reopen(t, fd, err);
	struct gck_prefix *x;
	struct stat st;

	if (copy < 0)
		return NULL;
	if (fstat(copy, &st)) {
		gck_fail(err, errno, "cannot look at fd %d: %s", fd, strerror(errno));
		close(copy);
		return NULL;
	}
	*size = (uint64_t)st.st_size;
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].device == st.st_dev && p->v[i].inode == st.st_ino) {
			close(copy);
			return &p->v[i];
		}
	x = gck_grow(&p->v, &p->n, sizeof(*x), err);
	if (!x) {
		close(copy);
		return NULL;
	}
	*x = (struct gck_prefix){.device = st.st_dev, .inode = st.st_ino, .fd = copy,
				 .state = XXH3_createState(), .file = -1};
	if (!x->state) {
		gck_fail(err, ENOMEM, "out of memory for a hash");
		return NULL;
	}
	XXH3_128bits_reset(x->state);
	return x;
}

int gck_prefixes_start(struct gck_prefixes *p, const struct gck_target *t,
		       const struct gck_image *img, struct gck_error *err)
{
	for (size_t i = 0; i < img->nfiles; i++) {
		const struct gck_file *f = &img->files[i];
		struct gck_prefix *x;
		uint64_t size;

		if (!appended(f))
			continue;
		x = find(p, t, gck_image_fd_of(img, i), &size, err);
		if (!x || advance(x->fd, x->state, &x->done, f->size, f->path, err))
			return -1;
	}
	return 0;
}

int gck_prefixes_finish(struct gck_prefixes *p, const struct gck_target *t, struct gck_image *img,
			struct gck_error *err)
{
	for (size_t i = 0; i < img->nfiles; i++) {
		struct gck_file *f = &img->files[i];
		struct gck_prefix *x;
		uint64_t size;

		if (!appended(f))
			continue;
		x = find(p, t, gck_image_fd_of(img, i), &size, err);
		if (!x)
			return -1;
		if (size < x->done || size < f->size || size - x->done > HELD_MAX)
			return gck_fail(err, EAGAIN, "%s changed from %llu to %llu bytes since the "
					"checkpoint began; try again", f->path,
					(unsigned long long)x->done, (unsigned long long)size);
		f->size = size;
		if (advance(x->fd, x->state, &x->done, f->size, f->path, err))
			return -1;
		f->prefix = digest(x->state);
		x->file = (int32_t)i;
	}
	return 0;
}

int gck_prefixes_verify(const struct gck_prefixes *p, const struct gck_image *img,
			struct gck_error *err)
{
	XXH3_state_t *state = XXH3_createState();
	int result = state ? 0 : gck_fail(err, ENOMEM, "out of memory for a hash");

	for (size_t i = 0; i < p->n && !result; i++) {
		const struct gck_file *f;
		struct gck_hash now;
		uint64_t done = 0;

		if (p->v[i].file < 0)
			continue;
		f = &img->files[p->v[i].file];
		XXH3_128bits_reset(state);
		result = advance(p->v[i].fd, state, &done, f->size, f->path, err);
		now = digest(state);
		if (!result && (now.hi != f->prefix.hi || now.lo != f->prefix.lo))
			result = gck_fail(err, ENOTSUP, "%s is changed in place while it is open, "
					  "and too large to be stored whole (%llu bytes); write a "
					  "new file instead", f->path, (unsigned long long)f->size);
	}
	XXH3_freeState(state);
	return result;
}

int gck_prefixes_sync(const struct gck_prefixes *p, const struct gck_image *img,
		      struct gck_error *err)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].file >= 0 &&
		    gck_external_sync(p->v[i].fd, img->files[p->v[i].file].path, err))
			return -1;
	return 0;
}

void gck_prefixes_free(struct gck_prefixes *p)
{
	for (size_t i = 0; i < p->n; i++) {
		close(p->v[i].fd);
		XXH3_freeState(p->v[i].state);
	}
	free(p->v);
	*p = (struct gck_prefixes){0};
}

/* SPDX-License-Identifier: Apache-2.0
 * Reading an image in a file as a store that has one commit. All headers are read first, so that a
 * truncated file is rejected before anything in it is used. */
#include "storage/archive/archive.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/user/user.h"
#include "storage/archive/tar.h"
#include "storage/store/store.h"

/* ---- the backend ---------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct gck_archive_member *)a)->name,
		      ((const struct gck_archive_member *)b)->name);
}

static const struct gck_archive_member *find(struct gck_backend *b, const char *name,
					   struct gck_error *err)
{
	struct gck_archive *f = (struct gck_archive *)b;
	const struct gck_archive_member key = { .name = (char *)name }, *m;

	m = f->n ? bsearch(&key, f->v, f->n, sizeof *f->v, by_name) : NULL;
	if (!m)
		gck_fail(err, ENOENT, "%s has no %s", b->where, name);
	return m;
}

static int image_size(struct gck_backend *b, const char *name, uint64_t *size,
		      struct gck_error *err)
{
	const struct gck_archive_member *m = find(b, name, err);

	if (!m)
		return -1;
	*size = m->size;
	return 0;
}

static int read_all(const struct gck_archive *f, uint64_t offset, char *data, size_t size,
		    struct gck_error *err)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(f->fd, data + done, size - done, (off_t)(offset + done));

		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			return gck_fail(err, EBADMSG, "%s is cut off at %llu", f->head.where,
					(unsigned long long)(offset + done));
		else if (errno != EINTR)
			return gck_fail(err, errno, "read %s: %s", f->head.where, strerror(errno));
	}
	return 0;
}

static int image_get(struct gck_backend *b, const char *name, uint64_t offset, void *data,
		     size_t size, struct gck_error *err)
{
	const struct gck_archive_member *m = find(b, name, err);

	if (!m)
		return -1;
	if (offset > m->size || size > m->size - offset)
		return gck_fail(err, EBADMSG, "%s: %s is too short", b->where, name);
	return read_all((struct gck_archive *)b, m->offset + offset, data, size, err);
}

static void image_close(struct gck_backend *b)
{
	struct gck_archive *f = (struct gck_archive *)b;

	for (size_t i = 0; i < f->n; i++)
		free(f->v[i].name);
	free(f->v);
	if (f->fd >= 0)
		close(f->fd);
	free(b->where);
	free(f);
}

static const struct gck_backend_ops image_ops = {
	.close = image_close,
	.size = image_size,
	.get = image_get,
};

/* ---- the headers ---------------------------------------------------------------------------- */

static int refuse(const struct gck_archive *f, const char *why, struct gck_error *err)
{
	return gck_fail(err, EBADMSG, "%s is not a whole image: %s", f->head.where, why);
}

/* All names begin with the same "<cluster>/<job>/<step>/". Returns what follows it, or NULL. */
static const char *below_step(struct gck_archive *f, const char *name)
{
	const char *rest = name;
	size_t n;

	for (int i = 0; rest && i < 3; i++) {
		rest = strchr(rest, '/');
		rest = rest ? rest + 1 : NULL;
	}
	n = rest ? (size_t)(rest - name) - 1 : 0;
	if (n == 0 || n >= sizeof f->of)
		return NULL;
	if (!*f->of)
		memcpy(f->of, name, n);
	return strlen(f->of) == n && !strncmp(f->of, name, n) ? rest : NULL;
}

static int add(struct gck_archive *f, const char *name, uint64_t offset, uint64_t size,
	       struct gck_error *err)
{
	const char *rest = below_step(f, name);
	uint32_t seq;

	if (f->seq)
		return refuse(f, "something follows the commit", err);
	if (!rest || (!gck_name_is_content(rest, &seq) && !gck_name_is_commit(rest, &f->seq)))
		return refuse(f, "it has names of its own", err);
	if (f->n == f->capacity) {
		size_t capacity = f->capacity ? 2 * f->capacity : 64;
		struct gck_archive_member *v = reallocarray(f->v, capacity, sizeof *v);

		if (!v)
			return gck_fail(err, ENOMEM, "no memory to read %s", f->head.where);
		f->v = v;
		f->capacity = capacity;
	}
	f->v[f->n] = (struct gck_archive_member){ strdup(rest), offset, size };
	if (!f->v[f->n].name)
		return gck_fail(err, ENOMEM, "no memory to read %s", f->head.where);
	f->n++;
	return 0;
}

/* The commit is last: a file with it and the final block of zeros is complete. */
static int read_headers(struct gck_archive *f, struct gck_error *err)
{
	char block[GCK_TAR_BLOCK], name[GCK_TAR_NAME];
	uint64_t at = 0, size = 0, all;
	char user[GCK_USER_MAX];
	struct stat st;
	bool end = false;

	if (fstat(f->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return refuse(f, "it is not a regular file", err);
	if (st.st_uid != geteuid())
		return gck_fail(err, EPERM, "%s belongs to %s: an image runs as its user, who "
				"imports it", f->head.where, gck_user_name(st.st_uid, user));
	all = (uint64_t)st.st_size;
	while (!end) {
		if (at + GCK_TAR_BLOCK > all)
			return refuse(f, "its end is missing", err);
		if (read_all(f, at, block, sizeof block, err) < 0)
			return -1;
		if (gck_tar_parse(block, name, &size, &end, err) < 0)
			return gck_fail_in(err, "%s is not a whole image", f->head.where);
		at += GCK_TAR_BLOCK;
		if (!end && add(f, name, at, size, err) < 0)
			return -1;
		at += end ? 0 : gck_tar_padded(size);
	}
	if (!f->seq)
		return refuse(f, "it has no commit", err);
	qsort(f->v, f->n, sizeof *f->v, by_name);
	return 0;
}

json_t *gck_image_directories(const struct gck_store *image, uint64_t *bytes)
{
	const struct gck_archive *f = (const struct gck_archive *)image->b;
	json_t *all = json_array();
	const char *last = "";

	*bytes = 0;
	for (size_t i = 0; i < f->n; i++) {
		const char *name = f->v[i].name;
		size_t n = strcspn(name, "/") + 1;

		if (gck_name_is_object(name))
			*bytes += f->v[i].size;
		if (name[n - 1] && strncmp(name, last, n)) /* they are sorted */
			json_array_append_new(all, json_stringn(name, n));
		last = name;
	}
	return all;
}

static int identify(const struct gck_archive *f, struct gck_image_id *id, struct gck_error *err)
{
	char again[sizeof f->of]; /* unlike sscanf(), the store has one spelling of a number */

	memset(id, 0, sizeof *id);
	if (sscanf(f->of, "%255[^/]/%u/%u", id->cluster, &id->job, &id->step) < 3 || !id->job ||
	    snprintf(again, sizeof again, "%s/%u/%u", id->cluster, id->job, id->step) < 0 ||
	    strcmp(again, f->of))
		return refuse(f, "it does not say of which step", err);
	id->seq = f->seq;
	return 0;
}

struct gck_store *gck_image_open(const char *path, struct gck_image_id *id, struct gck_error *err)
{
	struct gck_store *s = calloc(1, sizeof *s);
	struct gck_archive *f = calloc(1, sizeof *f);

	if (!s || !f || !(f->head.where = strdup(path))) {
		gck_fail(err, ENOMEM, "no memory to read %s", path);
		free(s);
		free(f);
		return NULL;
	}
	f->head.ops = &image_ops;
	f->head.parallel = 2;
	f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	s->b = &f->head;
	gck_store_limit(s, 1, GCK_STORE_MEMORY);
	if (f->fd < 0)
		gck_fail(err, errno, "%s: %s", path, strerror(errno));
	else if (read_headers(f, err) == 0 && identify(f, id, err) == 0) {
		memcpy(s->of, f->of, sizeof s->of);
		return s;
	}
	gck_store_close(s);
	return NULL;
}

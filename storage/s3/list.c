/* SPDX-License-Identifier: Apache-2.0
 * Listing: pages of names, and multipart uploads that were not completed. A directory that has
 * nothing but such an upload is listed too, so that a removal finds it. And all steps of a
 * cluster. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/s3/presign.h"
#include "storage/s3/request.h"
#include "storage/s3/s3.h"

#define TOKEN_SIZE 4097
#define PAGES_MAX 100000

/* ---- uploads -------------------------------------------------------------------------------- */

struct upload {
	char name[GCK_NAME_MAX]; /* below the step */
	char id[1024];
};

struct uploads {
	struct gck_s3_store *s;
	struct upload now, *v;
	size_t n, capacity;
};

static int add_upload(struct uploads *u, struct gck_error *err)
{
	uint32_t seq;

	if (gck_s3_name_check(GCK_SIGN_ABORT_MULTIPART, u->now.name, &seq, NULL) < 0 || !*u->now.id)
		return 0; /* not an upload of gpuckpt */
	if (u->n == u->capacity) {
		size_t capacity = u->capacity ? 2 * u->capacity : 8;
		struct upload *v = reallocarray(u->v, capacity, sizeof *v);

		if (!v)
			return gck_fail(err, ENOMEM, "no memory for a list of uploads");
		u->v = v;
		u->capacity = capacity;
	}
	u->v[u->n++] = u->now;
	return 0;
}

/* The part of a key below the step; NULL: the key is elsewhere or too long. The uid in the key is
 * not checked, since only the signer knows the owner. */
static const char *below(const struct gck_s3_store *s, const char *key)
{
	size_t n = strlen(s->above), digits = strlen(key) < n ? 0 : strspn(key + n, "0123456789");
	size_t m = strlen(s->below);

	if (!digits || strncmp(key, s->above, n) || strncmp(key + n + digits, s->below, m))
		return NULL;
	key += n + digits + m;
	return strlen(key) >= GCK_NAME_MAX ? NULL : key;
}

static int on_upload(void *arg, const char *path, const char *text, struct gck_error *err)
{
	struct uploads *u = arg;
	const char *name;

	if (!strcmp(path, "ListMultipartUploadsResult/Upload/Key")) {
		name = below(u->s, text);
		snprintf(u->now.name, sizeof u->now.name, "%s", name ? name : "");
	} else if (!strcmp(path, "ListMultipartUploadsResult/Upload/UploadId")) {
		snprintf(u->now.id, sizeof u->now.id, "%.1023s", text);
	} else if (!strcmp(path, "ListMultipartUploadsResult/Upload")) {
		return add_upload(u, err);
	}
	return 0;
}

/* List the first page of uploads; after aborting those, the caller lists again. No uploads if the
 * server does not support or permit the request. free() *v. */
static int list_uploads(struct gck_s3_store *s, const char *dir, struct upload **v, size_t *n,
			struct gck_error *err)
{
	struct gck_s3_call c = { .sign = { GCK_SIGN_LIST_MULTIPARTS, dir } };
	struct uploads u = { .s = s };
	struct gck_error why;
	int rc = gck_s3_call(s, &c, &why);

	if (rc == 0) {
		rc = gck_xml_read(c.http.text, c.http.size, c.root, on_upload, &u, &why);
		gck_s3_end(&c);
		if (rc < 0)
			gck_s3_fail_in(s, &c.sign, &why);
	} else if (why.code == EACCES || why.code == ENOTSUP || why.code == ENOENT) {
		rc = 0;
	}
	if (rc < 0) {
		free(u.v);
		if (err)
			*err = why;
		return -1;
	}
	*v = u.v;
	*n = u.n;
	return 0;
}

static int abort_upload(struct gck_s3_store *s, const struct upload *u, struct gck_error *err)
{
	const struct gck_sign_request abort = {GCK_SIGN_ABORT_MULTIPART, u->name, .upload = u->id};

	return gck_s3_remove(s, &abort, err);
}

int gck_s3_abort_below(struct gck_s3_store *s, const char *dir, struct gck_error *err)
{
	/* Some servers still list an upload for a while after its end: limit the rounds. */
	for (int round = 0; round < 100; round++) {
		struct upload *v;
		size_t n;
		int rc = 0;

		if (list_uploads(s, dir, &v, &n, err) < 0)
			return -1;
		for (size_t i = 0; rc == 0 && i < n; i++)
			rc = abort_upload(s, &v[i], err);
		free(v);
		if (rc < 0 || n == 0)
			return rc;
	}
	return 0;
}

/* ---- names ---------------------------------------------------------------------------------- */

struct listing {
	struct gck_s3_store *s;
	enum gck_sign_verb verb; /* GCK_SIGN_LIST, or GCK_SIGN_WALK above steps */
	const char *dir;
	gck_list_fn *fn;
	void *arg;
	struct upload *uploads; /* of the step; the name is "" once its directory was listed */
	size_t nuploads;
	char token[TOKEN_SIZE];
	bool more;
};

static void note_listed(struct listing *l, const char *dir)
{
	for (size_t i = 0; i < l->nuploads; i++)
		if (!strncmp(l->uploads[i].name, dir, strlen(dir)))
			l->uploads[i].name[0] = '\0';
}

static int on_name(struct listing *l, const char *key, struct gck_error *err)
{
	const char *name = below(l->s, key);
	size_t n = strlen(l->dir);
	uint32_t seq;

	if (!name || strncmp(name, l->dir, n) || !name[n])
		return 0;
	if (gck_name_is_dir(name, &seq))
		note_listed(l, name);
	else if (gck_s3_name_check(GCK_SIGN_DELETE, name, &seq, NULL) < 0)
		return 0; /* not a name of gpuckpt: its removal would not be signed */
	return l->fn(l->arg, name + n, err);
}

/* The same above steps. */
static int on_name_above(struct listing *l, const char *key, struct gck_error *err)
{
	size_t n = strlen(l->s->above), m = strlen(l->dir);

	if (strncmp(key, l->s->above, n) || strncmp(key + n, l->dir, m))
		return 0;
	return l->fn(l->arg, key + n + m, err);
}

static int on_element(void *arg, const char *path, const char *text, struct gck_error *err)
{
	struct listing *l = arg;

	if (!strcmp(path, "ListBucketResult/Contents/Key") ||
	    !strcmp(path, "ListBucketResult/CommonPrefixes/Prefix"))
		return (l->verb == GCK_SIGN_WALK ? on_name_above : on_name)(l, text, err);
	if (!strcmp(path, "ListBucketResult/IsTruncated"))
		l->more = !strcmp(text, "true");
	else if (!strcmp(path, "ListBucketResult/NextContinuationToken"))
		snprintf(l->token, sizeof l->token, "%s", text);
	return 0;
}

static int read_page(struct listing *l, const char *token, struct gck_error *err)
{
	struct gck_s3_call c = { .sign = { l->verb, l->dir, .token = token } };
	int rc;

	if (gck_s3_call(l->s, &c, err) < 0)
		return -1;
	l->more = false;
	l->token[0] = '\0';
	rc = gck_xml_read(c.http.text, c.http.size, c.root, on_element, l, err);
	gck_s3_end(&c);
	if (rc == 0 && l->more && (!*l->token || (token && !strcmp(token, l->token))))
		rc = gck_fail(err, EPROTO,
			      "the answer says that there are more pages, but not which");
	return rc < 0 ? gck_s3_fail_in(l->s, &c.sign, err) : 0;
}

static int read_pages(struct listing *l, struct gck_error *err)
{
	char token[TOKEN_SIZE];

	if (read_page(l, NULL, err) < 0)
		return -1;
	for (int page = 1; l->more; page++) {
		if (page == PAGES_MAX)
			return gck_fail(err, EPROTO, "%.200s: the list has no end",
					l->s->head.where);
		memcpy(token, l->token, sizeof token);
		if (read_page(l, token, err) < 0)
			return -1;
	}
	return 0;
}

/* Report directories that have uploads but no objects. */
static int add_uploads(struct listing *l, struct gck_error *err)
{
	char dir[GCK_NAME_MAX];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < l->nuploads; i++) {
		const char *slash = strchr(l->uploads[i].name, '/');

		if (!slash)
			continue;
		snprintf(dir, sizeof dir, "%.*s", (int)(slash + 1 - l->uploads[i].name),
			 l->uploads[i].name);
		note_listed(l, dir);
		rc = l->fn(l->arg, dir, err);
	}
	return rc;
}

int gck_s3_list(struct gck_backend *b, const char *dir, gck_list_fn *fn, void *arg,
		struct gck_error *err)
{
	struct listing l = { .s = (struct gck_s3_store *)b, .verb = GCK_SIGN_LIST, .dir = dir,
			     .fn = fn, .arg = arg };
	int rc;

	if (!*dir && list_uploads(l.s, dir, &l.uploads, &l.nuploads, err) < 0)
		return -1;
	rc = read_pages(&l, err);
	if (rc == 0)
		rc = add_uploads(&l, err);
	free(l.uploads);
	return rc;
}

/* ---- all steps ------------------------------------------------------------------------------ */

#define LEVELS 3 /* <uid>/<job>/<step>/ */

struct walk {
	struct gck_s3_store *s;
	gck_walk_fn *fn;
	void *arg;
	uint32_t at[LEVELS];
};

struct numbers {
	uint32_t *v;
	size_t n;
};

static int add_number(void *arg, const char *name, struct gck_error *err)
{
	struct numbers *all = arg;
	uint32_t number, *more;
	const char *rest = gck_name_number(name, &number);

	if (!rest || strcmp(rest, "/") != 0)
		return 0;
	more = reallocarray(all->v, all->n + 1, sizeof *more);
	if (!more)
		return gck_fail(err, ENOMEM, "no memory for a list of steps");
	all->v = more;
	all->v[all->n++] = number;
	return 0;
}

static int list_numbers(struct walk *w, unsigned level, struct numbers *all, struct gck_error *err)
{
	struct listing l = { .s = w->s, .verb = GCK_SIGN_WALK, .fn = add_number, .arg = all };
	char dir[GCK_NAME_MAX] = "";

	for (unsigned i = 0; i < level; i++)
		snprintf(dir + strlen(dir), sizeof dir - strlen(dir), "%u/", w->at[i]);
	l.dir = dir;
	return read_pages(&l, err);
}

static int walk_level(struct walk *w, unsigned level, struct gck_error *err)
{
	struct numbers all = { 0 };
	int rc;

	if (level == LEVELS)
		return w->fn(w->arg, (uid_t)w->at[0], w->at[1], w->at[2]);
	rc = list_numbers(w, level, &all, err);
	for (size_t i = 0; rc == 0 && i < all.n; i++) {
		w->at[level] = all.v[i];
		rc = walk_level(w, level + 1, err);
	}
	free(all.v);
	return rc;
}

int gck_s3_walk(const char *url, const char *cluster, gck_walk_fn *fn, void *arg,
		struct gck_error *err)
{
	struct gck_backend *b = gck_s3_open(url, cluster, 0, 0, true, err);
	struct walk w = { .s = (struct gck_s3_store *)b, .fn = fn, .arg = arg };
	int rc;

	if (!b)
		return -1;
	rc = walk_level(&w, 0, err);
	b->ops->close(b);
	return rc;
}

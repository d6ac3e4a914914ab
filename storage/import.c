/* SPDX-License-Identifier: Apache-2.0
 * An image in a file becomes a commit of a store: objects, manifests, and the commit last. What was put
 * is removed again if that fails, but not what was there before: other commits may need it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/image.h"

struct import {
	struct gck_backend *to;
	const struct gck_image_file *f;
	const struct gck_store *tell;
	uint64_t done, all;
	bool *put; /* by member: it was not there before */
	char *buffer;
};

static int refuse_present(struct gck_backend *to, uint32_t seq, struct gck_error *err)
{
	char name[GCK_NAME_MAX];
	struct gck_error why;
	uint64_t size;

	gck_name_commit(name, seq);
	if (to->ops->size(to, name, &size, &why) == 0)
		return gck_fail(err, EEXIST, "%s/%s is there already", to->where, name);
	if (why.code == ENOENT)
		return 0;
	if (err)
		*err = why;
	return -1;
}

static int put_member(struct import *m, size_t i, struct gck_error *err)
{
	const struct gck_image_member *v = &m->f->v[i];
	struct gck_backend *from = (struct gck_backend *)&m->f->head;
	char dir[GCK_NAME_MAX], *data = m->buffer;
	uint64_t there;
	int rc;

	if (v->size > GCK_OBJECT_MAX && !(data = malloc(v->size)))
		return gck_fail(err, ENOMEM, "no memory for %s", v->name);
	snprintf(dir, sizeof dir, "%.*s", (int)strcspn(v->name, "/"), v->name);
	m->put[i] = m->to->ops->size(m->to, v->name, &there, NULL) < 0;
	rc = from->ops->get(from, v->name, 0, data, v->size, err);
	if (rc == 0 && gck_name_is_object(v->name))
		rc = m->to->ops->put_object(m->to, v->name, data, v->size, false, err);
	else if (rc == 0)
		rc = m->to->ops->put(m->to, v->name, dir, data, v->size, err);
	if (data != m->buffer)
		free(data);
	m->done += v->size;
	return rc < 0 ? -1 : gck_store_progress(m->tell, m->done, m->all, err);
}

static int put_where(struct import *m, bool objects, struct gck_error *err)
{
	uint32_t seq;

	for (size_t i = 0; i < m->f->n; i++) {
		const char *name = m->f->v[i].name;

		if (gck_name_is_object(name) == objects && !gck_name_is_commit(name, &seq) &&
		    put_member(m, i, err) < 0)
			return -1;
	}
	return 0;
}

/* Its bytes as they are: restarts know it by their hash. */
static int put_commit(struct import *m, const json_t *commit, struct gck_error *err)
{
	char name[GCK_NAME_MAX], dir[GCK_NAME_MAX], hash[GCK_HASH_TEXT], *text;
	struct gck_store image = { .b = (struct gck_backend *)&m->f->head };
	const char *nonce;
	uint32_t seq;
	size_t size;
	int rc;

	if (gck_commit_identity(commit, &seq, &nonce, err) < 0)
		return -1;
	gck_name_commit(name, seq);
	gck_name_dir(dir, seq, nonce);
	if (gck_document_load(&image, name, &text, &size, hash, err) < 0)
		return -1;
	rc = m->to->ops->put(m->to, name, dir, text, size, err);
	free(text);
	return rc;
}

/* The commit, files, then the directories that are empty now. */
static void take_back(struct import *m)
{
	char dir[GCK_NAME_MAX];

	gck_name_commit(dir, m->f->seq);
	m->to->ops->remove(m->to, dir, NULL);
	for (size_t i = 0; i < m->f->n; i++)
		if (m->put[i])
			m->to->ops->remove(m->to, m->f->v[i].name, NULL);
	for (size_t i = 0; i < m->f->n; i++) {
		size_t n = strcspn(m->f->v[i].name, "/");

		if (!m->f->v[i].name[n])
			continue;
		snprintf(dir, sizeof dir, "%.*s/", (int)n, m->f->v[i].name);
		m->to->ops->remove(m->to, dir, NULL);
	}
}

static int put_all(struct import *m, const json_t *commit, struct gck_error *err)
{
	if (put_where(m, true, err) == 0 && m->to->ops->flush(m->to, err) == 0 &&
	    put_where(m, false, err) == 0 && put_commit(m, commit, err) == 0)
		return 0;
	take_back(m);
	return -1;
}

static int import(struct gck_store *s, struct gck_store *image, uint32_t seq, struct gck_error *err)
{
	struct import m = { .to = s->b, .f = (struct gck_image_file *)image->b, .tell = s };
	json_t *commit;
	int rc = -1;

	if (refuse_present(s->b, seq, err) < 0)
		return -1;
	if (gck_store_verify(image, seq, NULL, NULL, err) < 0)
		return -1;
	commit = gck_store_read_commit(image, seq, NULL, NULL, err);
	m.put = calloc(m.f->n, sizeof *m.put);
	m.buffer = malloc(GCK_OBJECT_MAX);
	for (size_t i = 0; i < m.f->n; i++)
		m.all += m.f->v[i].size;
	if (commit && m.put && m.buffer)
		rc = put_all(&m, commit, err);
	else if (commit)
		gck_fail(err, ENOMEM, "no memory to import into %s", s->b->where);
	free(m.buffer);
	free(m.put);
	json_decref(commit);
	return rc;
}

int gck_store_import(struct gck_store *s, struct gck_store *image, uint32_t seq,
		     struct gck_error *err)
{
	if (import(s, image, seq, err) == 0)
		return 0;
	gck_store_remove_empty(s);
	return -1;
}

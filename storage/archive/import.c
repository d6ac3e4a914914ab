/* SPDX-License-Identifier: Apache-2.0
 * Importing an image from a file as a commit of a store: objects, manifests, and the commit last.
 * After a failure, what the import put is removed again, but not what existed before: other commits
 * may refer to it. Only one import into a step may run at a time, since one import would remove
 * objects that the other found and relies on. In an object store gpuckptd removes them: no other
 * process may, while the import runs. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/archive/archive.h"
#include "storage/base/parallel.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"

struct import {
	struct gck_backend *to;
	const struct gck_archive *f;
	const struct gck_store *tell;
	pthread_mutex_t lock; /* of what follows, while several threads put */
	uint64_t done, all;
	bool *put;   /* by member: it did not exist before */
	bool counts; /* the commit may have been put */
};

int gck_store_may_import(struct gck_store *s, uint32_t seq, struct gck_error *err)
{
	struct gck_backend *to = s->b;
	char name[GCK_NAME_MAX];
	struct gck_error why;
	uint64_t size;

	if (to->remote)
		return 0;
	if (to->ops->lock(to, err) < 0)
		return -1;
	gck_name_commit(name, seq);
	if (to->ops->size(to, name, &size, &why) == 0)
		return gck_fail(err, EEXIST, "%s/%s is there already", to->where, name);
	if (why.code == ENOENT)
		return 0;
	if (err)
		*err = why;
	return -1;
}

static int put_bytes(struct import *m, const char *name, const char *data, size_t size,
		     struct gck_error *err)
{
	char dir[GCK_NAME_MAX];

	if (gck_name_is_object(name))
		return m->to->ops->put_object(m->to, name, data, size, false, err);
	snprintf(dir, sizeof dir, "%.*s", (int)strcspn(name, "/"), name);
	return m->to->ops->put(m->to, name, dir, data, size, err);
}

static int tell(struct import *m, uint64_t size, struct gck_error *err)
{
	int rc;

	pthread_mutex_lock(&m->lock);
	m->done += size;
	rc = gck_store_progress(m->tell, m->done, m->all, err);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

/* Note whether a member exists before it is put. One that cannot be checked is not replaced. */
static int look_for(struct import *m, size_t i, struct gck_error *err)
{
	struct gck_error why;
	uint64_t there;

	if (m->to->remote || m->to->ops->size(m->to, m->f->v[i].name, &there, &why) == 0)
		return 0;
	m->put[i] = why.code == ENOENT;
	if (!m->put[i] && err)
		*err = why;
	return m->put[i] ? 0 : -1;
}

static int put_member(struct import *m, size_t i, struct gck_error *err)
{
	const struct gck_archive_member *v = &m->f->v[i];
	struct gck_backend *from = (struct gck_backend *)&m->f->head;
	char *data = malloc(v->size + 1);
	int rc;

	if (!data)
		return gck_fail(err, ENOMEM, "no memory for %s", v->name);
	rc = look_for(m, i, err);
	if (rc == 0)
		rc = from->ops->get(from, v->name, 0, data, v->size, err);
	if (rc == 0)
		rc = put_bytes(m, v->name, data, v->size, err);
	free(data);
	return rc < 0 ? -1 : tell(m, v->size, err);
}

static int put_object(void *arg, size_t i, struct gck_error *err)
{
	struct import *m = arg;

	return gck_name_is_object(m->f->v[i].name) ? put_member(m, i, err) : 0;
}

static int put_manifests(struct import *m, struct gck_error *err)
{
	uint32_t seq;

	for (size_t i = 0; i < m->f->n; i++) {
		const char *name = m->f->v[i].name;

		if (!gck_name_is_object(name) && !gck_name_is_commit(name, &seq) &&
		    put_member(m, i, err) < 0)
			return -1;
	}
	return 0;
}

/* The commit's bytes stay as they are: restarts identify it by their hash. */
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
	m->counts = true;
	rc = m->to->ops->put(m->to, name, dir, text, size, err);
	free(text);
	return rc;
}

/* Remove the commit, the files, then the directories that are empty. */
static void undo(struct import *m)
{
	char dir[GCK_NAME_MAX];

	gck_name_commit(dir, m->f->seq);
	if (m->counts)
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
	if (gck_parallel(m->to->parallel, m->f->n, put_object, m, err) == 0 &&
	    m->to->ops->flush(m->to, err) == 0 && put_manifests(m, err) == 0 &&
	    put_commit(m, commit, err) == 0)
		return 0;
	if (!m->to->remote)
		undo(m);
	return -1;
}

int gck_store_import(struct gck_store *s, struct gck_store *image, uint32_t seq,
		     struct gck_error *err)
{
	struct import m = { .to = s->b, .f = (struct gck_archive *)image->b, .tell = s,
			    .lock = PTHREAD_MUTEX_INITIALIZER };
	json_t *commit;
	int rc = -1;

	if (gck_store_may_import(s, seq, err) < 0)
		return -1;
	commit = gck_commit_load(image, seq, NULL, NULL, err);
	m.put = calloc(m.f->n, sizeof *m.put);
	for (size_t i = 0; i < m.f->n; i++)
		m.all += m.f->v[i].size;
	if (commit && m.put)
		rc = put_all(&m, commit, err);
	else if (commit)
		gck_fail(err, ENOMEM, "no memory to import into %s", s->b->where);
	free(m.put);
	json_decref(commit);
	return rc;
}

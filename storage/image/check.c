/* SPDX-License-Identifier: Apache-2.0
 * Whether all that a commit needs is there, without reading the data: its documents are, and of each
 * object the length is asked for, several at once where the store is far away. */
#include <pthread.h>

#include "storage/base/parallel.h"
#include "storage/image/image.h"
#include "storage/store/commit.h"
#include "storage/store/commit_objects.h"
#include "storage/store/store.h"

struct check {
	struct gck_store *s;
	const struct gck_commit_objects *need;
	pthread_mutex_t lock;
	size_t done;
};

static int check_object(void *arg, size_t i, struct gck_error *err)
{
	struct check *c = arg;
	struct gck_backend *b = c->s->b;
	const struct gck_object_extent *x = &c->need->v[i];
	uint64_t length;
	int rc;

	if (b->ops->size(b, x->name, &length, err) < 0)
		return -1;
	if (length < x->length)
		return gck_fail(err, EBADMSG, "%s/%s is cut off: it has %llu bytes, %llu are needed",
				b->where, x->name, (unsigned long long)length,
				(unsigned long long)x->length);
	pthread_mutex_lock(&c->lock);
	rc = gck_store_progress(c->s, ++c->done, c->need->n, err);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

static int check_objects(struct gck_store *s, const struct gck_commit_objects *need, struct gck_error *err)
{
	struct check c = { .s = s, .need = need, .lock = PTHREAD_MUTEX_INITIALIZER };

	return gck_parallel(s->b->parallel, need->n, check_object, &c, err);
}

int gck_store_check(struct gck_store *s, uint32_t seq, const char *hash, uint64_t *objects,
		    struct gck_error *err)
{
	struct gck_commit_objects need = { NULL, 0, 0, 0 };
	json_t *commit = gck_store_read_commit(s, seq, hash, NULL, err);
	int rc = commit ? gck_commit_objects_load(&need, s, commit, err) : -1;

	if (rc == 0 && (rc = check_objects(s, &need, err)) < 0)
		gck_fail_in(err, "commit %u", seq);
	if (rc == 0 && objects)
		*objects = need.n;
	gck_commit_objects_free(&need);
	json_decref(commit);
	return rc;
}

int gck_store_check_rank(struct gck_store *s, const json_t *manifest, struct gck_error *err)
{
	struct gck_commit_objects need = { NULL, 0, 0, 0 };
	int rc = gck_commit_objects_add(&need, manifest, err);

	if (rc == 0)
		rc = check_objects(s, &need, err);
	gck_commit_objects_free(&need);
	return rc;
}

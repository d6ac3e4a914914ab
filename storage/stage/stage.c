/* SPDX-License-Identifier: Apache-2.0
 * Staging: the backend above two others. */
#include "storage/stage/stage.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "storage/base/hash.h"
#include "storage/base/parallel.h"
#include "storage/store/store.h"

#define RESERVE 16 /* 1/16 of the file system stays free: others write there, too */

struct staged {
	char name[GCK_NAME_MAX];
	size_t size;
	struct gck_hash hash; /* of its bytes as they were put */
	bool shared;
};

struct stage {
	struct gck_backend head;
	struct gck_backend *local, *remote;
	const struct gck_store *s; /* whose memory limit and progress function apply */
	pthread_mutex_t lock;      /* of the members below */
	struct staged *v;          /* to be uploaded */
	size_t n, capacity;
	uint64_t bytes, sent;      /* of v; of these, uploaded */
	struct gck_error why;      /* why the disk refused an object; code 0: it refused none */
	char (*bad)[GCK_NAME_MAX]; /* objects whose copy here is damaged */
	size_t nbad;
};

static struct stage *stage_of(struct gck_backend *b)
{
	return (struct stage *)b;
}

/* ---- writing -------------------------------------------------------------------------------- */

static int check_space(const struct stage *x, size_t size, struct gck_error *err)
{
	struct statvfs v;

	if (statvfs(x->local->where, &v) < 0)
		return gck_fail(err, errno, "stage %s: %s", x->local->where, strerror(errno));
	if ((uint64_t)v.f_bavail * v.f_frsize >= size + (uint64_t)v.f_blocks * v.f_frsize / RESERVE)
		return 0;
	return gck_fail(err, ENOSPC,
			"stage %s: the file system is full, but for the %uth part that is left to "
			"others",
			x->local->where, RESERVE);
}

static int remember(struct stage *x, const struct staged *made, struct gck_error *err)
{
	int rc = 0;

	pthread_mutex_lock(&x->lock);
	if (x->n == x->capacity) {
		size_t capacity = x->capacity ? 2 * x->capacity : 64;
		struct staged *v = reallocarray(x->v, capacity, sizeof *v);

		if (v) {
			x->v = v;
			x->capacity = capacity;
		}
	}
	if (x->n < x->capacity) {
		x->v[x->n++] = *made;
		x->bytes += made->size;
	} else {
		rc = gck_fail(err, ENOMEM, "stage %s: no memory for names", x->local->where);
	}
	pthread_mutex_unlock(&x->lock);
	return rc;
}

static int put_local(struct stage *x, const char *name, const void *data, size_t size, bool shared,
		    struct gck_error *err)
{
	struct staged made = { .size = size, .shared = shared };

	if (check_space(x, size, err) < 0 ||
	    x->local->ops->put_object(x->local, name, data, size, shared, err) < 0)
		return -1;
	snprintf(made.name, sizeof made.name, "%s", name);
	made.hash = gck_hash_bytes(data, size);
	return remember(x, &made, err);
}

/* After the first failure the disk is not tried again: a full disk is no failure. */
static bool takes(struct stage *x)
{
	bool yes;

	pthread_mutex_lock(&x->lock);
	yes = !x->why.code;
	pthread_mutex_unlock(&x->lock);
	return yes;
}

static void takes_no_more(struct stage *x, const struct gck_error *why)
{
	pthread_mutex_lock(&x->lock);
	if (!x->why.code)
		x->why = *why;
	pthread_mutex_unlock(&x->lock);
}

static int stage_put_object(struct gck_backend *b, const char *name, const void *data, size_t size,
			    bool shared, struct gck_error *err)
{
	struct stage *x = stage_of(b);
	struct gck_error why = { 0 };

	/* An encrypted shared object has the same name in all ranks but other bytes in each, so the
	 * hash of the copy on this disk is unknown. The store has it only once anyway. */
	if (takes(x) && !(shared && x->s->key)) {
		if (put_local(x, name, data, size, shared, &why) == 0)
			return 0;
		takes_no_more(x, &why);
	}
	return x->remote->ops->put_object(x->remote, name, data, size, shared, err);
}

static int stage_put(struct gck_backend *b, const char *name, const char *dir, const void *data,
		     size_t size, struct gck_error *err)
{
	struct stage *x = stage_of(b);
	uint32_t seq;

	if (x->remote->ops->put(x->remote, name, dir, data, size, err) < 0)
		return -1;
	/* The manifest names the objects in use here; without it they would be removed too soon. */
	if (gck_name_is_content(name, &seq) && takes(x))
		(void)x->local->ops->put(x->local, name, dir, data, size, NULL);
	return 0;
}

/* ---- uploading ------------------------------------------------------------------------------ */

static int read_back(struct stage *x, const struct staged *o, void *data, struct gck_error *err)
{
	struct gck_hash h;

	if (x->local->ops->get(x->local, o->name, 0, data, o->size, err) < 0)
		return gck_fail_in(err, "the stage lost what was put there");
	h = gck_hash_bytes(data, o->size);
	if (gck_hash_same(h, o->hash))
		return 0;
	return gck_fail(err, EBADMSG, "stage %s/%s is not what was put there: the disk cannot be "
			"relied upon, leave out stage=", x->local->where, o->name);
}

static int upload_one(void *arg, size_t i, struct gck_error *err)
{
	struct stage *x = arg;
	const struct staged *o = &x->v[i];
	void *data = malloc(o->size);
	int rc;

	if (!data)
		return gck_fail(err, ENOMEM, "no memory to upload %s/%s", x->local->where, o->name);
	rc = read_back(x, o, data, err);
	if (rc == 0)
		rc = x->remote->ops->put_object(x->remote, o->name, data, o->size, o->shared, err);
	free(data);
	if (rc < 0)
		return -1;
	pthread_mutex_lock(&x->lock);
	x->sent += o->size;
	rc = gck_store_progress(x->s, x->sent, x->bytes, err);
	pthread_mutex_unlock(&x->lock);
	return rc;
}

static int stage_flush(struct gck_backend *b, struct gck_error *err)
{
	struct stage *x = stage_of(b);
	unsigned most = (unsigned)(x->s->memory / GCK_OBJECT_MAX), threads = x->remote->parallel;

	if (threads > most)
		threads = most ? most : 1;
	if (gck_parallel(threads, x->n, upload_one, x, err) < 0)
		return -1;
	x->n = 0;
	x->bytes = x->sent = 0;
	return x->remote->ops->flush(x->remote, err);
}

uint64_t gck_stage_pending_bytes(struct gck_backend *b, struct gck_error *why)
{
	struct stage *x = stage_of(b);

	*why = x->why;
	return x->bytes - x->sent;
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool is_bad(struct stage *x, const char *name)
{
	bool bad = false;

	pthread_mutex_lock(&x->lock);
	for (size_t i = 0; i < x->nbad && !bad; i++)
		bad = !strcmp(x->bad[i], name);
	pthread_mutex_unlock(&x->lock);
	return bad;
}

static int stage_get(struct gck_backend *b, const char *name, uint64_t offset, void *data,
		     size_t size, struct gck_error *err)
{
	struct stage *x = stage_of(b);

	if (gck_name_is_object(name) && !is_bad(x, name) &&
	    x->local->ops->get(x->local, name, offset, data, size, NULL) == 0)
		return 0;
	return x->remote->ops->get(x->remote, name, offset, data, size, err);
}

static bool stage_distrust(struct gck_backend *b, const char *name)
{
	struct stage *x = stage_of(b);
	char (*bad)[GCK_NAME_MAX];

	if (is_bad(x, name))
		return false;
	pthread_mutex_lock(&x->lock);
	bad = reallocarray(x->bad, x->nbad + 1, sizeof *bad);
	if (bad) {
		x->bad = bad;
		snprintf(bad[x->nbad++], sizeof *bad, "%s", name);
	}
	pthread_mutex_unlock(&x->lock);
	return bad;
}

/* ---- the store's own ------------------------------------------------------------------------ */

static int stage_size(struct gck_backend *b, const char *name, uint64_t *size,
		      struct gck_error *err)
{
	b = stage_of(b)->remote;
	return b->ops->size(b, name, size, err);
}

static int stage_list(struct gck_backend *b, const char *dir, gck_list_fn *fn, void *arg,
		      struct gck_error *err)
{
	b = stage_of(b)->remote;
	return b->ops->list(b, dir, fn, arg, err);
}

static int stage_remove(struct gck_backend *b, const char *name, struct gck_error *err)
{
	b = stage_of(b)->remote;
	return b->ops->remove(b, name, err);
}

static int stage_space(struct gck_backend *b, uint64_t *bytes, struct gck_error *err)
{
	b = stage_of(b)->remote;
	return b->ops->space(b, bytes, err);
}

static void stage_remove_empty(struct gck_backend *b)
{
	b = stage_of(b)->remote;
	b->ops->remove_empty(b);
}

static void stage_close(struct gck_backend *b)
{
	struct stage *x = stage_of(b);

	x->local->ops->close(x->local);
	x->remote->ops->close(x->remote);
	pthread_mutex_destroy(&x->lock);
	free(x->v);
	free(x->bad);
	free(x);
}

static const struct gck_backend_ops stage_ops = {
	.close = stage_close,
	.put_object = stage_put_object,
	.flush = stage_flush,
	.put = stage_put,
	.size = stage_size,
	.get = stage_get,
	.distrust = stage_distrust,
	.list = stage_list,
	.remove = stage_remove,
	.space = stage_space,
	.remove_empty = stage_remove_empty,
};

struct gck_backend *gck_stage_backend(struct gck_store *s, struct gck_backend *local,
				      struct gck_error *err)
{
	struct stage *x = calloc(1, sizeof *x);

	if (!x) {
		gck_fail(err, ENOMEM, "no memory for the stage %s", local->where);
		return NULL;
	}
	x->head = (struct gck_backend){ &stage_ops, s->b->where, s->b->parallel, s->b->remote };
	x->local = local;
	x->remote = s->b;
	x->s = s;
	pthread_mutex_init(&x->lock, NULL);
	return &x->head;
}

/* SPDX-License-Identifier: Apache-2.0
 * The pipeline of objects into the store. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "storage/base/backend.h"
#include "storage/image/pipeline.h"

#define BUFFERS_MIN 2u

struct gck_pipeline {
	struct gck_backend *b;
	struct gck_pipeline_plan plan;
	bool encodes;
	struct gck_object_buffer *filling[2]; /* by shared; also in `going` */
	unsigned made, most;           /* buffers */
	struct gck_object_buffer *idle;

	pthread_mutex_t lock;          /* of what follows */
	pthread_cond_t task, progress;
	struct gck_object_buffer *going;      /* oldest first */
	struct gck_object_buffer *done;
	struct gck_codec **codecs;     /* free ones; their number bounds who encodes at once */
	unsigned ncodecs;
	bool stop, failed;
	struct gck_error error;        /* the first one */

	unsigned nthreads;
	pthread_t *threads;
};

/* ---- threads -------------------------------------------------------------------------------- */

struct task {
	struct gck_object_buffer *buffer;
	struct gck_codec *codec; /* NULL: write the object */
	uint32_t chunk;
};

static bool can_put(const struct gck_object_buffer *x)
{
	return x->full && !x->put && x->encoded == x->n;
}

/* Complete objects are written first: that frees buffers. */
static bool next_task(struct gck_pipeline *p, struct task *t)
{
	struct gck_object_buffer *x;

	if (p->failed)
		return false;
	for (x = p->going; x && !can_put(x);)
		x = x->next;
	*t = (struct task){ .buffer = x };
	for (x = p->going; !t->buffer && p->ncodecs && x; x = x->next)
		if (x->taken < x->n)
			*t = (struct task){ x, p->codecs[p->ncodecs - 1], x->taken };
	return t->buffer;
}

static void take(struct gck_pipeline *p, const struct task *t)
{
	struct task more;

	if (t->codec) {
		p->ncodecs--;
		t->buffer->taken++;
	} else {
		t->buffer->put = true;
	}
	if (next_task(p, &more))
		pthread_cond_signal(&p->task);
}

static int perform(struct gck_pipeline *p, const struct task *t, struct gck_error *err)
{
	struct gck_object_buffer *x = t->buffer;

	if (t->codec)
		return gck_object_buffer_encode(x, t->chunk, t->codec, err);
	if (gck_object_buffer_pack(x, p->plan.dir, p->plan.key, err) < 0)
		return -1;
	return p->b->ops->put_object(p->b, x->name, x->bytes, x->used, x->shared, err);
}

static void move_to_done(struct gck_pipeline *p, struct gck_object_buffer *x)
{
	struct gck_object_buffer **at = &p->going;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	x->next = p->done;
	p->done = x;
}

static void account(struct gck_pipeline *p, const struct task *t, int rc,
		    const struct gck_error *err)
{
	if (t->codec)
		p->codecs[p->ncodecs++] = t->codec;
	if (rc < 0 && !p->failed) {
		p->failed = true;
		p->error = *err;
	}
	if (rc == 0 && t->codec)
		t->buffer->encoded++;
	else if (rc == 0)
		move_to_done(p, t->buffer);
	if (rc < 0 || !t->codec)
		pthread_cond_signal(&p->progress);
}

/* A thread works until `stop`. arg is the pipeline. */
static void *work(void *arg)
{
	struct gck_pipeline *p = arg;
	struct gck_error err;
	struct task t;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		int rc;

		if (!next_task(p, &t)) {
			pthread_cond_wait(&p->task, &p->lock);
			continue;
		}
		take(p, &t);
		pthread_mutex_unlock(&p->lock);
		rc = perform(p, &t, &err);
		pthread_mutex_lock(&p->lock);
		account(p, &t, rc, &err);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* ---- opening and closing -------------------------------------------------------------------- */

static int make_codecs(struct gck_pipeline *p, struct gck_error *err)
{
	unsigned n = p->encodes ? p->plan.cpus : 0;

	p->codecs = calloc(n + 1, sizeof(struct gck_codec *));
	if (!p->codecs)
		return gck_fail(err, ENOMEM, "no memory to compress");
	for (; p->ncodecs < n; p->ncodecs++) {
		p->codecs[p->ncodecs] = gck_codec_new(p->plan.options->compress,
						      p->plan.options->compress_level,
						      p->plan.key, err);
		if (!p->codecs[p->ncodecs])
			return -1;
	}
	return 0;
}

/* The threads block all signals. Fewer threads are enough where the user's limit is reached. */
static int make_threads(struct gck_pipeline *p, struct gck_error *err)
{
	unsigned n = p->ncodecs + (p->b->parallel < p->most ? p->b->parallel : p->most);
	sigset_t all, old;
	int code = 0;

	p->threads = calloc(n, sizeof *p->threads);
	if (!p->threads)
		return gck_fail(err, ENOMEM, "no memory for threads");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (p->nthreads < n && !code) {
		code = pthread_create(&p->threads[p->nthreads], NULL, work, p);
		p->nthreads += !code;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (p->nthreads)
		return 0;
	return gck_fail(err, code, "no thread can be made to write %s/%s: %s; is the limit of "
			"processes (ulimit -u) reached?", p->b->where, p->plan.dir, strerror(code));
}

struct gck_pipeline *gck_pipeline_open(struct gck_backend *b, const struct gck_pipeline_plan *plan,
				       struct gck_error *err)
{
	struct gck_pipeline *p = calloc(1, sizeof *p);

	if (!p) {
		gck_fail(err, ENOMEM, "no memory to write to %s", b->where);
		return NULL;
	}
	p->b = b;
	p->plan = *plan;
	p->encodes = plan->options->compress != GCK_COMPRESS_NONE || plan->key;
	p->most = (unsigned)(plan->memory / GCK_OBJECT_MAX);
	if (p->most < BUFFERS_MIN)
		p->most = BUFFERS_MIN;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->task, NULL);
	pthread_cond_init(&p->progress, NULL);
	if (make_codecs(p, err) == 0 && make_threads(p, err) == 0)
		return p;
	gck_pipeline_close(p);
	return NULL;
}

static void free_list(struct gck_object_buffer *x)
{
	while (x) {
		struct gck_object_buffer *next = x->next;

		gck_object_buffer_free(x);
		x = next;
	}
}

void gck_pipeline_close(struct gck_pipeline *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->task);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->nthreads; i++)
		pthread_join(p->threads[i], NULL);
	for (unsigned i = 0; i < p->ncodecs; i++)
		gck_codec_free(p->codecs[i]);
	free_list(p->going);
	free_list(p->done);
	free_list(p->idle);
	pthread_cond_destroy(&p->progress);
	pthread_cond_destroy(&p->task);
	pthread_mutex_destroy(&p->lock);
	free(p->codecs);
	free(p->threads);
	free(p);
}

/* ---- the caller's side ---------------------------------------------------------------------- */

/* Called with the lock held. */
static int check_failed(const struct gck_pipeline *p, struct gck_error *err)
{
	if (!p->failed)
		return 0;
	if (err)
		*err = p->error;
	return -1;
}

/* Report the written objects to the owner. If there is none and wait is set, wait for one. */
static int harvest(struct gck_pipeline *p, bool wait, struct gck_error *err)
{
	struct gck_object_buffer *x, *next;
	int rc;

	pthread_mutex_lock(&p->lock);
	while (wait && !p->done && !p->failed)
		pthread_cond_wait(&p->progress, &p->lock);
	rc = check_failed(p, err);
	x = p->done;
	p->done = NULL;
	pthread_mutex_unlock(&p->lock);
	for (; x; x = next) {
		next = x->next;
		if (rc == 0)
			rc = p->plan.done(p->plan.arg, x, err);
		x->next = p->idle;
		p->idle = x;
	}
	return rc;
}

static struct gck_object_buffer *free_buffer(struct gck_pipeline *p, struct gck_error *err)
{
	struct gck_object_buffer *x;

	if (harvest(p, false, err) < 0)
		return NULL;
	if (!p->idle && p->made < p->most) {
		x = gck_object_buffer_new(err);
		p->made += x != NULL;
		return x;
	}
	while (!p->idle)
		if (harvest(p, true, err) < 0)
			return NULL;
	x = p->idle;
	p->idle = x->next;
	return x;
}

static int begin(struct gck_pipeline *p, bool shared, struct gck_error *err)
{
	struct gck_object_buffer **at = &p->going;
	struct gck_object_buffer *x = free_buffer(p, err);

	if (!x)
		return -1;
	x->next = NULL;
	x->used = x->n = x->taken = x->encoded = 0;
	x->extra = p->plan.key ? GCK_CODEC_EXTRA : 0;
	x->full = x->put = false;
	x->shared = shared;
	p->filling[shared] = x;
	pthread_mutex_lock(&p->lock);
	while (*at)
		at = &(*at)->next;
	*at = x;
	pthread_mutex_unlock(&p->lock);
	return 0;
}

int gck_pipeline_cut(struct gck_pipeline *p, bool shared, struct gck_error *err)
{
	struct gck_object_buffer *x = p->filling[shared];
	int rc;

	p->filling[shared] = NULL;
	pthread_mutex_lock(&p->lock);
	if (x) {
		x->full = true;
		pthread_cond_signal(&p->task);
	}
	rc = check_failed(p, err);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

/* The last chunk that was copied is the threads' now. */
static int hand_over(struct gck_pipeline *p, struct gck_object_buffer *x, struct gck_error *err)
{
	int rc;

	pthread_mutex_lock(&p->lock);
	x->n++;
	if (p->encodes)
		pthread_cond_signal(&p->task);
	else
		x->taken = x->encoded = x->n;
	rc = check_failed(p, err);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

int gck_pipeline_add(struct gck_pipeline *p, const void *data, const struct gck_chunk *c,
		     bool shared, struct gck_error *err)
{
	if (p->filling[shared] && !gck_object_buffer_fits(p->filling[shared], c->size) &&
	    gck_pipeline_cut(p, shared, err) < 0)
		return -1;
	if (!p->filling[shared] && begin(p, shared, err) < 0)
		return -1;
	gck_object_buffer_add(p->filling[shared], data, c);
	return hand_over(p, p->filling[shared], err);
}

int gck_pipeline_finish(struct gck_pipeline *p, struct gck_error *err)
{
	bool left = true;

	if (gck_pipeline_cut(p, false, err) < 0 || gck_pipeline_cut(p, true, err) < 0)
		return -1;
	while (left) {
		pthread_mutex_lock(&p->lock);
		left = p->going;
		pthread_mutex_unlock(&p->lock);
		if (harvest(p, left, err) < 0)
			return -1;
	}
	return 0;
}

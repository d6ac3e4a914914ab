/* SPDX-License-Identifier: Apache-2.0
 * The pipeline's threads, and what they take next. */
#include "storage/image/pipeline_threads.h"

struct task {
	struct gck_object_buffer *parcel;
	struct gck_codec *codec; /* NULL: put the parcel */
	uint32_t chunk;
};

static bool can_put(const struct gck_object_buffer *x)
{
	return x->full && !x->put && x->encoded == x->n;
}

/* Objects that are ready leave first: that is what makes room. */
static bool next_task(struct gck_pipeline *p, struct task *t)
{
	struct gck_object_buffer *x;

	if (p->failed)
		return false;
	for (x = p->going; x && !can_put(x);)
		x = x->next;
	*t = (struct task){ .parcel = x };
	for (x = p->going; !t->parcel && p->ncodecs && x; x = x->next)
		if (x->taken < x->n)
			*t = (struct task){ x, p->codecs[p->ncodecs - 1], x->taken };
	return t->parcel;
}

static void take(struct gck_pipeline *p, const struct task *t)
{
	struct task more;

	if (t->codec) {
		p->ncodecs--;
		t->parcel->taken++;
	} else {
		t->parcel->put = true;
	}
	if (next_task(p, &more))
		pthread_cond_signal(&p->task);
}

static int perform(struct gck_pipeline *p, const struct task *t, struct gck_error *err)
{
	struct gck_object_buffer *x = t->parcel;

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
		t->parcel->encoded++;
	else if (rc == 0)
		move_to_done(p, t->parcel);
	if (rc < 0 || !t->codec)
		pthread_cond_signal(&p->progress);
}

void *gck_pipeline_thread(void *arg)
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

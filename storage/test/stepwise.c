/* SPDX-License-Identifier: Apache-2.0
 * The real `file:` backend with operations that wait. Either the test runs or the thread. */
#include "storage/test/stepwise.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "storage/store/store.h"

struct stepwise {
	struct gck_backend head;
	struct gck_backend *real;
	struct gck_store *s;
	stepwise_fn *work;
	void *arg;
	pthread_t thread;
	sem_t go, waits;
	bool over;
	int rc;
	struct gck_error err;
};

static struct gck_backend *wait_for_word(struct gck_backend *b)
{
	struct stepwise *w = (struct stepwise *)b;

	sem_post(&w->waits);
	sem_wait(&w->go);
	return w->real;
}

static int slow_size(struct gck_backend *b, const char *name, uint64_t *size, struct gck_error *err)
{
	b = wait_for_word(b);
	return b->ops->size(b, name, size, err);
}

static int slow_get(struct gck_backend *b, const char *name, uint64_t offset, void *data,
		    size_t size, struct gck_error *err)
{
	b = wait_for_word(b);
	return b->ops->get(b, name, offset, data, size, err);
}

static int slow_list(struct gck_backend *b, const char *dir, gck_list_fn *fn, void *arg,
		     struct gck_error *err)
{
	b = wait_for_word(b);
	return b->ops->list(b, dir, fn, arg, err);
}

static int slow_remove(struct gck_backend *b, const char *name, struct gck_error *err)
{
	b = wait_for_word(b);
	return b->ops->remove(b, name, err);
}

/* Work that reads and removes uses no other operations. */
static const struct gck_backend_ops slow_ops = {
	.size = slow_size,
	.get = slow_get,
	.list = slow_list,
	.remove = slow_remove,
};

static void *run(void *arg)
{
	struct stepwise *w = arg;

	wait_for_word(&w->head);
	w->rc = w->work(w->s, w->arg, &w->err);
	w->over = true;
	sem_post(&w->waits);
	return NULL;
}

struct stepwise *stepwise_begin(const char *url, stepwise_fn *work, void *arg)
{
	struct stepwise *w = calloc(1, sizeof *w);
	struct gck_error err = { 0 };

	if (!w || !(w->s = gck_store_open(url, "c", 1, 0, false, &err))) {
		fprintf(stderr, "stepwise: %s\n", err.text);
		exit(99);
	}
	w->real = w->s->b;
	w->head = (struct gck_backend){ &slow_ops, w->real->where, 1 };
	w->s->b = &w->head;
	w->work = work;
	w->arg = arg;
	sem_init(&w->go, 0, 0);
	sem_init(&w->waits, 0, 0);
	if (pthread_create(&w->thread, NULL, run, w)) {
		fprintf(stderr, "stepwise: no thread\n");
		exit(99);
	}
	sem_wait(&w->waits);
	return w;
}

bool stepwise_go(struct stepwise *w)
{
	if (!w->over) {
		sem_post(&w->go);
		sem_wait(&w->waits);
	}
	return !w->over;
}

int stepwise_end(struct stepwise *w, struct gck_error *err)
{
	int rc;

	while (stepwise_go(w))
		;
	pthread_join(w->thread, NULL);
	w->s->b = w->real;
	gck_store_close(w->s);
	sem_destroy(&w->go);
	sem_destroy(&w->waits);
	rc = w->rc;
	if (rc < 0)
		*err = w->err;
	free(w);
	return rc;
}

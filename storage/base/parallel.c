/* SPDX-License-Identifier: Apache-2.0
 * A loop on several threads. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "storage/base/parallel.h"

#define THREADS_MAX 16

struct each {
	gck_parallel_fn *fn;
	void *arg;
	size_t n;
	pthread_mutex_t lock;
	size_t next;
	bool failed;
	struct gck_error err;
};

static bool take(struct each *e, size_t *i)
{
	bool more;

	pthread_mutex_lock(&e->lock);
	more = !e->failed && e->next < e->n;
	if (more)
		*i = e->next++;
	pthread_mutex_unlock(&e->lock);
	return more;
}

static void *work(void *arg)
{
	struct each *e = arg;
	struct gck_error err;
	size_t i;

	while (take(e, &i)) {
		if (e->fn(e->arg, i, &err) == 0)
			continue;
		pthread_mutex_lock(&e->lock);
		if (!e->failed)
			e->err = err;
		e->failed = true;
		pthread_mutex_unlock(&e->lock);
	}
	return NULL;
}

int gck_parallel(unsigned threads, size_t n, gck_parallel_fn *fn, void *arg, struct gck_error *err)
{
	struct each e = { .fn = fn, .arg = arg, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t others[THREADS_MAX];
	sigset_t all, old;
	size_t started = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (started < THREADS_MAX && started + 1 < threads && started + 1 < n &&
	       !pthread_create(&others[started], NULL, work, &e))
		started++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	work(&e);
	while (started > 0)
		pthread_join(others[--started], NULL);
	if (e.failed && err)
		*err = e.err;
	return e.failed ? -1 : 0;
}

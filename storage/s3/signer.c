/* SPDX-License-Identifier: Apache-2.0
 * The process's signer. Requests of threads that arrive while it is busy are signed together, so
 * that one frame to gpuckptd carries them all. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "storage/s3/signer.h"

#define TOGETHER 64

struct waiting {
	const struct gck_sign_scope *of;
	const struct gck_sign_request *r;
	char *url, *ca;
	struct gck_error err;
	bool done;
	struct waiting *next;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	gck_sign_fn *fn;
	void *arg;
	unsigned patience;
	gck_retry_fn *trouble;
	void *trouble_arg;
	bool busy;
	struct waiting *first, **last;
} signer = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.patience = 30,
	.last = &signer.first,
};

void gck_store_signer(gck_sign_fn *fn, void *arg)
{
	pthread_mutex_lock(&signer.lock);
	signer.fn = fn;
	signer.arg = arg;
	pthread_mutex_unlock(&signer.lock);
}

bool gck_sign_ready(void)
{
	bool ready;

	pthread_mutex_lock(&signer.lock);
	ready = signer.fn;
	pthread_mutex_unlock(&signer.lock);
	return ready;
}

void gck_store_request_timeout(unsigned seconds)
{
	pthread_mutex_lock(&signer.lock);
	signer.patience = seconds;
	pthread_mutex_unlock(&signer.lock);
}

unsigned gck_sign_request_timeout(void)
{
	unsigned seconds;

	pthread_mutex_lock(&signer.lock);
	seconds = signer.patience;
	pthread_mutex_unlock(&signer.lock);
	return seconds;
}

void gck_store_on_retry(gck_retry_fn *fn, void *arg)
{
	pthread_mutex_lock(&signer.lock);
	signer.trouble = fn;
	signer.trouble_arg = arg;
	pthread_mutex_unlock(&signer.lock);
}

void gck_sign_report_retry(const struct gck_error *why)
{
	gck_retry_fn *fn;
	void *arg;

	pthread_mutex_lock(&signer.lock);
	fn = signer.trouble;
	arg = signer.trouble_arg;
	pthread_mutex_unlock(&signer.lock);
	if (fn)
		fn(arg, why);
}

/* Take the requests of the first one's step off the queue. */
static size_t take(struct waiting *batch[TOGETHER])
{
	struct waiting **at = &signer.first;
	size_t n = 0;

	while (*at && n < TOGETHER) {
		struct waiting *w = *at;

		if (n && w->of != batch[0]->of) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		batch[n++] = w;
	}
	while (*at)
		at = &(*at)->next;
	signer.last = at;
	return n;
}

static void ask(struct waiting *batch[], size_t n)
{
	struct gck_sign_request v[TOGETHER];
	char *urls[TOGETHER] = { NULL }, *ca = NULL;
	struct gck_error err = { 0 };
	time_t expires = 0; /* unused: each request is made at once */
	int rc;

	for (size_t i = 0; i < n; i++)
		v[i] = *batch[i]->r;
	rc = signer.fn(signer.arg, batch[0]->of, v, n, urls, &expires, &ca, &err);
	for (size_t i = 0; i < n; i++) {
		batch[i]->url = rc < 0 ? NULL : urls[i];
		batch[i]->err = err;
		batch[i]->ca = rc < 0 || !ca ? NULL : strdup(ca);
	}
	if (rc == 0)
		free(ca);
}

/* Called with the lock held; it is released while the signer works. */
static void lead(void)
{
	struct waiting *batch[TOGETHER] = { signer.first };
	size_t n = take(batch);

	signer.busy = true;
	pthread_mutex_unlock(&signer.lock);
	ask(batch, n);
	pthread_mutex_lock(&signer.lock);
	signer.busy = false;
	for (size_t i = 0; i < n; i++)
		batch[i]->done = true;
	pthread_cond_broadcast(&signer.changed);
}

int gck_sign(const struct gck_sign_scope *of, const struct gck_sign_request *r,
	     struct gck_signed *out, struct gck_error *err)
{
	struct waiting w = { .of = of, .r = r };

	pthread_mutex_lock(&signer.lock);
	*signer.last = &w;
	signer.last = &w.next;
	while (!w.done) {
		if (signer.busy)
			pthread_cond_wait(&signer.changed, &signer.lock);
		else
			lead();
	}
	pthread_mutex_unlock(&signer.lock);
	if (w.url) {
		*out = (struct gck_signed){ .url = w.url, .ca = w.ca };
		return 0;
	}
	if (err)
		*err = w.err;
	return gck_fail_in(err, "not signed");
}

void gck_signed_free(struct gck_signed *s)
{
	free(s->url);
	free(s->ca);
	*s = (struct gck_signed){ NULL, NULL };
}

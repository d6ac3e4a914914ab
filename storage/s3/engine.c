/* SPDX-License-Identifier: Apache-2.0
 * The thread that transfers the bytes of all requests of the process, with libcurl's multi
 * interface. */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "storage/s3/http.h"
#include "storage/s3/s3.h"

#define CONNECTIONS 32L /* kept for later requests */
#define WAIT_MS 60000   /* curl_multi_wakeup or a socket ends the wait */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t done;
	CURLM *multi;
	pid_t owner; /* the process that has the thread: fork() does not copy it */
	struct gck_http *first, **last;
} engine = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER,
	.last = &engine.first,
};

static void complete(struct gck_http *h, CURLcode code)
{
	pthread_mutex_lock(&engine.lock);
	h->code = code;
	h->done = true;
	pthread_cond_broadcast(&engine.done);
	pthread_mutex_unlock(&engine.lock);
}

/* Give the requests of other threads to curl. */
static void adopt(void)
{
	struct gck_http *h;

	pthread_mutex_lock(&engine.lock);
	h = engine.first;
	engine.first = NULL;
	engine.last = &engine.first;
	pthread_mutex_unlock(&engine.lock);
	while (h) {
		struct gck_http *next = h->next; /* once complete, h belongs to its thread */

		if (curl_multi_add_handle(engine.multi, h->easy) != CURLM_OK)
			complete(h, CURLE_OUT_OF_MEMORY);
		h = next;
	}
}

static void finish(void)
{
	struct gck_http *h;
	CURLMsg *m;
	int remaining;

	while ((m = curl_multi_info_read(engine.multi, &remaining))) {
		CURLcode code = m->data.result;
		CURL *easy = m->easy_handle;

		curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&h);
		curl_multi_remove_handle(engine.multi, easy);
		complete(h, code);
	}
}

static void *work(void *arg)
{
	int running;

	for (;;) {
		adopt();
		curl_multi_perform(engine.multi, &running);
		finish();
		curl_multi_poll(engine.multi, NULL, 0, WAIT_MS, NULL);
	}
	return arg;
}

/* Called with the lock held. */
static int start_thread(struct gck_error *err)
{
	sigset_t all, before;
	pthread_t thread;
	int code;

	/* exit() must not free tables of the library that the thread still uses. */
	OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return gck_fail(err, ENOMEM, "libcurl does not start");
	engine.multi = curl_multi_init();
	if (!engine.multi)
		return gck_fail(err, ENOMEM, "libcurl does not start");
	curl_multi_setopt(engine.multi, CURLMOPT_MAXCONNECTS, CONNECTIONS);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(&thread, NULL, work, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code) {
		curl_multi_cleanup(engine.multi);
		return gck_fail(err, code, "no thread for S3 requests: %s", strerror(code));
	}
	pthread_detach(thread);
	engine.owner = getpid();
	return 0;
}

int gck_engine_start(struct gck_error *err)
{
	int rc;

	pthread_mutex_lock(&engine.lock);
	rc = engine.owner == getpid() ? 0 : start_thread(err);
	pthread_mutex_unlock(&engine.lock);
	return rc;
}

void gck_engine_run(struct gck_http *h)
{
	pthread_mutex_lock(&engine.lock);
	h->next = NULL;
	h->done = false;
	*engine.last = h;
	engine.last = &h->next;
	curl_multi_wakeup(engine.multi);
	while (!h->done)
		pthread_cond_wait(&engine.done, &engine.lock);
	pthread_mutex_unlock(&engine.lock);
}

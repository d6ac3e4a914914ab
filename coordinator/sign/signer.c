/* SPDX-License-Identifier: Apache-2.0
 * A signer that asks somebody. */
#include "coordinator/sign/signer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/sign/request.h"

#define PAUSE_MS 200 /* before somebody who was not there is asked again */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int ask_once(struct gck_signer *s, const struct gck_sign_scope *of,
		    const struct gck_sign_request *v, size_t n, char **urls, unsigned *seconds,
		    int64_t deadline, struct gck_error *err)
{
	json_t *body = gck_sign_pack(++s->id, of, v, n), *answer;
	int64_t left = deadline - now_ms();
	int rc;

	if (!body)
		return gck_fail(err, ENOMEM, "no memory to ask for a URL");
	answer = s->exchange(s->arg, body, left > PAUSE_MS ? (int)left : PAUSE_MS, err);
	rc = answer ? gck_sign_take(answer, n, urls, seconds, err) : -1;
	json_decref(answer);
	json_decref(body);
	return rc;
}

/* Whoever is away comes back: a coordinator that is started anew knows its jobs. */
static int ask(struct gck_signer *s, const struct gck_sign_scope *of,
	       const struct gck_sign_request *v, size_t n, char **urls, unsigned *seconds,
	       struct gck_error *err)
{
	int64_t deadline = now_ms() + s->limit_ms;
	struct gck_error why = { 0 };

	while (ask_once(s, of, v, n, urls, seconds, deadline, &why)) {
		if (why.code != EAGAIN || now_ms() + PAUSE_MS >= deadline)
			return gck_fail(err, why.code == EAGAIN ? ETIMEDOUT : why.code, "%s",
					why.text);
		usleep(PAUSE_MS * 1000);
	}
	return 0;
}

static int sign(void *arg, const struct gck_sign_scope *of, const struct gck_sign_request *v,
		size_t n, char **urls, time_t *expires, char **ca, struct gck_error *err)
{
	struct gck_signer *s = arg;
	time_t began = time(NULL);
	unsigned seconds = 0;
	char *path = *s->conf->s3_ca_file ? strdup(s->conf->s3_ca_file) : NULL;

	if (*s->conf->s3_ca_file && !path)
		return gck_fail(err, ENOMEM, "no memory to ask for a URL");
	for (size_t done = 0; done < n; done += GCK_SIGN_MOST) {
		size_t some = n - done < GCK_SIGN_MOST ? n - done : GCK_SIGN_MOST;

		if (ask(s, of, v + done, some, urls + done, &seconds, err) == 0)
			continue;
		gck_sign_drop(urls, done);
		free(path);
		return -1;
	}
	*expires = began + (time_t)seconds;
	*ca = path;
	return 0;
}

void gck_signer_use(struct gck_signer *s)
{
	gck_store_signer(sign, s);
	gck_store_patience(s->conf->s3_timeout_s);
}

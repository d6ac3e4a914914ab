/* SPDX-License-Identifier: Apache-2.0
 * A signer and unwrapper that asks gpuckptd, directly or through the agent. */
#include "coordinator/sign/signer.h"

#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/wire/wire.h"
#include "coordinator/sign/request.h"
#include "storage/crypto/keyring.h"
#include "storage/s3/signer.h"

#define CONNECT_MS 5000
#define PAUSE_MS 200 /* between two tries */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A question: how it is made with an id, and how its answer is taken. EAGAIN: try again later. */
struct question {
	json_t *(*make)(const struct question *q, json_int_t id);
	int (*take)(const struct question *q, const json_t *answer, struct gck_error *err);
	/* URLs */
	const struct gck_sign_scope *of;
	const struct gck_sign_request *v;
	size_t n;
	char **urls;
	unsigned *seconds;
	/* a key */
	const char *wrapped;
	unsigned char *key;
};

/* Threads may ask for URLs while another thread asks for a key. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

static int ask_once(struct gck_signer *s, const struct question *q, int64_t deadline,
		    struct gck_error *err)
{
	json_t *body, *answer;
	int64_t left = deadline - now_ms();
	int rc;

	pthread_mutex_lock(&asking);
	body = q->make(q, ++s->id);
	answer = body ? s->exchange(s->arg, body, left > PAUSE_MS ? (int)left : PAUSE_MS, err)
		      : NULL;
	pthread_mutex_unlock(&asking);
	if (!body)
		return gck_fail(err, ENOMEM, "no memory to ask gpuckptd");
	rc = answer ? q->take(q, answer, err) : -1;
	json_decref(answer);
	json_decref(body);
	return rc;
}

/* A coordinator that is away comes back: after a restart it knows its jobs. */
static int ask(struct gck_signer *s, const struct question *q, struct gck_error *err)
{
	int64_t deadline = now_ms() + s->limit_ms;
	struct gck_error why = { 0 };

	while (ask_once(s, q, deadline, &why)) {
		if (why.code != EAGAIN || now_ms() + PAUSE_MS >= deadline)
			return gck_fail(err, why.code == EAGAIN ? ETIMEDOUT : why.code, "%s",
					why.text);
		usleep(PAUSE_MS * 1000);
	}
	return 0;
}

/* ---- URLs ---------------------------------------------------------------------------------- */

static json_t *make_sign(const struct question *q, json_int_t id)
{
	return gck_sign_pack(id, q->of, q->v, q->n);
}

static int take_signed(const struct question *q, const json_t *answer, struct gck_error *err)
{
	return gck_sign_take(answer, q->n, q->urls, q->seconds, err);
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

		const struct question q = { .make = make_sign, .take = take_signed, .of = of,
					    .v = v + done, .n = some, .urls = urls + done,
					    .seconds = &seconds };

		if (ask(s, &q, err) == 0)
			continue;
		gck_sign_drop(urls, done);
		free(path);
		return -1;
	}
	*expires = began + (time_t)seconds;
	*ca = path;
	return 0;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static json_t *make_unwrap(const struct question *q, json_int_t id)
{
	return gck_unwrap_pack(id, q->wrapped);
}

static int take_unwrapped(const struct question *q, const json_t *answer, struct gck_error *err)
{
	return gck_unwrap_take(answer, q->key, err);
}

static int unwrap(void *arg, const char *wrapped, unsigned char key[GCK_CRYPTO_KEY],
		  struct gck_error *err)
{
	const struct question q = { .make = make_unwrap, .take = take_unwrapped, .wrapped = wrapped,
				    .key = key };

	return ask(arg, &q, err);
}

void gck_signer_use(struct gck_signer *s)
{
	gck_store_signer(sign, s);
	gck_store_unwrapper(unwrap, s);
	gck_store_request_timeout(s->conf->s3_timeout_s);
}

/* ---- a separate connection: the CLI, and an agent's process before the agent is connected ---- */

struct link {
	const struct gck_conf *conf;
	struct gck_wire *wire; /* NULL: none */
};

static int open_link(struct link *l, struct gck_error *err)
{
	const struct passwd *pw = getpwnam(l->conf->user);

	if (!pw)
		return gck_fail(err, ENOENT, "CoordinatorUser=%s: there is no such user",
				l->conf->user);
	l->wire = gck_wire_connect(l->conf->host, l->conf->port, l->conf->munge_socket, pw->pw_uid,
				   CONNECT_MS, err);
	return l->wire ? 0 : -1;
}

/* "sign" is answered by "signed", "unwrap" by "unwrapped". */
static bool answers(const json_t *body, const json_t *answer)
{
	const char *asked = json_string_value(json_object_get(body, "op"));
	const char *op = json_string_value(json_object_get(answer, "op"));

	return op && !strncmp(op, asked, strlen(asked)) &&
	       json_equal(json_object_get(body, "id"), json_object_get(answer, "id"));
}

static json_t *say_link(struct link *l, const json_t *body, int timeout_ms,
		   struct gck_error *err)
{
	json_t *answer;

	if (!l->wire && open_link(l, err))
		return NULL;
	if (gck_wire_put(l->wire, body, timeout_ms, err))
		return NULL;
	answer = gck_wire_get(l->wire, timeout_ms, err);
	if (!answer || answers(body, answer))
		return answer;
	gck_fail(err, EPROTO, "the coordinator answers something else; is it of another release?");
	json_decref(answer);
	return NULL;
}

/* A broken connection may work again soon. */
static json_t *exchange_link(void *arg, const json_t *body, int timeout_ms, struct gck_error *err)
{
	struct link *l = arg;
	struct gck_error why = { 0 };
	json_t *answer = say_link(l, body, timeout_ms, &why);

	if (answer)
		return answer;
	gck_wire_free(l->wire);
	l->wire = NULL;
	gck_fail(err, why.code == EPROTO || why.code == ENOENT ? why.code : EAGAIN, "%s", why.text);
	return NULL;
}

void gck_signer_use_link(const struct gck_conf *conf, int limit_ms)
{
	static struct link link;
	static struct gck_signer signer;

	link = (struct link){ .conf = conf };
	signer = (struct gck_signer){ .exchange = exchange_link, .arg = &link, .conf = conf,
				      .limit_ms = limit_ms };
	gck_signer_use(&signer);
}

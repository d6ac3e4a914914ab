/* SPDX-License-Identifier: Apache-2.0
 * URLs and keys for the processes that the agent forks. */
#include "config.h"

#include "coordinator/agent/worker/proxy.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/sign/signer.h"

#define MOST 128 /* requests in one message: gpuckptd's limit */

struct proxy_line {
	struct proxy_line *next;
	int fd;
	ev_io io;
	json_t *ask;     /* the question that waits for an answer; NULL: none */
	size_t share;    /* how many requests of the message in flight are this one's */
	bool over;       /* closed: freed when share is 0 */
};

static struct {
	const struct step *step; /* NULL: proxy_start was not called */
	struct ev_loop *loop;
	proxy_send *send;
	void *arg;
	bool there;      /* gpuckptd is connected */
	struct proxy_line *lines; /* oldest question first */
	json_int_t id;   /* of the last message */
	bool under_way;  /* the last message has no answer yet */
} proxy;

static const json_t *requests_of(const struct proxy_line *line)
{
	return json_object_get(line->ask, "requests");
}

/* Requests that it adds to a message. A key counts as one. */
static size_t weight_of(const struct proxy_line *line)
{
	size_t n = json_array_size(requests_of(line));

	return n ? n : 1;
}

/* ---- from and to the processes ------------------------------------------------------------- */

/* The process sees the end of the socket: there is no way to tell it why. */
static void hang_up(struct proxy_line *line)
{
	ev_io_stop(proxy.loop, &line->io);
	json_decref(line->ask);
	line->ask = NULL;
	if (line->fd >= 0)
		close(line->fd);
	line->fd = -1;
}

/* Passes on its part of an answer: its URLs, from `at` on, or the common error. */
static void hand_on(struct proxy_line *line, const json_t *answer, size_t at)
{
	const json_t *all = json_object_get(answer, "urls");
	json_t *part = json_copy((json_t *)answer), *urls = json_array();

	json_object_set(part, "id", json_object_get(line->ask, "id"));
	for (size_t i = 0; i < json_array_size(requests_of(line)); i++)
		json_array_append(urls, json_array_get(all, at + i));
	if (json_is_array(all))
		json_object_set(part, "urls", urls);
	json_decref(urls);
	json_decref(line->ask);
	line->ask = NULL;
	if (packet_send(line->fd, part, NULL))
		hang_up(line);
}

/* ---- keys ---------------------------------------------------------------------------------- */

#define KEYS 8 /* those of the commits that are kept, and the current one */

static struct {
	json_t *ask, *answer;
} known[KEYS];

const json_t *proxy_cached_answer(const json_t *ask)
{
	const char *wrapped = packet_text(ask, "key", "");

	for (size_t i = 0; i < KEYS && *wrapped; i++)
		if (known[i].ask && !strcmp(packet_text(known[i].ask, "key", ""), wrapped))
			return known[i].answer;
	return NULL;
}

void proxy_cache_answer(const json_t *ask, const json_t *answer)
{
	static size_t next;
	size_t i = next % KEYS;

	if (!json_object_get(answer, "data") || proxy_cached_answer(ask))
		return;
	prctl(PR_SET_DUMPABLE, 0); /* the ranks' processes are the same user's, and must not read
				    * the key */
	json_decref(known[i].ask);
	json_decref(known[i].answer);
	known[i].ask = json_copy((json_t *)ask);
	known[i].answer = json_copy((json_t *)answer);
	next++;
}

/* ---- to and from gpuckptd ------------------------------------------------------------------ */

/* Can both go in one message? URLs in the same place can, and requests for the same key. */
static bool go_together(const json_t *a, const json_t *b)
{
	static const char *const keys[] = { "op", "store", "cluster", "job", "step", "key" };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const json_t *x = json_object_get(a, keys[i]), *y = json_object_get(b, keys[i]);

		if (x != y && !json_equal(x, y))
			return false;
	}
	return true;
}

/* A message with the first question, and all that fit and can go with it. */
static json_t *collect(void)
{
	json_t *body = NULL, *requests = json_array();

	for (struct proxy_line *l = proxy.lines; l; l = l->next) {
		if (!l->ask || (body && !go_together(body, l->ask)) ||
		    json_array_size(requests) + weight_of(l) > MOST)
			continue;
		if (!body)
			body = json_copy(l->ask);
		json_array_extend(requests, (json_t *)requests_of(l));
		l->share = weight_of(l);
	}
	if (body) {
		if (json_array_size(requests))
			json_object_set(body, "requests", requests);
		json_object_set_new(body, "id", json_integer(++proxy.id));
	}
	json_decref(requests);
	return body;
}

static void send_next(void)
{
	json_t *body;

	if (proxy.under_way || !proxy.there || !(body = collect()))
		return;
	proxy.under_way = true;
	proxy.send(proxy.arg, body);
}

/* The message in flight has its answer, or is lost. */
static void end_exchange(void)
{
	struct proxy_line **p = &proxy.lines;

	proxy.under_way = false;
	while (*p) {
		struct proxy_line *line = *p;

		line->share = 0;
		if (!line->over) {
			p = &line->next;
			continue;
		}
		*p = line->next;
		free(line);
	}
}

void proxy_answer(const json_t *answer)
{
	size_t at = 0;

	if (!proxy.under_way || packet_int(answer, "id", -1) != proxy.id)
		return;
	for (struct proxy_line *l = proxy.lines; l; l = l->next) {
		if (l->share && l->ask)
			proxy_cache_answer(l->ask, answer);
		if (l->share && l->ask)
			hand_on(l, answer, at);
		at += l->share;
	}
	end_exchange();
	send_next();
}

void proxy_connection(bool there)
{
	proxy.there = there;
	end_exchange();
	send_next();
}

/* ---- questions of the processes ------------------------------------------------------------ */

static void append(struct proxy_line *line)
{
	struct proxy_line **p = &proxy.lines;

	while (*p)
		p = &(*p)->next;
	line->next = NULL;
	*p = line;
}

static void move_back(struct proxy_line *line)
{
	struct proxy_line **p = &proxy.lines;

	while (*p != line)
		p = &(*p)->next;
	*p = line->next;
	append(line);
}

static bool is_ask(const json_t *body)
{
	const char *op = packet_text(body, "op", "");

	return (!strcmp(op, "sign") && json_array_size(json_object_get(body, "requests"))) ||
	       (!strcmp(op, "unwrap") && *packet_text(body, "key", ""));
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct proxy_line *line = io->data;
	struct gck_error err;
	json_t *body = packet_recv(line->fd, 0, &err);

	(void)loop;
	(void)events;
	if (!body && err.code == ETIMEDOUT)
		return;
	if (!body || line->ask || !is_ask(body)) {
		json_decref(body);
		hang_up(line);
		return;
	}
	line->ask = body;
	move_back(line);
	if (proxy_cached_answer(body))
		hand_on(line, proxy_cached_answer(body), 0);
	send_next();
}

struct proxy_line *proxy_open(int fd)
{
	struct proxy_line *line = calloc(1, sizeof *line);

	if (!line) {
		close(fd);
		return NULL;
	}
	line->fd = fd;
	ev_io_init(&line->io, on_readable, fd, EV_READ);
	line->io.data = line;
	ev_io_start(proxy.loop, &line->io);
	append(line);
	return line;
}

void proxy_close(struct proxy_line *line)
{
	if (!line)
		return;
	hang_up(line);
	line->over = true;
	if (!proxy.under_way)
		end_exchange();
}

/* ---- the processes' side ------------------------------------------------------------------- */

/* Skips answers to earlier questions that were given up. */
static json_t *exchange(void *arg, const json_t *body, int timeout_ms, struct gck_error *err)
{
	int fd = *(int *)arg;
	json_t *answer;

	if (packet_send(fd, json_incref((json_t *)body), err))
		return NULL;
	while ((answer = packet_recv(fd, timeout_ms, err)) &&
	       !json_equal(json_object_get(answer, "id"), json_object_get(body, "id")))
		json_decref(answer);
	if (!answer && err->code == ETIMEDOUT)
		gck_fail(err, ETIMEDOUT, "gpuckptd at %s is away, or does not answer, for %d s",
			 proxy.step->conf.host, timeout_ms / 1000);
	return answer;
}

void proxy_use(int fd)
{
	const struct step *s = proxy.step;
	static struct gck_signer signer;
	static int line;

	line = fd;
	signer = (struct gck_signer){ .exchange = exchange, .arg = &line, .conf = &s->conf,
				      .limit_ms = (int)s->options.timeout_ms };
	if (s->options.restart_wait_s > s->options.timeout_ms / 1000)
		signer.limit_ms = (int)s->options.restart_wait_s * 1000;
	gck_signer_use(&signer);
}

/* ---- start --------------------------------------------------------------------------------- */

void proxy_start(struct ev_loop *loop, const struct step *s, proxy_send *send, void *arg)
{
	proxy.loop = loop;
	proxy.send = send;
	proxy.arg = arg;
	proxy.step = s;
}

bool proxy_serves(void)
{
	return proxy.step;
}

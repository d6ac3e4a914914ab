/* SPDX-License-Identifier: Apache-2.0
 * A coordinator that a test scripts, over the real wire. */
#include "config.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/wire/wire.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/test/plugin.h"
#include "test/support/munged.h"

#define PATIENCE_MS 60000 /* reached only by a failure */

static const char *munge;
static int listener = -1;
static unsigned port;
static struct gck_wire *wire;

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int listen_at(unsigned at)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)at),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	int one = 1;

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 8) ||
	    getsockname(listener, (struct sockaddr *)&a, &len))
		return -1;
	port = ntohs(a.sin_port);
	return 0;
}

const char *coord_open(const char **why)
{
	munge = test_munged_start(why);
	if (!munge)
		return NULL;
	*why = "no socket could be made on 127.0.0.1";
	return listen_at(0) < 0 ? NULL : munge;
}

void coord_close(void)
{
	coord_drop();
	coord_deaf(true);
	test_munged_stop();
}

unsigned coord_port(void)
{
	return port;
}

const char *coord_user(void)
{
	const struct passwd *pw = getpwuid(getuid());

	return pw ? pw->pw_name : "root";
}

void coord_drop(void)
{
	gck_wire_free(wire);
	wire = NULL;
}

void coord_deaf(bool deaf)
{
	if (deaf && listener >= 0)
		close(listener);
	if (deaf)
		listener = -1;
	else if (listener < 0 && listen_at(port) < 0)
		perror("listen again");
}

static int accept_one(void)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	struct gck_error err;
	int fd;

	coord_drop();
	if (poll(&p, 1, PATIENCE_MS) <= 0)
		return -1;
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	wire = fd < 0 ? NULL : gck_wire_server(fd, munge, &err);
	return wire ? 0 : -1;
}

/* One message, or NULL. */
static json_t *next(int64_t until)
{
	struct gck_error err = { 0 };
	json_t *body;

	while (wire && !(body = gck_wire_next(wire, NULL, &err))) {
		struct pollfd p = { .fd = gck_wire_fd(wire), .events = POLLIN };
		int64_t left = until - now_ms();

		if (err.code != EAGAIN || left <= 0)
			return NULL;
		if (gck_wire_flush(wire, NULL) < 0 ||
		    (poll(&p, 1, (int)left) > 0 && gck_wire_fill(wire, &err) < 0))
			return NULL;
	}
	return wire ? body : NULL;
}

json_t *coord_await(const char *op, const char *phase)
{
	int64_t until = now_ms() + PATIENCE_MS;
	json_t *m;

	while ((m = next(until))) {
		if (!strcmp(packet_text(m, "op", ""), op) &&
		    (!phase || !strcmp(packet_text(m, "phase", ""), phase)))
			return m;
		json_decref(m);
	}
	return NULL;
}

static void put(json_t *m)
{
	struct gck_error err;

	if (wire && (gck_wire_send(wire, m, &err) < 0 || gck_wire_flush(wire, &err) < 0))
		printf("# coordinator: %s\n", err.text);
	json_decref(m);
}

json_t *coord_welcome(const char *action, json_t *more)
{
	json_t *m = accept_one() < 0 ? NULL : coord_await("register", NULL);
	json_t *welcome = json_pack("{s:s, s:i, s:s}", "op", "welcome", "epoch", 5, "action",
				    action);

	if (more)
		json_object_update(welcome, more);
	json_decref(more);
	if (m)
		put(welcome);
	else
		json_decref(welcome);
	return m;
}

void coord_tell(const char *op, unsigned seq, json_t *more)
{
	json_t *m = json_pack("{s:s, s:I}", "op", op, "seq", (json_int_t)seq);

	if (more)
		json_object_update(m, more);
	json_decref(more);
	put(m);
}

bool coord_ask(const char *op, unsigned seq, json_t *more, json_t **answer)
{
	json_t *m;
	bool good;

	coord_tell(op, seq, more);
	m = coord_await("done", op);
	good = packet_bool(m, "ok");
	if (!good)
		printf("# %s: %s\n", op, m ? packet_text(m, "error", "?") : "no answer");
	if (answer)
		*answer = m;
	else
		json_decref(m);
	return good;
}

json_t *coord_bounds(bool keep_held, int hold_ms)
{
	return json_pack("{s:s, s:b, s:i, s:i}", "nonce", "0a0b", "keep_held", keep_held,
			 "timeout_ms", 20000, "hold_ms", hold_ms);
}

static json_t *prepare_members(unsigned seq)
{
	char nonce[16];

	snprintf(nonce, sizeof nonce, "%08x", seq * 77);
	return json_pack("{s:s, s:s, s:b, s:i, s:i}", "nonce", nonce, "reason", "test",
			 "keep_held", 0, "timeout_ms", PATIENCE_MS / 2, "hold_ms", 5000);
}

static const json_t *list_in(const json_t *answer, const char *key)
{
	return json_object_get(json_object_get(answer, "data"), key);
}

static json_t *document(unsigned seq, const json_t *written, const json_t *frozen)
{
	json_t *ranks = json_copy((json_t *)list_in(written, "ranks"));
	const json_t *one;
	char nonce[16];
	size_t i;

	json_array_foreach(list_in(frozen, "exited"), i, one)
		json_array_append_new(ranks, json_pack("{s:O, s:O}", "rank",
			json_object_get(one, "rank"), "exit", json_object_get(one, "status")));
	snprintf(nonce, sizeof nonce, "%08x", seq * 77);
	return json_pack("{s:{s:i, s:I, s:s, s:I, s:s, s:i, s:i, s:o}}", "document", "format", 1,
			 "seq", (json_int_t)seq, "nonce", nonce, "time", (json_int_t)time(NULL),
			 "cluster", "test", "job", 7, "step", 0, "ranks",
			 ranks);
}

bool coord_checkpoint(unsigned seq, char hash[40])
{
	json_t *frozen = NULL, *written = NULL, *committed = NULL;
	bool good;

	good = coord_ask("prepare", seq, prepare_members(seq), NULL) &&
	       coord_ask("freeze", seq, NULL, &frozen) && coord_ask("resume", seq, NULL, NULL) &&
	       coord_ask("write", seq, NULL, &written) &&
	       coord_ask("commit", seq, document(seq, written, frozen), &committed);
	if (good) {
		snprintf(hash, 40, "%s", packet_text(json_object_get(committed, "data"), "hash",
						      ""));
		coord_tell("committed", seq, json_pack("{s:s, s:[i,i]}", "hash", hash, "keep",
			   (int)seq - 1, (int)seq));
	}
	json_decref(frozen);
	json_decref(written);
	json_decref(committed);
	return good;
}

/* SPDX-License-Identifier: Apache-2.0
 * The connection to the coordinator: resolved (in a job, since names can take long), connected,
 * registered, welcomed; made again when it is lost. */
#include "config.h"

#include "coordinator/agent/upstream/upstream.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/wire/wire.h"
#include "coordinator/agent/base/packet.h"

#define DELAY_MIN_S 0.2
#define CONNECT_LIMIT_S 10.
#define WELCOME_LIMIT_S 30.  /* from the connection to the welcome */
#define TCP_SILENCE_MS 15000 /* of a coordinator whose machine is down: with one more probe
			      * UPSTREAM_SILENCE_S */

struct upstream {
	struct agent *agent;
	const struct upstream_ops *ops;
	struct job *job;         /* resolves, or lists the store */
	struct resolved to;
	json_t *commits;         /* as listed for this attempt; NULL: not listed */
	struct gck_error unlisted; /* why not; code 0: it was not tried */
	int fd;                  /* while it connects; -1 */
	struct gck_wire *wire;   /* once it is connected */
	unsigned attempt;
	double delay;
	bool begun, registered, welcomed, broken;
	bool said;               /* it was logged that the coordinator is out of reach */
	ev_io io;
	ev_timer timer;          /* for the next attempt, or the limit of this one */
};

static void attempt(struct upstream *u);

static void lost(struct upstream *u, const char *why)
{
	struct agent *a = u->agent;

	if (!u->said)
		gck_warn("coordinator %s:%u: %s; trying again", a->step->conf.host,
			 a->step->conf.port, why);
	u->said = true;
	if (u->job)
		job_cancel(u->job);
	u->job = NULL;
	ev_io_stop(a->loop, &u->io);
	gck_wire_free(u->wire);
	u->wire = NULL;
	if (u->fd >= 0)
		close(u->fd);
	u->fd = -1;
	u->registered = u->welcomed = u->broken = false;
	ev_timer_stop(a->loop, &u->timer);
	ev_timer_set(&u->timer, u->delay, 0.);
	ev_timer_start(a->loop, &u->timer);
	u->delay = u->delay * 2 < GCK_WIRE_RETRY_MAX_S ? u->delay * 2 : GCK_WIRE_RETRY_MAX_S;
	u->ops->lost(a);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	struct upstream *u = w->data;

	(void)loop;
	(void)events;
	if (u->job || u->fd >= 0 || u->wire)
		lost(u, "no answer in time");
	else
		attempt(u);
}

static void limit(struct upstream *u, double seconds)
{
	ev_timer_stop(u->agent->loop, &u->timer);
	ev_timer_set(&u->timer, seconds, 0.);
	ev_timer_start(u->agent->loop, &u->timer);
}

static void watch(struct upstream *u, int fd, int events)
{
	ev_io_stop(u->agent->loop, &u->io);
	ev_io_set(&u->io, fd, events);
	ev_io_start(u->agent->loop, &u->io);
}

/* ---- connected ----------------------------------------------------------------------------- */

static void take_messages(struct upstream *u, struct gck_error *err)
{
	json_t *body;
	int rc = 0;

	while (rc == 0 && (body = gck_wire_next(u->wire, NULL, err))) {
		rc = u->ops->message(u->agent, body);
		json_decref(body);
		if (rc < 0)
			gck_fail(err, EPERM, "its message is refused");
	}
}

/* -1 and why, if the connection cannot go on. */
static int transfer(struct upstream *u, int events, struct gck_error *err)
{
	int rc;

	if (u->broken)
		return gck_fail(err, EPIPE, "a message could not be sent");
	if (events & EV_READ) {
		rc = gck_wire_fill(u->wire, err);
		if (rc < 0)
			return -1;
		err->code = EAGAIN;
		take_messages(u, err);
		if (err->code != EAGAIN)
			return -1;
	}
	return gck_wire_flush(u->wire, err) < 0 ? -1 : 0;
}

static void on_connected_io(struct upstream *u, int events)
{
	struct gck_error err = { 0 };

	if (transfer(u, events, &err) < 0) {
		lost(u, err.text);
		return;
	}
	watch(u, gck_wire_fd(u->wire), EV_READ | (gck_wire_pending(u->wire) ? EV_WRITE : 0));
}

static void queue(struct upstream *u, json_t *body)
{
	struct gck_error err;

	if (gck_wire_send(u->wire, body, &err) < 0) {
		gck_warn("a message to the coordinator was not sent: %s", err.text);
		u->broken = true;
	}
	json_decref(body);
	watch(u, gck_wire_fd(u->wire), EV_READ | EV_WRITE);
}

void upstream_send(struct agent *a, json_t *body)
{
	struct upstream *u = a->upstream;

	if (u && u->registered && body)
		queue(u, body);
	else
		json_decref(body);
}

/* ---- register ------------------------------------------------------------------------------ */

static void send_register(struct upstream *u)
{
	json_t *body = u->ops->registration(u->agent, u->commits, &u->unlisted);

	if (!body) {
		lost(u, "out of memory");
		return;
	}
	queue(u, body);
	u->registered = true;
	limit(u, WELCOME_LIMIT_S);
}

/* ---- connecting ---------------------------------------------------------------------------- */

static void tune(int fd)
{
	const struct { int level, name, value; } all[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 5 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 3 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 3 },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, TCP_SILENCE_MS },
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		setsockopt(fd, all[i].level, all[i].name, &all[i].value, sizeof all[i].value);
}

static void on_connecting_io(struct upstream *u)
{
	const struct step *s = u->agent->step;
	struct gck_error err = { 0 };
	int code = 0;
	socklen_t len = sizeof code;

	getsockopt(u->fd, SOL_SOCKET, SO_ERROR, &code, &len);
	if (code) {
		lost(u, strerror(code));
		return;
	}
	u->wire = gck_wire_client(u->fd, s->conf.munge_socket, u->to.uid, &err);
	if (!u->wire) {
		lost(u, err.text);
		return;
	}
	tune(u->fd); /* the wire alone is more patient */
	u->fd = -1;
	watch(u, gck_wire_fd(u->wire), EV_READ);
	send_register(u);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
	struct upstream *u = io->data;

	(void)loop;
	if (u->wire)
		on_connected_io(u, events);
	else
		on_connecting_io(u);
}

static void connect_now(struct upstream *u)
{
	const struct sockaddr *to = (const struct sockaddr *)&u->to.address;

	limit(u, CONNECT_LIMIT_S);
	u->fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (u->fd < 0 || (connect(u->fd, to, u->to.len) < 0 && errno != EINPROGRESS)) {
		lost(u, strerror(errno));
		return;
	}
	watch(u, u->fd, EV_WRITE);
}

static void on_listed(void *data, const json_t *result, const struct gck_error *why)
{
	struct upstream *u = data;

	u->job = NULL;
	json_decref(u->commits);
	u->commits = json_incref((json_t *)result);
	u->unlisted = *why;
	connect_now(u);
}

/* Before the connection is made: a slow store takes longer than the coordinator waits for
 * `register`. */
static void list_commits(struct upstream *u)
{
	struct gck_error err = { 0 };

	ev_timer_stop(u->agent->loop, &u->timer);
	u->job = u->ops->list(u->agent, on_listed, u, &err);
	if (!u->job)
		on_listed(u, NULL, &err);
}

static void on_resolved(void *data, const json_t *result, const struct gck_error *why)
{
	struct upstream *u = data;

	u->job = NULL;
	if (!result)
		lost(u, why->text);
	else if (resolve_take(result, u->attempt++, &u->to) < 0)
		lost(u, "it has no address");
	else if (u->agent->step->node_id)
		connect_now(u);
	else
		list_commits(u);
}

static void attempt(struct upstream *u)
{
	struct gck_error err = { 0 };

	limit(u, CONNECT_LIMIT_S);
	u->job = job_start(u->agent->loop, "looking up the coordinator", resolve,
			   &u->agent->step->conf, CONNECT_LIMIT_S, on_resolved, u, &err);
	if (!u->job)
		lost(u, err.text);
}

/* ---- interface ----------------------------------------------------------------------------- */

struct upstream *upstream_start(struct agent *a, const struct upstream_ops *ops)
{
	struct upstream *u = calloc(1, sizeof *u);

	if (!u)
		return NULL;
	u->agent = a;
	u->ops = ops;
	u->fd = -1;
	u->delay = DELAY_MIN_S;
	ev_init(&u->io, on_io);
	u->io.data = u;
	ev_init(&u->timer, on_timer);
	u->timer.data = u;
	return u;
}

void upstream_connect(struct upstream *u)
{
	if (!u->begun)
		attempt(u);
	u->begun = true;
}

void upstream_register(struct upstream *u)
{
	u->welcomed = false;
	if (u->registered)
		send_register(u);
}

void upstream_stop(struct upstream *u)
{
	ev_io_stop(u->agent->loop, &u->io);
	ev_timer_stop(u->agent->loop, &u->timer);
	if (u->job)
		job_cancel(u->job);
	gck_wire_free(u->wire);
	json_decref(u->commits);
	if (u->fd >= 0)
		close(u->fd);
	u->agent->upstream = NULL;
	free(u);
}

void upstream_welcome(struct upstream *u)
{
	ev_timer_stop(u->agent->loop, &u->timer);
	u->welcomed = true;
	u->delay = DELAY_MIN_S;
	if (u->said)
		gck_info("coordinator %s: connected", u->agent->step->conf.host);
	u->said = false;
}

bool upstream_welcomed(const struct upstream *u)
{
	return u->welcomed;
}

void upstream_bye(struct agent *a, int timeout_ms)
{
	struct upstream *u = a->upstream;
	struct pollfd p;

	if (!u->registered)
		return;
	upstream_send(a, json_pack("{s:s}", "op", "bye"));
	p.fd = gck_wire_fd(u->wire);
	p.events = POLLOUT;
	while (gck_wire_flush(u->wire, NULL) == 0 && poll(&p, 1, timeout_ms) > 0)
		;
}

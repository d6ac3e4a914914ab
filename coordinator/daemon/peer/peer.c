/* SPDX-License-Identifier: Apache-2.0
 * One connection: reading, writing, limits, the end. */
#include "config.h"

#include "coordinator/daemon/peer/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"

#define HELLO_S 5.0 /* for the first message */
#define HELLO_PARTS 5 /* the time is taken in parts: one part is lost if the machine stands still */
#define MAX_UNREAD (256u << 10) /* answers that a peer may leave unread before it is not read */

/* ---- the end ------------------------------------------------------------------------------- */

void gck_peer_close(struct gck_peer *peer)
{
	struct gck_daemon *d = peer->daemon;
	struct gck_peer **p = &d->peers;

	if (!peer->wire)
		return;
	ev_io_stop(d->loop, &peer->io);
	ev_timer_stop(d->loop, &peer->timer);
	gck_wire_free(peer->wire);
	peer->wire = NULL;
	while (*p != peer)
		p = &(*p)->next;
	*p = peer->next;
	peer->next = d->dead;
	d->dead = peer;
	d->npeers--;
	if (peer->admitted)
		gck_limits_leave(&d->limits, peer->uid);
	else
		gck_limits_identified(&d->limits, peer->host);
	d->ops->closed(peer);
}

static void refused(struct gck_peer *peer, const struct gck_error *err)
{
	if (err->code != ECONNRESET)
		gck_warn("connection of %s is closed: %s", peer->host, err->text);
	gck_peer_close(peer);
}

/* ---- writing ------------------------------------------------------------------------------- */

static void want(struct gck_peer *peer, int events)
{
	if (peer->io.events == events && ev_is_active(&peer->io))
		return;
	ev_io_stop(peer->daemon->loop, &peer->io);
	ev_io_set(&peer->io, gck_wire_fd(peer->wire), events);
	if (events)
		ev_io_start(peer->daemon->loop, &peer->io);
}

/* Messages to a step's agents are queued without a limit. Others must read their answers before
 * they may ask for more. */
static bool may_queue(const struct gck_peer *peer)
{
	return (peer->agent && peer->agent->step) || gck_wire_pending(peer->wire) < MAX_UNREAD;
}

/* Messages that follow a registration wait until it is accepted: they may report the step's end,
 * which must not be missed. */
static bool may_read(const struct gck_peer *peer)
{
	return !peer->closing && !peer->broken && may_queue(peer) &&
	       !(peer->admitted && ev_is_active(&peer->timer)) &&
	       !(peer->agent && peer->agent->registration);
}

/* A broken peer waits only for the fed event that closes it; changing the watcher would cancel
 * that. */
static void watch(struct gck_peer *peer)
{
	if (peer->broken)
		return;
	want(peer, (may_read(peer) ? EV_READ : 0) | (gck_wire_pending(peer->wire) ? EV_WRITE : 0));
}

void gck_peer_drop(struct gck_peer *peer)
{
	if (!peer->wire)
		return;
	peer->broken = true;
	ev_feed_event(peer->daemon->loop, &peer->io, EV_READ);
}

/* The core sends in the middle of its work: it learns of a broken connection later, from the
 * loop. */
void gck_peer_send(struct gck_peer *peer, const json_t *body)
{
	struct gck_error err = {0};

	if (!peer->wire || peer->broken)
		return;
	if (gck_wire_send(peer->wire, body, &err)) {
		gck_warn("cannot send to %s: %s", peer->host, err.text);
		gck_peer_drop(peer);
		return;
	}
	watch(peer);
}

void gck_peer_refuse(struct gck_peer *peer, const char *why)
{
	json_t *body = json_pack("{s:s, s:s}", "op", "error", "error", why);

	gck_peer_send(peer, body);
	json_decref(body);
	peer->closing = true;
	if (peer->wire)
		watch(peer);
}

static void send_end(struct gck_peer *peer, const char *error, json_t *data)
{
	json_t *body = json_pack("{s:s, s:b}", "op", "end", "ok", error == NULL);

	if (error)
		json_object_set_new(body, "error", json_string(error));
	if (data)
		json_object_set_new(body, "data", data);
	gck_peer_send(peer, body);
	json_decref(body);
	peer->busy = false;
}

void gck_peer_end(struct gck_peer *peer, const char *error, json_t *data)
{
	if (data && json_dumpb(data, NULL, 0, JSON_COMPACT) > GCK_ANSWER_MAX) {
		json_decref(data);
		gck_peer_end(peer, "the answer is too long; name a job or a step", NULL);
		return;
	}
	send_end(peer, error, data);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* The first message tells the connection's user. */
static bool admit(struct gck_peer *peer, uid_t uid)
{
	struct gck_daemon *d = peer->daemon;

	if (peer->admitted)
		return peer->uid == uid;
	if (!gck_limits_enter(&d->limits, uid, d->conf.user_connections)) {
		gck_warn("user %u has MaxUserConnections=%u connections; one more is refused",
			 (unsigned)uid, d->conf.user_connections);
		gck_peer_refuse(peer, "you have too many connections to the coordinator "
				"(MaxUserConnections)");
		return false;
	}
	gck_limits_identified(&d->limits, peer->host);
	peer->uid = uid;
	peer->admitted = true;
	ev_timer_stop(d->loop, &peer->timer);
	return true;
}

/* An agent that has joined has its own bucket, so that a large job's agents do not slow each
 * other. */
static unsigned must_wait(struct gck_peer *peer)
{
	struct gck_daemon *d = peer->daemon;
	bool joined = peer->agent && peer->agent->step;
	struct gck_bucket *b = joined ? &peer->agent->bucket :
			       gck_limits_bucket(&d->limits, peer->uid);

	return b ? gck_bucket_take(b, d->conf.user_rate, d->core.world->now_ms()) : 0;
}

static void dispatch(struct gck_peer *peer, const json_t *body)
{
	const char *op = json_string_value(json_object_get(body, "op"));

	if (!op)
		gck_peer_refuse(peer, "a message without \"op\"");
	else
		peer->daemon->ops->message(peer, op, body);
}

static void pause_reading(struct gck_peer *peer, unsigned ms)
{
	ev_timer_set(&peer->timer, ms / 1e3, 0.);
	ev_timer_start(peer->daemon->loop, &peer->timer);
}

static void take_messages(struct gck_peer *peer)
{
	struct gck_error err = {0};

	while (peer->wire && may_read(peer)) {
		uid_t uid;
		json_t *body = gck_wire_next(peer->wire, &uid, &err);
		unsigned ms;

		if (!body) {
			if (err.code != EAGAIN)
				refused(peer, &err);
			break;
		}
		if (admit(peer, uid)) {
			ms = must_wait(peer);
			if (ms)
				pause_reading(peer, ms);
			dispatch(peer, body);
		}
		json_decref(body);
	}
}

static void on_io(struct ev_loop *loop, ev_io *w, int events)
{
	struct gck_peer *peer = w->data;
	struct gck_error err = {0};
	int rc = 0;

	(void)loop;
	if (peer->broken) {
		gck_peer_close(peer);
		return;
	}
	if (events & EV_READ && may_read(peer)) {
		rc = gck_wire_fill(peer->wire, &err);
		take_messages(peer);
	}
	if (peer->wire && rc < 0) {
		refused(peer, &err);
		return;
	}
	if (peer->wire && gck_wire_flush(peer->wire, &err) < 0) {
		refused(peer, &err);
		return;
	}
	if (!peer->wire)
		return;
	if (peer->closing && !gck_wire_pending(peer->wire))
		gck_peer_close(peer);
	else
		gck_peer_go_on(peer); /* its messages may have waited for free space */
}

void gck_peer_go_on(struct gck_peer *peer)
{
	take_messages(peer);
	if (peer->wire)
		watch(peer);
}

bool gck_peer_is_gone(const struct gck_peer *peer)
{
	char byte;
	ssize_t n = recv(gck_wire_fd(peer->wire), &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	struct gck_peer *peer = w->data;

	(void)events;
	if (peer->admitted)
		gck_peer_go_on(peer);
	else if (--peer->hello_parts)
		ev_timer_again(loop, w);
	else
		gck_peer_close(peer);
}

/* ---- the beginning ------------------------------------------------------------------------- */

static struct gck_peer *make_peer(struct gck_daemon *d, int fd, const char *host,
				  struct gck_error *err)
{
	struct gck_peer *peer = calloc(1, sizeof *peer);

	if (!peer) {
		gck_fail(err, ENOMEM, "no memory for a connection");
		return NULL;
	}
	peer->wire = gck_wire_server(fd, d->conf.munge_socket, err);
	if (!peer->wire) {
		free(peer);
		return NULL;
	}
	peer->daemon = d;
	snprintf(peer->host, sizeof peer->host, "%s", host);
	return peer;
}

static void start_peer(struct gck_daemon *d, struct gck_peer *peer, int fd)
{
	ev_io_init(&peer->io, on_io, fd, EV_READ | EV_WRITE);
	ev_timer_init(&peer->timer, on_timer, HELLO_S / HELLO_PARTS, HELLO_S / HELLO_PARTS);
	peer->hello_parts = HELLO_PARTS;
	peer->io.data = peer->timer.data = peer;
	ev_io_start(d->loop, &peer->io);
	ev_timer_start(d->loop, &peer->timer);
	peer->next = d->peers;
	d->peers = peer;
	d->npeers++;
}

void gck_peer_new(struct gck_daemon *d, int fd, const char *host)
{
	struct gck_error err = {0};
	struct gck_peer *peer;

	if (!gck_limits_arrive(&d->limits, host, d->conf.new_connections)) {
		close(fd);
		return;
	}
	peer = make_peer(d, fd, host, &err);
	if (peer) {
		start_peer(d, peer, fd);
		return;
	}
	gck_warn("connection of %s: %s", host, err.text);
	gck_limits_identified(&d->limits, host);
	close(fd);
}

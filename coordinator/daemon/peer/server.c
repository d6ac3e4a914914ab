/* SPDX-License-Identifier: Apache-2.0
 * Listening, and freeing connections that are closed. */
#include "config.h"

#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/daemon/peer/peer.h"

#define BACKLOG 512
#define PAUSE_S 1. /* when no more connections can be accepted */

static void listen_again(int events, void *arg)
{
	struct gck_daemon *d = arg;

	(void)events;
	for (unsigned i = 0; i < d->nlisten; i++)
		ev_io_start(d->loop, &d->listen[i]);
}

/* A connection that cannot be accepted stays readable, and the loop would spin. */
static void pause_listening(struct gck_daemon *d, int code)
{
	gck_warn("connections cannot be taken now: %s", strerror(code));
	for (unsigned i = 0; i < d->nlisten; i++)
		ev_io_stop(d->loop, &d->listen[i]);
	ev_once(d->loop, -1, 0, PAUSE_S, listen_again, d);
}

static bool is_of_connection(int code)
{
	return code == EAGAIN || code == EINTR || code == ECONNABORTED || code == EPROTO ||
	       code == EPERM;
}

static void on_accept(struct ev_loop *loop, ev_io *w, int events)
{
	struct gck_daemon *d = w->data;
	struct sockaddr_storage addr;
	socklen_t size = sizeof addr;
	char host[64] = "?";
	int fd = accept4(w->fd, (struct sockaddr *)&addr, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)loop;
	(void)events;
	if (fd < 0) {
		if (!is_of_connection(errno))
			pause_listening(d, errno);
		return;
	}
	getnameinfo((struct sockaddr *)&addr, size, host, sizeof host, NULL, 0, NI_NUMERICHOST);
	if (d->npeers >= d->conf.max_connections) {
		gck_warn("MaxConnections=%u is reached; a connection of %s is closed",
			 d->conf.max_connections, host);
		close(fd);
		return;
	}
	gck_peer_new(d, fd, host);
}

static void on_prepare(struct ev_loop *loop, ev_prepare *w, int events)
{
	struct gck_daemon *d = w->data;
	struct gck_peer **p = &d->dead;

	(void)loop;
	(void)events;
	while (*p) {
		struct gck_peer *peer = *p;

		if (peer->uses) {
			p = &peer->next;
			continue;
		}
		*p = peer->next;
		free(peer);
	}
}

static int listen_at(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
	if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, BACKLOG)) {
		int code = errno;

		close(fd);
		errno = code;
		return -1;
	}
	return fd;
}

static void add_listener(struct gck_daemon *d, int fd)
{
	ev_io *w = &d->listen[d->nlisten++];

	ev_io_init(w, on_accept, fd, EV_READ);
	w->data = d;
	ev_io_start(d->loop, w);
}

int gck_server_listen(struct gck_daemon *d, struct gck_error *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *all;
	const char *address = *d->conf.listen ? d->conf.listen : NULL;
	char port[16];
	int rc, code = 0;

	snprintf(port, sizeof port, "%u", d->conf.port);
	rc = getaddrinfo(address, port, &hints, &all);
	if (rc)
		return gck_fail(err, EINVAL, "cannot listen at ListenAddress=%s: %s",
				address ? address : "", gai_strerror(rc));
	for (struct addrinfo *a = all; a && d->nlisten < GCK_MAX_LISTEN; a = a->ai_next) {
		int fd = listen_at(a);

		if (fd >= 0)
			add_listener(d, fd);
		else if (!code || errno == EADDRINUSE)
			code = errno;
	}
	freeaddrinfo(all);
	if (!d->nlisten || code == EADDRINUSE)
		return gck_fail(err, code, "cannot listen at %s port %s: %s",
				address ? address : "any address", port, strerror(code));
	ev_prepare_init(&d->reaper, on_prepare);
	d->reaper.data = d;
	ev_prepare_start(d->loop, &d->reaper);
	return 0;
}

void gck_server_close(struct gck_daemon *d)
{
	for (unsigned i = 0; i < d->nlisten; i++) {
		ev_io_stop(d->loop, &d->listen[i]);
		close(d->listen[i].fd);
	}
	d->nlisten = 0;
	while (d->peers)
		gck_peer_close(d->peers);
	while (d->dead) {
		struct gck_peer *peer = d->dead;

		d->dead = peer->next;
		free(peer);
	}
}

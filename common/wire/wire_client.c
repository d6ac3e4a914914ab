/* SPDX-License-Identifier: Apache-2.0
 * The wire for callers that block: every wait ends at a deadline. */
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/wire/wire.h"

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wait_for(int fd, short events, int64_t deadline, struct gck_error *err)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		int64_t left = deadline - now_ms();
		int n = poll(&p, 1, left > 0 ? (int)left : 0);

		if (n > 0)
			return 0;
		if (n == 0)
			return gck_fail(err, ETIMEDOUT, "the coordinator did not answer in time");
		if (errno != EINTR)
			return gck_fail(err, errno, "poll: %s", strerror(errno));
	}
}

static int connect_one(const struct addrinfo *a, int64_t deadline, struct gck_error *err)
{
	int type = a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC;
	int fd = socket(a->ai_family, type, a->ai_protocol);
	int failed = 0;
	socklen_t size = sizeof failed;

	if (fd < 0)
		return gck_fail(err, errno, "socket: %s", strerror(errno));
	if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
		return fd;
	if (errno != EINPROGRESS)
		gck_fail(err, errno, "%s", strerror(errno));
	else if (wait_for(fd, POLLOUT, deadline, err) == 0) {
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size);
		if (!failed)
			return fd;
		gck_fail(err, failed, "%s", strerror(failed));
	}
	close(fd);
	return -1;
}

/* Connect to the first address that answers. */
static int connect_any(const char *host, unsigned port, int64_t deadline, struct gck_error *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
	struct addrinfo *list;
	char service[16];
	int rc, fd = -1;

	snprintf(service, sizeof service, "%u", port);
	rc = getaddrinfo(host, service, &hints, &list);
	if (rc)
		return gck_fail(err, EHOSTUNREACH, "%s", gai_strerror(rc));
	for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
		fd = connect_one(a, deadline, err);
	freeaddrinfo(list);
	return fd;
}

struct gck_wire *gck_wire_connect(const char *host, unsigned port, const char *munge_socket,
				  uid_t peer, int timeout_ms, struct gck_error *err)
{
	int fd = connect_any(host, port, now_ms() + timeout_ms, err);
	struct gck_wire *w;

	if (fd < 0 && err && err->code == ECONNREFUSED)
		gck_fail(err, ECONNREFUSED, "cannot connect to gpuckptd at %s port %u: %s; check "
			 "that it runs there", host, port, strerror(ECONNREFUSED));
	else if (fd < 0)
		gck_fail_in(err, "cannot connect to gpuckptd at %s port %u", host, port);
	if (fd < 0)
		return NULL;
	w = gck_wire_client(fd, munge_socket, peer, err);
	if (!w)
		close(fd);
	return w;
}

int gck_wire_put(struct gck_wire *w, const json_t *body, int timeout_ms, struct gck_error *err)
{
	int64_t deadline = now_ms() + timeout_ms;

	if (gck_wire_send(w, body, err))
		return -1;
	for (;;) {
		int rc = gck_wire_flush(w, err);

		if (rc < 0)
			return -1;
		if (rc == 1 && !gck_wire_waiting(w))
			return 0;
		if (wait_for(gck_wire_fd(w), rc == 1 ? POLLIN : POLLOUT, deadline, err))
			return -1;
		if (rc == 1 && gck_wire_fill(w, err) < 0)
			return -1;
	}
}

json_t *gck_wire_get(struct gck_wire *w, int timeout_ms, struct gck_error *err)
{
	int64_t deadline = now_ms() + timeout_ms;

	for (;;) {
		struct gck_error why = { 0 };
		json_t *body = gck_wire_next(w, NULL, &why);

		if (body)
			return body;
		if (why.code != EAGAIN) {
			gck_fail(err, why.code, "%s", why.text);
			return NULL;
		}
		if (wait_for(gck_wire_fd(w), POLLIN, deadline, err) || gck_wire_fill(w, err) < 0)
			return NULL;
	}
}

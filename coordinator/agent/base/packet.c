/* SPDX-License-Identifier: Apache-2.0
 * JSON bodies as packets of a SEQPACKET socketpair. */
#include "coordinator/agent/base/packet.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/fd_passing.h"

static int send_with(int fd, json_t *body, const int *given, size_t n_given, struct gck_error *err)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	ssize_t n;

	json_decref(body);
	if (!text)
		return gck_fail(err, ENOMEM, "cannot make a packet: out of memory");
	do {
		n = gck_fd_send(fd, text, strlen(text), given, n_given, 0);
	} while (n < 0 && errno == EINTR);
	free(text);
	if (n < 0)
		return gck_fail(err, errno, "cannot send a packet: %s", strerror(errno));
	return 0;
}

int packet_send(int fd, json_t *body, struct gck_error *err)
{
	return send_with(fd, body, NULL, 0, err);
}

int packet_give(int fd, json_t *body, int given, struct gck_error *err)
{
	return send_with(fd, body, &given, 1, err);
}

static int wait_readable(int fd, int timeout_ms, struct gck_error *err)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do {
		n = poll(&p, 1, timeout_ms);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		return gck_fail(err, ETIMEDOUT, "no packet came within %d ms", timeout_ms);
	if (n < 0)
		return gck_fail(err, errno, "cannot wait for a packet: %s", strerror(errno));
	return 0;
}

json_t *packet_recv(int fd, int timeout_ms, struct gck_error *err)
{
	int given;
	json_t *body = packet_take(fd, timeout_ms, &given, err);

	if (given >= 0)
		close(given);
	return body;
}

json_t *packet_take(int fd, int timeout_ms, int *given, struct gck_error *err)
{
	size_t n_given;
	json_t *body = NULL;
	char *buf;
	ssize_t n;

	*given = -1;
	if (wait_readable(fd, timeout_ms, err) < 0)
		return NULL;
	buf = malloc(PACKET_MAX);
	if (!buf) {
		gck_fail(err, ENOMEM, "cannot take a packet: out of memory");
		return NULL;
	}
	do {
		n_given = 1;
		n = gck_fd_receive(fd, buf, PACKET_MAX, given, &n_given, MSG_TRUNC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		gck_fail(err, errno, "cannot take a packet: %s", strerror(errno));
	else if (n == 0)
		gck_fail(err, ECONNRESET, "the other side is gone");
	else if (n > (ssize_t)PACKET_MAX)
		gck_fail(err, EBADMSG, "a packet of %zd bytes is too long", n);
	else if (!(body = json_loadb(buf, (size_t)n, 0, NULL)))
		gck_fail(err, EBADMSG, "a packet is not JSON");
	free(buf);
	return body;
}

json_t *packet_string(const char *bytes)
{
	json_t *s = json_string(bytes);
	size_t n = 0;
	char *text;

	if (s)
		return s;
	text = malloc(4 * strlen(bytes) + 1);
	if (!text)
		return NULL;
	for (const char *p = bytes; *p; p++)
		n += (size_t)sprintf(text + n, *p & 0x80 ? "\\x%02x" : "%c", *p & 0xff);
	s = json_string(text);
	free(text);
	return s;
}

const char *packet_text(const json_t *body, const char *key, const char *or)
{
	const char *s = json_string_value(json_object_get(body, key));

	return s ? s : or;
}

json_int_t packet_int(const json_t *body, const char *key, json_int_t or)
{
	const json_t *v = json_object_get(body, key);

	return json_is_integer(v) ? json_integer_value(v) : or;
}

int packet_bool(const json_t *body, const char *key)
{
	return json_is_true(json_object_get(body, key));
}

/* SPDX-License-Identifier: Apache-2.0
 * One connection of the wire: the hello, messages in munge credentials, reading and writing without
 * blocking. frame.c has the frames, credential.c munge, wire_client.c the blocking calls. */
#include "common/wire/wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/encoding.h"
#include "common/wire/credential.h"
#include "common/wire/frame.h"

#define NONCE_BYTES 16
#define NONCE_TEXT (2 * NONCE_BYTES)
#define READ_SIZE 65536u
#define MAX_QUEUE (16u << 20) /* bytes queued for a peer that does not read */
#define MAX_WAITING 1024u     /* messages queued before the hello arrives */

struct gck_wire {
	int fd;
	bool server;
	bool broken;              /* a frame was refused: nothing more is read */
	uid_t peer;               /* the user of accepted frames; a server's first frame sets it */
	char *munge_socket;
	char nonce[NONCE_TEXT + 1]; /* "": a client that has no hello yet */
	json_int_t sent, received; /* messages so far */
	json_t *waiting;          /* a client's messages that wait for the hello */
	struct gck_buffer in, out;
};

static int make_nonce(char text[NONCE_TEXT + 1], struct gck_error *err)
{
	unsigned char raw[NONCE_BYTES];

	if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
		return gck_fail(err, errno, "no random numbers for a connection: %s",
				strerror(errno));
	gck_hex(raw, sizeof raw, text);
	return 0;
}

/* Send small messages at once, and notice the failure of the peer's host in about a minute. Errors
 * are ignored, since not every stream socket is TCP. */
static void tune(int fd)
{
	int on = 1, idle = 30, interval = 10, count = 3, user_ms = 60000;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof user_ms);
}

/* On failure the caller still owns fd. */
static struct gck_wire *wire_new(int fd, bool server, const char *munge_socket, uid_t peer,
				 struct gck_error *err)
{
	struct gck_wire *w = calloc(1, sizeof *w);

	if (!w) {
		gck_fail(err, ENOMEM, "no memory for a connection");
		return NULL;
	}
	w->fd = -1;
	w->server = server;
	w->peer = peer;
	w->munge_socket = strdup(munge_socket ? munge_socket : "");
	w->waiting = json_array();
	if (!w->munge_socket || !w->waiting) {
		gck_fail(err, ENOMEM, "no memory for a connection");
		gck_wire_free(w);
		return NULL;
	}
	tune(fd);
	w->fd = fd;
	return w;
}

static int send_hello(struct gck_wire *w, struct gck_error *err)
{
	char text[96];
	int n;

	if (make_nonce(w->nonce, err))
		return -1;
	n = snprintf(text, sizeof text, "{\"gpuckpt\":%d,\"nonce\":\"%s\"}", GCK_WIRE_VERSION,
		     w->nonce);
	return gck_frame_put(&w->out, text, (size_t)n, err);
}

struct gck_wire *gck_wire_server(int fd, const char *munge_socket, struct gck_error *err)
{
	struct gck_wire *w = wire_new(fd, true, munge_socket, GCK_WIRE_ANY_UID, err);

	if (w && send_hello(w, err)) {
		w->fd = -1;
		gck_wire_free(w);
		return NULL;
	}
	return w;
}

struct gck_wire *gck_wire_client(int fd, const char *munge_socket, uid_t peer,
				 struct gck_error *err)
{
	return wire_new(fd, false, munge_socket, peer, err);
}

void gck_wire_free(struct gck_wire *w)
{
	if (!w)
		return;
	if (w->fd >= 0)
		close(w->fd);
	json_decref(w->waiting);
	free(w->munge_socket);
	gck_buffer_free(&w->in);
	gck_buffer_free(&w->out);
	free(w);
}

int gck_wire_fd(const struct gck_wire *w)
{
	return w->fd;
}

/* ---- sending ------------------------------------------------------------------------------- */

static char *envelope(const struct gck_wire *w, const json_t *body, struct gck_error *err)
{
	json_t *e = json_pack("{s:s, s:I, s:s, s:O}", "nonce", w->nonce, "count", w->sent, "to",
			      w->server ? "client" : "server", "body", (json_t *)body);
	char *text = e ? json_dumps(e, JSON_COMPACT) : NULL;

	json_decref(e);
	if (!text)
		gck_fail(err, EINVAL, "a message could not be made into JSON");
	return text;
}

/* Only the peer can decode the credential: no other user can read the content. */
static int seal(struct gck_wire *w, const json_t *body, struct gck_error *err)
{
	char *text = envelope(w, body, err);
	char *credential;
	int rc;

	if (!text)
		return -1;
	credential = gck_credential_encode(w->munge_socket, w->peer, text, err);
	free(text);
	if (!credential)
		return -1;
	rc = gck_frame_put(&w->out, credential, strlen(credential), err);
	free(credential);
	if (rc == 0)
		w->sent++;
	return rc;
}

/* Queue a copy of the body: later changes to it are not sent. */
static int wait_for_hello(struct gck_wire *w, const json_t *body, struct gck_error *err)
{
	if (json_array_size(w->waiting) >= MAX_WAITING)
		return gck_fail(err, ENOBUFS,
				"the coordinator sent no hello; %u messages wait for it",
				MAX_WAITING);
	if (json_array_append_new(w->waiting, json_deep_copy(body)))
		return gck_fail(err, ENOMEM, "no memory for a message");
	return 0;
}

int gck_wire_send(struct gck_wire *w, const json_t *body, struct gck_error *err)
{
	if (!*w->nonce)
		return wait_for_hello(w, body, err);
	if (gck_buffer_size(&w->out) > MAX_QUEUE)
		return gck_fail(err, ENOBUFS, "the peer does not read: %zu bytes wait for it",
				gck_buffer_size(&w->out));
	return seal(w, body, err);
}

int gck_wire_flush(struct gck_wire *w, struct gck_error *err)
{
	while (gck_wire_pending(w)) {
		ssize_t n = send(w->fd, w->out.data + w->out.start, gck_buffer_size(&w->out),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n < 0)
			return gck_fail(err, errno, "cannot send to the peer: %s", strerror(errno));
		gck_buffer_consume(&w->out, (size_t)n);
	}
	return 1;
}

size_t gck_wire_pending(const struct gck_wire *w)
{
	return gck_buffer_size(&w->out);
}

bool gck_wire_waiting(const struct gck_wire *w)
{
	return json_array_size(w->waiting) > 0;
}

/* ---- receiving ----------------------------------------------------------------------------- */

static bool is_nonce(const char *s)
{
	return strlen(s) == NONCE_TEXT && strspn(s, "0123456789abcdef") == NONCE_TEXT;
}

static int read_hello(struct gck_wire *w, const char *text, size_t size, struct gck_error *err)
{
	json_t *hello = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	const char *nonce = "";
	int version = 0;
	int rc = -1;

	if (json_unpack(hello, "{s:i, s:s}", "gpuckpt", &version, "nonce", &nonce) ||
	    !is_nonce(nonce))
		gck_fail(err, EPROTO, "what answers is not gpuckptd: its hello is malformed; check "
			 "CoordinatorHost and CoordinatorPort");
	else if (version != GCK_WIRE_VERSION)
		gck_fail(err, EPROTO,
			 "gpuckptd speaks version %d of the protocol, this program %d; "
			 "install the same release on all nodes",
			 version, GCK_WIRE_VERSION);
	else
		rc = 0;
	if (rc == 0)
		memcpy(w->nonce, nonce, sizeof w->nonce);
	json_decref(hello);
	return rc;
}

/* A client's first frame is the hello. Messages that waited for it can be sent now. */
static int take_hello(struct gck_wire *w, struct gck_error *err)
{
	const char *text;
	size_t size;
	int rc = gck_frame_peek(&w->in, &text, &size, err);

	if (rc != 1)
		return rc;
	if (read_hello(w, text, size, err))
		return -1;
	gck_frame_drop(&w->in);
	for (size_t i = 0; i < json_array_size(w->waiting); i++)
		if (seal(w, json_array_get(w->waiting, i), err))
			return -1;
	json_array_clear(w->waiting);
	return 0;
}

static int fill_failed(struct gck_wire *w, struct gck_error *err)
{
	if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
		return 0;
	w->broken = true;
	return gck_fail(err, errno, "cannot receive from the peer: %s", strerror(errno));
}

int gck_wire_fill(struct gck_wire *w, struct gck_error *err)
{
	unsigned char *p;
	ssize_t n;

	/* Read no more until the caller has taken the messages. */
	if (gck_buffer_size(&w->in) >= GCK_FRAME_HEADER + GCK_WIRE_MAX_FRAME)
		return 1;
	p = gck_buffer_space(&w->in, READ_SIZE, err);
	if (!p)
		return -1;
	n = recv(w->fd, p, READ_SIZE, MSG_DONTWAIT);
	if (n < 0)
		return fill_failed(w, err);
	if (n == 0)
		return gck_fail(err, ECONNRESET, gck_buffer_size(&w->in) ?
				"the peer closed the connection in the middle of a message" :
				"the peer closed the connection");
	w->in.end += (size_t)n;
	if (!*w->nonce && take_hello(w, err)) {
		w->broken = true;
		return -1;
	}
	return 1;
}

/* nonce, count and direction bind a credential to its connection and to its place in it. */
static json_t *check_envelope(struct gck_wire *w, const json_t *e, struct gck_error *err)
{
	const char *nonce, *to;
	json_int_t count;
	json_t *body;

	if (json_unpack((json_t *)e, "{s:s, s:I, s:s, s:o}", "nonce", &nonce, "count", &count, "to",
			&to, "body", &body) || !json_is_object(body))
		gck_fail(err, EBADMSG, "a message without nonce, count, to and body came");
	else if (strcmp(nonce, w->nonce) != 0)
		gck_fail(err, EBADMSG, "a message made for another connection came");
	else if (strcmp(to, w->server ? "server" : "client") != 0)
		gck_fail(err, EBADMSG, "a message in the wrong direction came");
	else if (count != w->received)
		gck_fail(err, EBADMSG, "message %" JSON_INTEGER_FORMAT " came in place of %"
			 JSON_INTEGER_FORMAT, count, w->received);
	else
		return json_incref(body);
	return NULL;
}

static json_t *open_payload(struct gck_wire *w, const char *text, size_t size,
			    struct gck_error *err)
{
	json_error_t why;
	json_t *e = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
	json_t *body;

	if (!e) {
		gck_fail(err, EBADMSG, "a message that is not JSON came: %s", why.text);
		return NULL;
	}
	body = check_envelope(w, e, err);
	json_decref(e);
	return body;
}

static json_t *open_frame(struct gck_wire *w, const char *text, size_t size, uid_t *uid,
			  struct gck_error *err)
{
	size_t length;
	uid_t maker;
	char *payload = gck_credential_decode(w->munge_socket, text, size, &length, &maker, err);
	json_t *body;

	if (!payload)
		return NULL;
	if (w->peer != GCK_WIRE_ANY_UID && maker != w->peer) {
		gck_fail(err, EPERM, "a message made by uid %u came, where only uid %u's are taken",
			 (unsigned)maker, (unsigned)w->peer);
		free(payload);
		return NULL;
	}
	body = open_payload(w, payload, length, err);
	free(payload);
	if (body)
		*uid = maker;
	return body;
}

json_t *gck_wire_next(struct gck_wire *w, uid_t *uid, struct gck_error *err)
{
	const char *text;
	size_t size;
	uid_t maker;
	json_t *body = NULL;
	int rc;

	if (w->broken) {
		gck_fail(err, EPROTO, "a message was refused before; nothing more is taken");
		return NULL;
	}
	rc = gck_frame_peek(&w->in, &text, &size, err);
	if (rc == 0) {
		gck_fail(err, EAGAIN, "no message is there");
		return NULL;
	}
	if (rc == 1)
		body = open_frame(w, text, size, &maker, err);
	if (!body) {
		w->broken = true;
		return NULL;
	}
	gck_frame_drop(&w->in);
	w->received++;
	/* All messages of a connection must be of one user; the first sets it. */
	w->peer = maker;
	if (uid)
		*uid = maker;
	return body;
}

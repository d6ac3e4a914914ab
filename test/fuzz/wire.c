/* SPDX-License-Identifier: Apache-2.0
 * What a peer sends: hello, frames and what is in a credential. munge is left out (a credential is
 * its own payload, made by user 1000), and the server's nonce is zeros, so that the checks behind
 * both are reached. The first byte of the input says what the rest is. It comes out of memory. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "common/wire/credential.h"
#include "common/wire/frame.h"
#include "common/wire/wire.h"

enum { TO_CLIENT, TO_SERVER, FRAMES, BODIES, FORMS };

static struct gck_buffer sent;

ssize_t recv(int fd, void *to, size_t max, int flags)
{
	size_t n = gck_buffer_size(&sent) < max ? gck_buffer_size(&sent) : max;

	(void)fd;
	(void)flags;
	memcpy(to, sent.data + sent.start, n);
	sent.start += n;
	return (ssize_t)n;
}

ssize_t getrandom(void *data, size_t size, unsigned flags)
{
	(void)flags;
	memset(data, 0, size);
	return (ssize_t)size;
}

char *gck_credential_encode(const char *socket, uid_t reader, const char *payload,
			  struct gck_error *err)
{
	(void)socket;
	(void)reader;
	(void)err;
	return strdup(payload);
}

char *gck_credential_decode(const char *socket, const char *text, size_t size, size_t *length,
			  uid_t *uid, struct gck_error *err)
{
	char *payload = malloc(size + 1);

	(void)socket;
	(void)err;
	memcpy(payload, text, size);
	payload[size] = '\0';
	*length = size;
	*uid = 1000;
	return payload;
}

static void put(struct gck_buffer *b, const void *data, size_t size)
{
	memcpy(gck_buffer_space(b, size, NULL), data, size);
	b->end += size;
}

/* Lines become the bodies of messages that are otherwise as they should be. */
static int put_body(struct gck_buffer *b, const char *line, size_t size, unsigned count)
{
	char *text;
	int failed, n = asprintf(&text, "{\"nonce\":\"%032d\",\"count\":%u,\"to\":\"server\","
			 "\"body\":%.*s}", 0, count, (int)size, line);

	if (n < 0)
		abort();
	failed = gck_frame_put(b, text, (size_t)n, NULL);
	free(text);
	return failed;
}

static void put_lines(struct gck_buffer *b, int form, const char *data, size_t size)
{
	for (unsigned count = 0; size; count++) {
		const char *end = memchr(data, '\n', size);
		size_t n = end ? (size_t)(end - data) : size;

		if (form == BODIES ? put_body(b, data, n, count) : gck_frame_put(b, data, n, NULL))
			return; /* too long for a frame */
		n += end != NULL;
		data += n;
		size -= n;
	}
}

static void take_all(struct gck_wire *w)
{
	struct gck_error err = { 0 };
	uid_t uid = 0;
	json_t *m;

	while (gck_wire_fill(w, &err) == 1) {
		while ((m = gck_wire_next(w, &uid, &err))) {
			if (!json_is_object(m) || uid != 1000)
				abort();
			json_decref(m);
		}
		if (err.code == EAGAIN)
			continue;
		m = gck_wire_next(w, &uid, &err);
		if (m || err.code == EAGAIN || err.code == 0)
			abort(); /* nothing comes after what was refused */
		return;
	}
	/* The end of the stream is told, and once nothing is left it is an error. */
	if (err.code == 0 || strchr(err.text, '\n'))
		abort();
}

static void feed(int form)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct gck_wire *w = form == TO_CLIENT ? gck_wire_client(fd, "", 1000, NULL) :
						 gck_wire_server(fd, "", NULL);

	if (!w)
		abort();
	take_all(w);
	gck_wire_free(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int form;

	if (size < 2)
		return 0;
	form = data[0] % FORMS;
	if (form == FRAMES || form == BODIES)
		put_lines(&sent, form, (const char *)data + 1, size - 1);
	else
		put(&sent, data + 1, size - 1);
	feed(form);
	gck_buffer_free(&sent);
	return 0;
}

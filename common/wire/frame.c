/* SPDX-License-Identifier: Apache-2.0
 * Frames: a 4-byte big-endian length, then that many bytes. */
#include "common/wire/frame.h"

#include <endian.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/wire.h"

#define KEEP_CAPACITY 65536u /* an empty buffer larger than this is freed */

size_t gck_buffer_size(const struct gck_buffer *b)
{
	return b->end - b->start;
}

static void compact(struct gck_buffer *b)
{
	memmove(b->data, b->data + b->start, gck_buffer_size(b));
	b->end -= b->start;
	b->start = 0;
}

unsigned char *gck_buffer_space(struct gck_buffer *b, size_t size, struct gck_error *err)
{
	size_t capacity;
	unsigned char *data;

	if (b->capacity - b->end < size && b->start)
		compact(b);
	if (b->capacity - b->end >= size)
		return b->data + b->end;
	capacity = b->end + size;
	if (capacity < 2 * b->capacity)
		capacity = 2 * b->capacity;
	data = realloc(b->data, capacity);
	if (!data) {
		gck_fail(err, ENOMEM, "no memory for a message of %zu bytes", size);
		return NULL;
	}
	b->data = data;
	b->capacity = capacity;
	return b->data + b->end;
}

void gck_buffer_consume(struct gck_buffer *b, size_t size)
{
	b->start += size;
	if (b->start < b->end)
		return;
	b->start = b->end = 0;
	if (b->capacity > KEEP_CAPACITY)
		gck_buffer_free(b);
}

void gck_buffer_free(struct gck_buffer *b)
{
	free(b->data);
	*b = (struct gck_buffer){ 0 };
}

int gck_frame_put(struct gck_buffer *b, const void *content, size_t size, struct gck_error *err)
{
	uint32_t length = htobe32((uint32_t)size);
	unsigned char *p;

	if (size > GCK_WIRE_MAX_FRAME)
		return gck_fail(err, EMSGSIZE,
				"a message of %zu bytes is larger than a frame may be (%u)", size,
				GCK_WIRE_MAX_FRAME);
	p = gck_buffer_space(b, GCK_FRAME_HEADER + size, err);
	if (!p)
		return -1;
	memcpy(p, &length, GCK_FRAME_HEADER);
	memcpy(p + GCK_FRAME_HEADER, content, size);
	b->end += GCK_FRAME_HEADER + size;
	return 0;
}

int gck_frame_peek(const struct gck_buffer *b, const char **content, size_t *size,
		   struct gck_error *err)
{
	uint32_t length;

	if (gck_buffer_size(b) < GCK_FRAME_HEADER)
		return 0;
	memcpy(&length, b->data + b->start, GCK_FRAME_HEADER);
	length = be32toh(length);
	if (length == 0 || length > GCK_WIRE_MAX_FRAME)
		return gck_fail(err, EMSGSIZE, "a frame of %u bytes came; 1 to %u are allowed",
				length, GCK_WIRE_MAX_FRAME);
	if (gck_buffer_size(b) - GCK_FRAME_HEADER < length)
		return 0;
	*content = (const char *)b->data + b->start + GCK_FRAME_HEADER;
	*size = length;
	return 1;
}

void gck_frame_drop(struct gck_buffer *b)
{
	const char *content;
	size_t size = 0;

	if (gck_frame_peek(b, &content, &size, NULL) == 1)
		gck_buffer_consume(b, GCK_FRAME_HEADER + size);
}

/* SPDX-License-Identifier: Apache-2.0
 * Frames of the wire (doc/protocol.md) in a byte buffer that is filled at its end and consumed at
 * its start. The buffer is the only cursor that touches bytes from outside. Used by wire.c. */
#ifndef GCK_FRAME_H
#define GCK_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

#define GCK_FRAME_HEADER 4u

struct gck_buffer {
	unsigned char *data;
	size_t start, end, room; /* start <= end <= room; data[start..end) is what there is */
};

/* Make room for size bytes at the end, where the caller puts them and then adds to b->end. */
unsigned char *gck_buffer_space(struct gck_buffer *b, size_t size, struct gck_error *err);
size_t gck_buffer_size(const struct gck_buffer *b);
void gck_buffer_consume(struct gck_buffer *b, size_t size);
void gck_buffer_free(struct gck_buffer *b);

/* Append a frame with this content. -1 (EMSGSIZE) if it is larger than a frame may be. */
int gck_frame_put(struct gck_buffer *b, const void *content, size_t size, struct gck_error *err);

/* Look at the first frame: 1 and its content (valid until the buffer changes), 0 when it is not
 * whole yet, -1 if its length is not allowed. gck_frame_drop consumes it. */
int gck_frame_peek(const struct gck_buffer *b, const char **content, size_t *size,
		   struct gck_error *err);
void gck_frame_drop(struct gck_buffer *b);

#endif

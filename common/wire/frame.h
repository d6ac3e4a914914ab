/* SPDX-License-Identifier: Apache-2.0
 * Frames of the wire (doc/protocol.md) in a byte buffer that is filled at its end and consumed at
 * its start. Only the functions of this buffer touch received bytes. Used by wire.c. */
#ifndef GCK_FRAME_H
#define GCK_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

#define GCK_FRAME_HEADER 4u

struct gck_buffer {
	unsigned char *data;
	size_t start, end, capacity; /* start <= end <= capacity; the content is data[start..end) */
};

/* Return space for size bytes at the end. The caller writes there, then raises b->end. */
GCK_MUST_CHECK unsigned char *gck_buffer_space(struct gck_buffer *b, size_t size,
					       struct gck_error *err);
size_t gck_buffer_size(const struct gck_buffer *b);
void gck_buffer_consume(struct gck_buffer *b, size_t size);
void gck_buffer_free(struct gck_buffer *b);

/* Append a frame with this content. -1 (EMSGSIZE): it is larger than a frame may be. */
GCK_MUST_CHECK int gck_frame_put(struct gck_buffer *b, const void *content, size_t size,
				 struct gck_error *err);

/* Look at the first frame. 1: its content (valid until the buffer changes); 0: it is not complete
 * yet; -1: its length is not allowed. gck_frame_drop consumes it. */
GCK_MUST_CHECK int gck_frame_peek(const struct gck_buffer *b, const char **content, size_t *size,
				  struct gck_error *err);
void gck_frame_drop(struct gck_buffer *b);

#endif

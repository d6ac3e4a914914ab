/* SPDX-License-Identifier: Apache-2.0
 * Reading one chunk of an image into a test's own memory. */
#ifndef READ_CHUNK_H
#define READ_CHUNK_H

#include <string.h>

#include "storage/image/image.h"

/* data has c->size bytes. 0, or -1 as gck_reader_view fails. */
static inline int read_chunk(struct gck_reader *r, const struct gck_chunk *c, void *data,
			     struct gck_error *err)
{
	const void *have = gck_reader_view(r, c, err);

	if (!have)
		return -1;
	memcpy(data, have, c->size);
	return 0;
}

#endif

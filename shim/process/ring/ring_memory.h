/* SPDX-License-Identifier: Apache-2.0
 * The memory of an io_uring: both queues, with the array of the first, then that one's entries. */
#ifndef GCK_RING_MEMORY_H
#define GCK_RING_MEMORY_H

#include <linux/io_uring.h>

#include "shim/process/image/image.h"

/* Where its parts lie, mapped or in a copy. p has the offsets. */
struct gck_ring_view {
	char *rings;
	struct io_uring_sqe *entries;
	struct io_uring_params p;
};

/* A ring of ours that is as large, and its offsets. -1 with errno. */
int gck_ring_make_like(const struct gck_ring *x, unsigned char offsets[80]);

/* Map that of fd here. -1 with errno. */
int gck_ring_map(const struct gck_ring *x, int fd, struct gck_ring_view *v) GCK_MUST_CHECK;
void gck_ring_unmap(const struct gck_ring *x, struct gck_ring_view *v);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * What is copied while the rank is held, because a fork does not freeze it: kept in memory until
 * it is written. */
#ifndef GCK_FROZEN_COPY_H
#define GCK_FROZEN_COPY_H

#include "shim/process/image/image.h"
#include "shim/process/proc/pages.h"
#include "shim/process/rank/target.h"

enum gck_kept_of { GCK_KEPT_PAGES, GCK_KEPT_OBJECT, GCK_KEPT_FILE };

struct gck_kept_window {
	enum gck_kept_of of;
	uint32_t index;        /* of the object or file */
	uint64_t address, mask; /* no page: dropped */
	const char *data;
};

struct gck_kept {
	char **blocks;
	size_t nblocks, block, used; /* blocks made; the one in use and how far */
	struct gck_kept_window *v;
	size_t n;
};

/* Make room for so many bytes and touch it, so that the copy costs no page faults. */
int gck_kept_prepare(struct gck_kept *k, uint64_t bytes, struct gck_error *err);
void gck_kept_free(struct gck_kept *k);

/* Copy the first size bytes of a file; holes are skipped. */
int gck_kept_file(struct gck_kept *k, enum gck_kept_of of, uint32_t index, int fd, uint64_t size,
		  struct gck_error *err);

/* Forget what was copied of it. */
void gck_kept_drop(struct gck_kept *k, enum gck_kept_of of, uint32_t index);

/* Copy bytes that are at hand. */
int gck_kept_bytes(struct gck_kept *k, enum gck_kept_of of, uint32_t index, const void *data,
		   size_t size, struct gck_error *err);

/* Copy ranges of memory; a page's address in the image is shift more than in memory. */
int gck_kept_ranges(struct gck_kept *k, enum gck_kept_of of, uint32_t index,
		    const struct gck_source *s, const struct gck_ranges *r, int64_t shift,
		    struct gck_error *err);

/* Copying, while the rank is held, what a fork does not freeze. */
struct gck_outsides;
struct gck_hold {
	const struct gck_target *t;
	struct gck_image *img;
	struct gck_kept *kept;
	struct gck_outsides *outside;
	int timeout_ms;          /* for the helper */
	struct gck_error *err;
};

/* Copy private mappings that a clone does not have, or has empty. */
int gck_hold_unforked(struct gck_hold *h) GCK_MUST_CHECK;

#endif

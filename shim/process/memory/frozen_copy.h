/* SPDX-License-Identifier: Apache-2.0
 * Copies of what a fork does not freeze: shared memory, files, pipes. They are made while the rank
 * is held, and stay in memory until they are written to the image. */
#ifndef GCK_FROZEN_COPY_H
#define GCK_FROZEN_COPY_H

#include "shim/process/image/image.h"
#include "shim/process/proc/pages.h"
#include "shim/process/rank/target.h"

enum gck_frozen_of { GCK_FROZEN_PAGES, GCK_FROZEN_OBJECT, GCK_FROZEN_FILE };

struct gck_frozen_group {
	enum gck_frozen_of of;
	uint32_t index;        /* of the object or file */
	uint64_t address, mask; /* mask 0: dropped */
	const char *data;
};

struct gck_frozen_copies {
	char **blocks;
	size_t nblocks, block, used; /* how many blocks; the current one, and its bytes in use */
	struct gck_frozen_group *v;
	size_t n;
};

/* Allocate and touch memory for bytes, so that the copy causes no page faults. */
int gck_frozen_prepare(struct gck_frozen_copies *k, uint64_t bytes,
		       struct gck_error *err) GCK_MUST_CHECK;
void gck_frozen_free(struct gck_frozen_copies *k);

/* Copy a file from an offset, a multiple of GCK_GROUP_BYTES, to another; holes are skipped. */
int gck_frozen_file(struct gck_frozen_copies *k, enum gck_frozen_of of, uint32_t index, int fd,
		    uint64_t from, uint64_t to, struct gck_error *err) GCK_MUST_CHECK;

/* Drop the copies of this object or file. */
void gck_frozen_drop(struct gck_frozen_copies *k, enum gck_frozen_of of, uint32_t index);

/* Copy bytes of our own memory. */
int gck_frozen_bytes(struct gck_frozen_copies *k, enum gck_frozen_of of, uint32_t index,
		     const void *data, size_t size, struct gck_error *err) GCK_MUST_CHECK;

/* Copy ranges of memory. An address in the image is `shift` more than in memory. */
int gck_frozen_ranges(struct gck_frozen_copies *k, enum gck_frozen_of of, uint32_t index,
		    const struct gck_source *s, const struct gck_ranges *r, int64_t shift,
		    struct gck_error *err) GCK_MUST_CHECK;

/* For copying what a fork does not freeze, while the rank is held. */
struct gck_external_files;
struct gck_hold {
	const struct gck_target *t;
	struct gck_image *img;
	const struct gck_image *rank; /* of the rank that the process belongs to */
	struct gck_frozen_copies *copies;
	struct gck_external_files *external;
	bool own, memory;        /* what is copied: what no other rank has; memory and files that
				  * other ranks may share */
	unsigned char **seen;    /* of memory that processes share, by its number: the pages that
				  * were copied; NULL: none */
	int timeout_ms;          /* for the helper */
	struct gck_error *err;
};

/* Copy private mappings that a clone does not have, or has empty. */
int gck_hold_unforked(struct gck_hold *h) GCK_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 * A capture, as the files that take it and write it know it. */
#ifndef GCK_CAPTURE_H
#define GCK_CAPTURE_H

#include "shim/process/memory/dirty_pages.h"
#include "shim/process/memory/frozen_copy.h"
#include "shim/process/objects/external_files.h"
#include "shim/process/objects/log_prefix.h"
#include "shim/process/process.h"
#include "shim/process/threads/threads.h"

struct gck_capture {
	struct gck_target t;
	struct gck_options o;
	struct gck_maps flags;       /* smaps before the rank was held */
	uint64_t locked;             /* KiB of its memory by then */
	struct gck_prefixes prefixes;
	struct gck_kept kept;
	struct gck_outsides outside;
	struct gck_held held;
	struct gck_image *img;
	char *exe, *cpu_flags;       /* found before the rank was held */
	pid_t clone;                 /* 0: none */
	int life;                    /* the clone's; -1 */
	int device[GCK_LINK_DATA_FDS]; /* what its devices have comes over these; -1 */
	bool device_hashes;          /* and is worth a look by its hashes */
	uint64_t expected, chunks;   /* of the image: bytes; chunks at most */
	bool marked;                 /* somebody keeps the marks until the next checkpoint */
	struct gck_marks marks;
	struct gck_windows base;     /* pages of the image that the marks count from, if this builds on it */
};

/* Its memory is no longer needed. */
void gck_capture_drop_clone(struct gck_capture *c);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Copying, while the rank is held, what a fork does not freeze. */
#ifndef GCK_FILE_COPY_H
#define GCK_FILE_COPY_H

#include "shim/process/memory/frozen_copy.h"
#include "shim/process/objects/external_files.h"
#include "shim/process/rank/scan.h"

struct gck_hold {
	const struct gck_target *t;
	struct gck_image *img;
	struct gck_kept *kept;
	struct gck_outsides *outside;
	int timeout_ms;          /* for the helper */
	struct gck_error *err;
};

/* Contents of files that are carried, of pipes and of socketpairs. */
int gck_hold_files(struct gck_hold *h);

/* Shared memory. */
int gck_hold_objects(struct gck_hold *h);

/* With all ranks of the step held: is what was copied of files still what they hold? A log that
 * another rank appended to is copied again, anything else that changed fails with EAGAIN. */
int gck_hold_settle(struct gck_hold *h);

/* Private mappings that a clone does not have, or has empty. */
int gck_hold_unforked(struct gck_hold *h);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * A scan of a rank. Each gck_scan_* function fills a part of an image and reports what the image
 * cannot hold. The same scans serve gck_process_able (nothing is stopped), the preparation of a
 * checkpoint, and the capture of a held rank. -1 only if the scan itself failed. */
#ifndef GCK_SCAN_H
#define GCK_SCAN_H

#include "common/base/options.h"
#include "shim/process/image/image.h"
#include "shim/process/image/obstacles.h"
#include "shim/process/proc/maps.h"
#include "shim/process/rank/target.h"

#define GCK_CARRY_MAX (64ull << 20) /* a mapped file up to this size is always stored */
#define GCK_WHOLE_MAX (64ull << 20) /* a written file up to this size is stored whole; a file */
#define GCK_LOG_MAX (16ull << 20)   /* opened with O_APPEND, up to this size */

struct gck_scan {
	const struct gck_target *t;
	const struct gck_options *o;
	struct gck_image *img;
	struct gck_obstacles *f;
	struct gck_error *err;
	const struct gck_maps *flags; /* smaps of an earlier time */
	struct gck_maps maps;         /* the mappings that gck_scan_maps saw */
	bool held;                    /* nobody reads or writes: queues may be looked through */
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 * A capture, as the files that take it and write it know it. */
#ifndef GCK_CAPTURE_H
#define GCK_CAPTURE_H

#include "shim/process/kept.h"
#include "shim/process/outside.h"
#include "shim/process/prefix.h"
#include "shim/process/process.h"
#include "shim/process/threads.h"

struct gck_capture {
	struct gck_target t;
	struct gck_options o;
	struct gck_maps flags;       /* smaps before the rank was held */
	struct gck_prefixes prefixes;
	struct gck_kept kept;
	struct gck_outsides outside;
	struct gck_held held;
	struct gck_image *img;
	char *exe, *cpu_flags;       /* found before the rank was held */
	pid_t clone;                 /* 0: none */
	int life;                    /* the clone's; -1 */
	uint64_t expected;
};

#endif

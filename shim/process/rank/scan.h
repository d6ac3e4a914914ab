/* SPDX-License-Identifier: Apache-2.0
 * Describing a rank: each scan fills a part of an image and reports what cannot be carried. The
 * same scans serve `able` (nothing is stopped), the look before a checkpoint and the capture
 * while the rank is held. They return -1 only if they could not do their work. */
#ifndef GCK_SCAN_H
#define GCK_SCAN_H

#include "common/base/options.h"
#include "shim/process/image/image.h"
#include "shim/process/image/obstacles.h"
#include "shim/process/proc/maps.h"
#include "shim/process/rank/target.h"

#define GCK_CARRY_MAX (64ull << 20) /* a mapped file up to this size is carried whatever it is */
#define GCK_WHOLE_MAX (64ull << 20) /* a written file up to this size is carried whole; one that */
#define GCK_LOG_MAX (16ull << 20)   /* is opened with O_APPEND, up to this size */

struct gck_scan {
	const struct gck_target *t;
	const struct gck_options *o;
	struct gck_image *img;
	struct gck_findings *f;
	struct gck_error *err;
	const struct gck_maps *flags; /* smaps, as of some time before */
	struct gck_maps maps;         /* the mappings that gck_scan_maps saw */
};

/* What /proc tells of the process as a whole: rights, namespaces, children, limits, timers. */
int gck_scan_process(struct gck_scan *s);

/* The node's CPU features and the program's file: the same at any time. */
int gck_scan_node(struct gck_scan *s);

int gck_scan_maps(struct gck_scan *s);

/* An MPI library among the maps that is not carried: another than Open MPI 4.1, or one that runs
 * without the stand-in (its reason is in the process's environment). */
void gck_scan_other_mpi(struct gck_scan *s);

/* GCK_VM_* as GCK_MAP_*. */
uint32_t gck_map_flags(uint32_t vm);

/* Descriptors, after the maps (which make the objects that a memfd may be). */
int gck_scan_fds(struct gck_scan *s);

/* The object of this inode in the image: its index, made if it is not there; -1 without memory. */
int gck_scan_object(struct gck_scan *s, uint64_t device, uint64_t inode, const char *name);

/* What only the rank itself can tell: signal actions, timers, clocks (by the helper). */
int gck_scan_inside(struct gck_scan *s, int timeout_ms);

#endif

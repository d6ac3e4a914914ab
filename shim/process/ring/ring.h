/* SPDX-License-Identifier: Apache-2.0
 * io_uring descriptors and their mappings. The kernel does not tell the flags of a ring, and counts
 * in it from zero: a restart makes a plain one, and submits as often as the program has. Functions
 * return -1 on failure with err (of a scan: s->err; of a hold: h->err) filled. */
#ifndef GCK_RING_H
#define GCK_RING_H

#include "shim/process/memory/frozen_copy.h"
#include "shim/process/ptrace/rebuild.h"
#include "shim/process/rank/scan.h"
#include "shim/process/threads/threads.h"

/* Fill x, which is the process's descriptor fd, or report why it is refused. */
int gck_ring_scan(struct gck_scan *s, int fd, struct gck_file *x) GCK_MUST_CHECK;

/* Once all descriptors are known: report mappings of rings whose descriptors were closed. */
void gck_rings_check_maps(struct gck_scan *s);

/* With all processes of the rank held: wait until nothing is under way in this one's rings, and
 * check what only its threads can tell. EAGAIN: something does not end, or a thread cannot be
 * asked now. */
int gck_rings_settle(struct gck_target *t, struct gck_held *held,
		     struct gck_error *err) GCK_MUST_CHECK;

/* Copy what is in the rings' memory. */
int gck_hold_ring(struct gck_hold *h, uint32_t i) GCK_MUST_CHECK;

/* Whether this node's kernel can make the image's rings. */
int gck_restore_check_rings(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Make the ring of this file in the process, in all places where the image has it. */
int gck_ring_place(struct gck_restore *r, size_t file, struct gck_error *err) GCK_MUST_CHECK;

/* Once memory and descriptors are there: bring the rings to where they were, and map them. */
int gck_restore_rings(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Once all files are open, and mapped: register them and buffers. */
int gck_restore_ring_tables(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 * A capture: what the files that take it and those that write it share. */
#ifndef GCK_CAPTURE_H
#define GCK_CAPTURE_H

#include "shim/process/memory/dirty_pages.h"
#include "shim/process/memory/clone_pages.h"
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
	struct gck_frozen_copies copies;
	struct gck_external_files external;
	struct gck_held held;
	struct gck_image *img;
	char *exe, *cpu_flags;       /* found before the rank was held */
	pid_t clone;                 /* 0: none */
	int life;                    /* the clone's; -1 */
	int device[GCK_LINK_DATA_FDS]; /* what its devices have comes over these; -1 */
	bool device_hashes;          /* and is worth a look by its hashes */
	uint64_t expected, chunks;   /* of the image: bytes; chunks at most */
	bool track_dirty;                 /* somebody keeps the marks until the next checkpoint */
	struct gck_dirty_tracker dirty;
	struct gck_page_groups base_pages;    /* pages of the image that the marks count from, if this builds on it */
};

/* End and reap the clone; its memory is no longer needed. */
void gck_capture_drop_clone(struct gck_capture *c);

/* ---- writing the image --------------------------------------------------------------------- */

#define GCK_BATCH_PAGES 256u /* read at once: what fits a core's cache */
#define GCK_BATCH_GROUPS 64u

/* Pages that are read together. */
struct gck_page_batch {
	struct gck_ranges pieces;
	struct gck_page_group groups[GCK_BATCH_GROUPS];
	size_t ngroups, pages;
};

struct gck_output {
	struct gck_capture *c;
	struct gck_writer *w;
	struct gck_source source;
	int (*progress)(void *, uint64_t, uint64_t);
	void *arg;
	uint64_t done;
	struct gck_error *err;

	struct gck_clone_pages pages_out;
	struct gck_page_group next;      /* of private memory, as far as its pages are known */
	size_t base;                 /* of c->base_pages: the first that may be at it or behind it */
	struct gck_page_batch batches[2]; /* one for each half of pages_out */
	int filling;                 /* the one that pieces are added to; the other is under way */
};

/* Store the pages of mask, which are at data, as one page group. */
int gck_output_put(struct gck_output *o, struct gck_page_groups *to, uint64_t address,
		   uint64_t mask, const char *data);

/* Count bytes as done. -1 if the write was cancelled. */
int gck_output_count(struct gck_output *o, uint64_t bytes);

/* Take a page group as the previous commit has it. 1; 0: its chunk is gone; -1 on failure. */
int gck_output_again(struct gck_output *o, struct gck_page_groups *to,
		     const struct gck_page_group *x);

/* Finish calls of the vdso that threads were stopped in, by single steps in the clone. Before
 * memory is read, and with a clone that is ready. Registers in the image change. */
int gck_output_finish_calls(struct gck_output *o);

/* Store private memory. */
int gck_output_memory(struct gck_output *o);
void gck_output_free(struct gck_output *o);

/* Store the data of the devices, if the capture has their channel. */
int gck_output_device(struct gck_output *o);

/* Store the files that are mapped privately and carried. */
int gck_output_contents(struct gck_output *o);

#endif

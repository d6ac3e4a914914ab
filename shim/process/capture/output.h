/* SPDX-License-Identifier: Apache-2.0
 * An image being written. */
#ifndef GCK_OUTPUT_H
#define GCK_OUTPUT_H

#include "shim/process/capture/capture.h"
#include "shim/process/memory/clone_pages.h"

#define GCK_BATCH_PAGES 256u /* read at once: what fits a core's cache */
#define GCK_BATCH_WINDOWS 64u

/* Pages that are read together. */
struct gck_batch {
	struct gck_ranges pieces;
	struct gck_window windows[GCK_BATCH_WINDOWS];
	size_t nwindows, pages;
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
	struct gck_window next;      /* of private memory, as far as its pages are known */
	size_t base;                 /* of c->base: the first that may be at it or behind it */
	struct gck_batch batches[2]; /* one for each half of pages_out */
	int filling;                 /* the one that pieces are added to; the other is under way */
};

/* Store the pages of mask, which are at data, as one window. */
int gck_output_put(struct gck_output *o, struct gck_windows *to, uint64_t address, uint64_t mask,
		   const char *data);

/* So many bytes more are done: -1 if the write was called off. */
int gck_output_count(struct gck_output *o, uint64_t bytes);

/* Take a window as the commit before has it: 1; 0: what it had is gone; -1. */
int gck_output_again(struct gck_output *o, struct gck_windows *to, const struct gck_window *x);

/* Let calls of the vdso come to their end that threads were held in; before memory is read, and only of a
 * clone that is ready. Registers in the image change. */
int gck_output_finish_calls(struct gck_output *o);

/* Store private memory. */
int gck_output_memory(struct gck_output *o);
void gck_output_free(struct gck_output *o);

/* Store what the devices have, if anybody brings it. */
int gck_output_device(struct gck_output *o);

/* Store the files that are mapped privately and carried. */
int gck_output_contents(struct gck_output *o);

#endif

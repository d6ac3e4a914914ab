/* SPDX-License-Identifier: Apache-2.0
 * An image being written. */
#ifndef GCK_WRITE_H
#define GCK_WRITE_H

#include "shim/process/capture.h"

#define GCK_BATCH_PAGES 256u /* read at once: what fits a core's cache */
#define GCK_BATCH_WINDOWS 64u

struct gck_output {
	struct gck_capture *c;
	struct gck_writer *w;
	struct gck_source source;
	int (*progress)(void *, uint64_t, uint64_t);
	void *arg;
	uint64_t done;
	struct gck_error *err;

	/* pages to be read together */
	char *buffer;
	struct gck_ranges pieces;
	struct gck_window windows[GCK_BATCH_WINDOWS];
	size_t nwindows, pages;
};

/* Store the pages of mask, which are at data, as one window. */
int gck_output_put(struct gck_output *o, struct gck_windows *to, uint64_t address, uint64_t mask,
		   const char *data);

/* Store the files that are mapped privately and carried. */
int gck_output_contents(struct gck_output *o);

#endif

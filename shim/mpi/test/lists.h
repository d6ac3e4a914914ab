/* SPDX-License-Identifier: Apache-2.0
 * What the kernel says a process has, compared with what the namespace says the copy owns. */
#ifndef GCK_TEST_LISTS_H
#define GCK_TEST_LISTS_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/namespace/state.h"

#define MAX_NUMBERS 4096
#define MAX_MAPPINGS 4096

struct mapping {
	unsigned long start, end;
	char what[512];
};

struct possessions {
	int fds[MAX_NUMBERS], tids[MAX_NUMBERS];
	size_t nfds, ntids, nmappings;
	struct mapping mappings[MAX_MAPPINGS];
};

/* The program's malloc stays in [heap] and what was mapped already. */
void lists_prepare(void);
void lists_take(struct possessions *p);

/* Everything that is there now and was not before is listed, and nothing else is: 0, or the number
 * of faults, each told as a comment. Library mappings and stacks of threads need not be listed. */
int lists_compare_fds(const struct possessions *before, const struct gck_mpi_left_out *owned);
int lists_compare_threads(const struct possessions *before, const struct gck_mpi_left_out *owned);
int lists_compare_ranges(const struct possessions *before, const struct gck_mpi_left_out *owned);

#endif

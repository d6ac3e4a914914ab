/* SPDX-License-Identifier: Apache-2.0
 * What a process has according to the kernel, compared with what the namespace lists for the
 * copy. */
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

/* Keeps the program's malloc in [heap] and existing mappings. */
void lists_prepare(void);
void lists_take(struct possessions *p);

/* Check that exactly the possessions made since `before` are listed. Return the number of faults
 * and print each as a comment. Library mappings and stacks of threads need not be listed. */
int lists_compare_fds(const struct possessions *before, const struct gck_ns_exclusions *owned);
int lists_compare_threads(const struct possessions *before, const struct gck_ns_exclusions *owned);
int lists_compare_ranges(const struct possessions *before, const struct gck_ns_exclusions *owned);

#endif

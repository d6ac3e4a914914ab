/* SPDX-License-Identifier: Apache-2.0
 * A loop over many items on several threads, for work that waits for a server. */
#ifndef GCK_PARALLEL_H
#define GCK_PARALLEL_H

#include <stddef.h>

#include "common/base/error.h"

typedef int gck_parallel_fn(void *arg, size_t i, struct gck_error *err);

/* Call fn for 0 to n - 1, roughly in that order, on at most `threads` threads (the caller's is
 * one of them; fewer threads take longer). The first failure is the result; no call begins after
 * it. */
GCK_MUST_CHECK int gck_parallel(unsigned threads, size_t n, gck_parallel_fn *fn, void *arg,
				struct gck_error *err);

#endif

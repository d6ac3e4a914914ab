/* SPDX-License-Identifier: Apache-2.0
 * The same for each of many things, several at once: what waits for a server each time. */
#ifndef GCK_PARALLEL_H
#define GCK_PARALLEL_H

#include <stddef.h>

#include "common/base/error.h"

typedef int gck_parallel_fn(void *arg, size_t i, struct gck_error *err);

/* Call fn for 0 to n - 1, in about that order, on at most so many threads (the caller's is one of
 * them; with fewer it takes longer). The first failure is the result; nothing is begun after it. */
int gck_parallel(unsigned threads, size_t n, gck_parallel_fn *fn, void *arg, struct gck_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * For tests: work on a store that the test advances by one operation of the backend at a time, so
 * that other things can happen between any two. */
#ifndef GCK_STORE_TEST_STEPWISE_H
#define GCK_STORE_TEST_STEPWISE_H

#include "storage/base/open_store.h"

struct stepwise;

typedef int stepwise_fn(struct gck_store *s, void *arg, struct gck_error *err);

/* Begin work(s, arg, err) on its own store, in a thread; it waits before its first operation. Ends
 * the program on failure. */
struct stepwise *stepwise_begin(const char *url, stepwise_fn *work, void *arg);

/* Let the work do one operation. False: it has ended; take its result. */
bool stepwise_go(struct stepwise *w);

/* Let the work complete. Returns its result, and frees w. */
int stepwise_end(struct stepwise *w, struct gck_error *err);

#endif

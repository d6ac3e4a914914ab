/* SPDX-License-Identifier: Apache-2.0
 * For tests: work on a store that goes on by one operation of its backend at a time, when it is
 * told, so that anything can happen between any two. */
#ifndef GCK_STORE_TEST_STEPWISE_H
#define GCK_STORE_TEST_STEPWISE_H

#include "storage/base/open_store.h"

struct stepwise;

typedef int stepwise_fn(struct gck_store *s, void *arg, struct gck_error *err);

/* Begin work(s, arg, err) on a store of its own, in a thread; it waits before its first operation.
 * Ends the program when that cannot be. */
struct stepwise *stepwise_begin(const char *url, stepwise_fn *work, void *arg);

/* Let it do one operation. False: it is over; take its result. */
bool stepwise_go(struct stepwise *w);

/* Let it do the rest; what work returned. Frees w. */
int stepwise_end(struct stepwise *w, struct gck_error *err);

#endif

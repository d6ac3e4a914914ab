/* SPDX-License-Identifier: Apache-2.0
 * Clocks that go on alike on every node: a time namespace in which CLOCK_MONOTONIC and
 * CLOCK_BOOTTIME read as CLOCK_REALTIME, so that neither jumps when a rank is restored on another
 * node. */
#ifndef GCK_SPANK_CLOCK_H
#define GCK_SPANK_CLOCK_H

#include <stdint.h>

#include "common/base/error.h"

/* Nanoseconds to add to the clocks; taken once, so that all tasks of a node read the same. */
struct gck_clock {
	int64_t monotonic, boottime;
};

void gck_clock_measure(struct gck_clock *c);

/* In a task before its exec, as root and with one thread: enter such a namespace. */
int gck_clock_enter(const struct gck_clock *c, struct gck_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * What the plugin does in a task between its fork and its program. Knows nothing of SPANK. */
#ifndef GCK_SPANK_TASK_H
#define GCK_SPANK_TASK_H

#include <stdint.h>

#include "common/base/error.h"

/* Clocks that continue alike on every node: a time namespace in which CLOCK_MONOTONIC and
 * CLOCK_BOOTTIME read as CLOCK_REALTIME, so that neither jumps when a rank is restored on another
 * node. Nanoseconds to add to the clocks; measured once, so that all tasks of a node read the
 * same. */
struct gck_clock {
	int64_t monotonic, boottime;
};

void gck_clock_measure(struct gck_clock *c);

/* Enter such a namespace, as root and with one thread. */
GCK_MUST_CHECK int gck_clock_enter(const struct gck_clock *c, struct gck_error *err);

/* Set FD_CLOEXEC on sockets that listen: they are slurmstepd's own (that of its PMIx plugin lacks
 * the flag). An image cannot carry them, and the program does not use them. */
void gck_task_close_listeners(void);

#endif

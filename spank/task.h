/* SPDX-License-Identifier: Apache-2.0
 * What the plugin does in a task between its fork and its exec. Independent of SPANK. */
#ifndef GCK_SPANK_TASK_H
#define GCK_SPANK_TASK_H

#include <stdint.h>

#include "common/base/error.h"

/* Clocks that continue on every node: in a time namespace CLOCK_MONOTONIC and CLOCK_BOOTTIME read
 * as CLOCK_REALTIME, so that neither jumps when a rank is restored on another node. The members are
 * nanoseconds to add to the clocks. They are measured once, so that all tasks of a node read the
 * same times. */
struct gck_clock {
	int64_t monotonic, boottime;
};

void gck_clock_measure(struct gck_clock *c);

/* Enter such a namespace, as root and with one thread. */
GCK_MUST_CHECK int gck_clock_enter(const struct gck_clock *c, struct gck_error *err);

/* Set FD_CLOEXEC on listening sockets. They are slurmstepd's (its PMIx plugin does not set the
 * flag). The program does not use them, and an image cannot contain them. */
void gck_task_close_listeners(void);

#endif

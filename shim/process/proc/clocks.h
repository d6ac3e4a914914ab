/* SPDX-License-Identifier: Apache-2.0
 * Clocks of another process: it may be in another time namespace. */
#ifndef GCK_CLOCKS_H
#define GCK_CLOCKS_H

#include <stdint.h>

/* CLOCK_MONOTONIC as the process of this /proc directory reads it now. */
int64_t gck_monotonic_of(int proc);

int64_t gck_realtime(void);

#endif

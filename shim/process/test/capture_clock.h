/* SPDX-License-Identifier: Apache-2.0
 * capture_program's work with the clock: its thread is mostly held in the vdso. */
#ifndef GCK_TEST_CAPTURE_CLOCK_H
#define GCK_TEST_CAPTURE_CLOCK_H

/* Begin, with the time in private or in shared memory; end. */
void clock_do(void);
void clock_do_shared(void);
void clock_undo(void);

/* How often another process had written there. */
int clock_stale(void);

#endif

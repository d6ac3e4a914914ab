/* SPDX-License-Identifier: Apache-2.0
 * What capture_program does with the clock: a thread that is held in the vdso, more often than not. */
#ifndef GCK_TEST_CAPTURE_CLOCK_H
#define GCK_TEST_CAPTURE_CLOCK_H

/* Begin, with the time in private or in shared memory; end. */
void clock_do(void);
void clock_do_shared(void);
void clock_undo(void);

/* How often somebody else had written there. */
int clock_stale(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * capture_program's threads in calls from which the kernel returns EINTR after a stop. Each has its
 * call's name. */
#ifndef GCK_TEST_CAPTURE_WAITS_H
#define GCK_TEST_CAPTURE_WAITS_H

void waits_do(void);

/* What they wait for comes. The program ends if a call has been interrupted. */
void waits_undo(void);

#endif

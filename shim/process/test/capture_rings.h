/* SPDX-License-Identifier: Apache-2.0
 * io_urings of capture_program: those that are refused, and one that is used all the time. */
#ifndef GCK_CAPTURE_RINGS_H
#define GCK_CAPTURE_RINGS_H

void ring_do_poll(void);
void ring_do_timeout(void);
void ring_do_open(void);
void ring_do_many(void);
void ring_do_more(void);
void ring_do_disabled(void);
void ring_do_personality(void);
void ring_do_closed(void);
void ring_do_provided(void);
void ring_do_selected(void);
void ring_do_file(void);
void ring_do_twice(void);
void ring_do_wide(void);
void ring_do_eventfd(void);
void ring_do_own_eventfd(void);
void ring_do_number(void);
void ring_do_child(void);
void ring_do_busy(void);

/* Check that a ring still works, and remove it. On failure it prints why. */
void ring_undo(void);

#endif

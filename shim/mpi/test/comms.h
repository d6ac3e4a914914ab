/* SPDX-License-Identifier: Apache-2.0
 * Tests of communicators and collectives (comms.sh). */
#ifndef GCK_TEST_COMMS_H
#define GCK_TEST_COMMS_H

#include "shim/mpi/test/family.h"

/* comms_kinds.c */
void test_dup(void);
void test_split(void);
void test_create(void);
void test_groups(void);
void test_cart(void);
void test_graph(void);
void test_dist_graph(void);
void test_intercomm(void);
void test_hints(void);
void test_freed_pending(void);
void test_forty(void);
/* comms_pending.c */
void test_pending(void);
void test_pending_in_place(void);
void test_pending_neighbours(void);
void test_pending_idup(void);
void test_many_idups(void);
void test_pending_overlapping(void);
void test_complete_in_some(void);
/* comms_persistent.c */
void test_persistent(void);
void test_persistent_pending(void);
void test_persistent_freed(void);
/* comms_free.c */
void test_lost_messages(void);
void test_lost_send(void);
void test_nothing_is_left(void);
void test_disconnected_under_requests(void);
/* comms_behind.c */
void test_root_ahead(void);
void test_overlapping(void);
void test_messages_needed(void);
void test_create_and_free(void);
void test_insignificant(void);

#endif

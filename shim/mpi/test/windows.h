/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GCK_TEST_WINDOWS_H
#define GCK_TEST_WINDOWS_H

#include "shim/mpi/test/family.h"

struct test_win {
	MPI_Win win;
	long v[100]; /* initially -1 */
};

extern int right, left; /* neighbours in a ring */

/* Makes a window of all ranks; frees it. */
void fresh(struct test_win *t);
void done(struct test_win *t);

/* windows_sync.c */
void test_active(void);
void test_active_late(void);
void test_active_nocheck(void);
void test_locks(void);
void test_readers(void);
void test_lock_all(void);
void test_requests(void);
/* windows_kinds.c */
void test_dynamic(void);
void test_allocate(void);
void test_shared(void);
void test_some_ranks(void);
void test_memory(void);

#endif

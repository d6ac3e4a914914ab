/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GCK_TEST_FILES_H
#define GCK_TEST_FILES_H

#include "shim/mpi/test/family.h"

#define N 100

extern char path[512];

/* Opens the test's file in all ranks; closes it. */
MPI_File fresh(int amode);
void done(MPI_File f);

int value(int r, int i); /* the i-th value of rank r */

static inline int count_of(const MPI_Status *s, MPI_Datatype type)
{
	int n = -1;

	MPI_Get_count(s, type, &n);
	return n;
}

/* files_shared.c */
void test_shared(void);
void test_ordered(void);
void test_sequential(void);
void test_requests(void);
void test_split(void);
void test_some_ranks(void);
void test_datarep(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Tests of point-to-point: each family has messages in flight where it calls cycle(). */
#ifndef GCK_TEST_PT2PT_H
#define GCK_TEST_PT2PT_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int rank, size;

/* Makes a checkpoint and restart in place, if the run has them (GPUCKPT_MPI_TEST). Collective. */
void cycle(void);

/* Counts and prints a failed check. */
void check_(bool good, const char *what, const char *file, int line);
#define CHECK(good) check_(good, #good, __FILE__, __LINE__)

/* Contents that identify the sender, the tag and the position. */
static inline unsigned char expected(int from, int tag, int i)
{
	return (unsigned char)(from * 31 + tag * 7 + i * 13 + (i >> 8));
}

void fill(unsigned char *buf, int n, int from, int tag);
bool is_filled(const unsigned char *buf, int n, int from, int tag);

static inline int count_of(const MPI_Status *status, MPI_Datatype type)
{
	int n;

	MPI_Get_count(status, type, &n);
	return n;
}

/* pt2pt_messages.c */
void test_modes(void);
void test_unreceived(void);
void test_any_source(void);
void test_order(void);
void test_self(void);
void test_communicators(void);
void test_sendrecv(void);
void test_proc_null(void);
void test_bsend(void);
/* pt2pt_matched.c */
void test_probe(void);
void test_mprobe(void);
void test_truncation(void);
void test_types(void);
/* pt2pt_requests.c */
void test_persistent(void);
void test_wait_some(void);
void test_in_status(void);
void test_null_requests(void);
void test_cancel(void);
void test_request_free(void);
void test_get_status(void);
void test_general(void);
/* pt2pt_errors.c */
void test_wrong_arguments(void);
void test_tag_too_high(void);
void test_cancel_collective(void);
void test_matched_freed(void);

#endif

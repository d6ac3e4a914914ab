/* SPDX-License-Identifier: Apache-2.0
 * What the programs of windows, files and tools share: families of checks over all ranks, TAP
 * from rank 0, and cycles of checkpoint and restart where a test wants them. */
#ifndef GCK_TEST_FAMILY_H
#define GCK_TEST_FAMILY_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int rank, size;

/* Does each cycle() restart? */
bool restarts(void);

/* A checkpoint and restart in place, if this run is to have them (GPUCKPT_MPI_TEST); with EVERY=n
 * in the environment at each n-th call only. Collective. */
void cycle(void);

/* The same where a checkpoint must be refused, by every rank. */
void no_cycle(void);

/* Is libgpuckpt-mpi.so there, or the plain library? */
bool is_standing_in(void);

/* Counts what is not as it should be, and says so. */
void check_(long long got, long long want, const char *what, const char *file, int line);
#define CHECK(good) check_(!!(good), 1, #good, __FILE__, __LINE__)
#define IS(got, want) check_(got, want, #got, __FILE__, __LINE__)

/* One family; ONLY=name in the environment runs no other. */
void family(const char *name, void (*test)(void));

/* After MPI_Init; and MPI_Finalize. */
void begin(void);
int end(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Shared by the programs for windows, files, tools and communicators: families of checks over all
 * ranks, TAP from rank 0, and cycles of checkpoint and restart at the calls of a test. */
#ifndef GCK_TEST_FAMILY_H
#define GCK_TEST_FAMILY_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int rank, size;

/* True if each cycle() restarts. */
bool restarts(void);

/* Makes a checkpoint and restart in place, if the run has them (GPUCKPT_MPI_TEST); with EVERY=n in
 * the environment only at each n-th call. Collective. */
void cycle(void);

/* The same where every rank must refuse the checkpoint. */
void no_cycle(void);

/* True with libgpuckpt-mpi.so, false with Open MPI alone. */
bool is_standing_in(void);

/* Counts and prints a failed check. */
void check_(long long got, long long want, const char *what, const char *file, int line);
#define CHECK(good) check_(!!(good), 1, #good, __FILE__, __LINE__)
#define IS(got, want) check_(got, want, #got, __FILE__, __LINE__)

/* Runs one family of checks; ONLY=name in the environment skips the others. */
void family(const char *name, void (*test)(void));

/* Called after MPI_Init; end calls MPI_Finalize. */
void begin(void);
int end(void);

#endif

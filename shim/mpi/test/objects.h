/* SPDX-License-Identifier: Apache-2.0
 * One program for MPI's objects that do not depend on others. It prints the results of MPI, so that
 * runs with Open MPI alone and with the stand-in can be compared. */
#ifndef GCK_MPI_TEST_OBJECTS_H
#define GCK_MPI_TEST_OBJECTS_H

#include <mpi.h>

/* Prints a line on rank 0; it must be the same in all runs. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes a checkpoint and restart in place, with the stand-in and GPUCKPT_MPI_TEST. */
void cycle(void);

/* All that MPI reports about a datatype, as text from malloc. */
char *describe(MPI_Datatype type);

int test_types(int argc, char **argv);
int test_trees(int argc, char **argv); /* FIRST-SEED SEEDS */
int test_operations(int argc, char **argv);
int test_info(int argc, char **argv);
int test_errors(int argc, char **argv);
int test_attributes(int argc, char **argv);
int test_handles(int argc, char **argv);
int test_mpi1(int argc, char **argv);
int test_fatal(int argc, char **argv); /* comm|win|file: ends in an error */

#endif

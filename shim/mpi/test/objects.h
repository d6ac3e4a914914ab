/* SPDX-License-Identifier: Apache-2.0
 * One program for all of MPI's objects that hang on nobody else: it says on stdout what MPI tells
 * it, so that runs with the plain library and with the stand-in can be compared. */
#ifndef GCK_MPI_TEST_OBJECTS_H
#define GCK_MPI_TEST_OBJECTS_H

#include <mpi.h>

/* On rank 0: a line that MPI must answer likewise everywhere. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A checkpoint and restart in place, if the stand-in is there and GPUCKPT_MPI_TEST is set. */
void cycle(void);

/* What is to be known about a type, as text: malloc'ed. */
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

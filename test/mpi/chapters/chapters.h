/* SPDX-License-Identifier: Apache-2.0
 * Claims about MPI by chapter: tables of functions that make calls and put() what these gave. The
 * results must not depend on time. Claims work with any number of ranks and leave nothing behind.
 */
#ifndef GCK_TEST_CHAPTERS_H
#define GCK_TEST_CHAPTERS_H

#include "shim/mpi/test/family.h"

struct claim {
	const char *text;
	void (*run)(void);
};

/* Each ends with an empty one. */
extern const struct claim messages[], types[], collectives[], communicators[], topologies[],
	environment[], windows[], external[], files[];

extern int left, right; /* neighbours of this rank in a ring */

/* Adds to the result of the claim that runs. */
void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds the class of an error code, and a list of numbers. */
void put_class(int rc);
void put_ints(int n, const int *v);

/* A moment in which something is pending: a checkpoint may come. */
void pending(void);

/* A name in the program's scratch folder, the same in all ranks. */
const char *scratch(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Key values of attributes. All of it with gck_mpi_attached_lock held, except the callbacks. */
#ifndef GCK_MPI_KEYVAL_H
#define GCK_MPI_KEYVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/mpi/handles/attribute.h"
#include "shim/mpi/handles/handle.h"

/* The first number that a program can get. */
#define GCK_MPI_KEYVALS_PREDEFINED (MPI_WIN_MODEL + 1)

struct gck_mpi_keyval {
	enum gck_mpi_kind of;
	enum gck_mpi_language language;  /* of the callbacks */
	void (*copy)(void), (*delete)(void); /* NULL: of a predefined one */
	intptr_t extra;                  /* the program's extra state: a pointer or an integer */
	int number;
	unsigned references;             /* the program's until it frees it, and attributes' */
	bool freed;
};

/* NULL: there is none of that number, for objects of that kind. */
struct gck_mpi_keyval *gck_mpi_keyval(int number, enum gck_mpi_kind of);

/* Is there one of that number, for any kind? */
bool gck_mpi_keyval_exists(int number);

void gck_mpi_keyval_release(struct gck_mpi_keyval *k);

/* What MPI_Comm_create_keyval and MPI_Comm_free_keyval do, for each language: the lock is not held;
 * they return an MPI error code. */
int gck_mpi_keyval_create(const struct gck_mpi_keyval *like, int *number);
int gck_mpi_keyval_free(enum gck_mpi_kind of, int *number);

/* The program's callbacks; the lock is not held. They return the program's code. in: as it was set.
 * flag, out: what the callback said; out is of the callback's language. */
int gck_mpi_keyval_copy(const struct gck_mpi_keyval *k, void *from, struct gck_mpi_value *in,
			struct gck_mpi_value *out, int *flag);
int gck_mpi_keyval_delete(const struct gck_mpi_keyval *k, void *from, struct gck_mpi_value *in);

/* A value as another language sees it: what C set is a pointer's bits to Fortran, what Fortran set
 * is the integer's address to C. */
struct gck_mpi_value gck_mpi_value_in(struct gck_mpi_value *v, enum gck_mpi_language language);

#endif

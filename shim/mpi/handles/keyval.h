/* SPDX-License-Identifier: Apache-2.0
 * Key values of attributes. Callers hold gck_mpi_attached_lock unless a comment says otherwise. */
#ifndef GCK_MPI_KEYVAL_H
#define GCK_MPI_KEYVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/mpi/handles/attribute.h"
#include "shim/mpi/handles/handle.h"

/* The first number of a program's key value. */
#define GCK_MPI_KEYVALS_PREDEFINED (MPI_WIN_MODEL + 1)

struct gck_mpi_keyval {
	enum gck_mpi_kind of;
	enum gck_mpi_language language;  /* of the callbacks */
	void (*copy)(void), (*delete)(void); /* NULL: predefined */
	intptr_t extra;                  /* the program's extra state: a pointer or an integer */
	int number;
	unsigned references;             /* one until the program frees it, one per attribute */
	bool freed;
};

/* Finds a key value by number and kind of object; NULL: none. */
GCK_MUST_CHECK struct gck_mpi_keyval *gck_mpi_keyval(int number, enum gck_mpi_kind of);

/* True if a key value of any kind has the number. */
bool gck_mpi_keyval_exists(int number);

void gck_mpi_keyval_release(struct gck_mpi_keyval *k);

/* Implement MPI_Comm_create_keyval and MPI_Comm_free_keyval for each language. They take the lock
 * and return an MPI error code. */
GCK_MUST_CHECK int gck_mpi_keyval_create(const struct gck_mpi_keyval *template, int *number);
GCK_MUST_CHECK int gck_mpi_keyval_free(enum gck_mpi_kind of, int *number);

/* Call the program's callbacks and return their code. The lock is not held. in is the value as it
 * was set; flag and out are the callback's results, out in the callback's language. */
GCK_MUST_CHECK int gck_mpi_keyval_copy(const struct gck_mpi_keyval *k, void *from,
				       struct gck_mpi_value *in, struct gck_mpi_value *out,
				       int *flag);
GCK_MUST_CHECK int gck_mpi_keyval_delete(const struct gck_mpi_keyval *k, void *from,
					 struct gck_mpi_value *in);

/* Converts a value to what another language sees: Fortran sees the bits of a pointer that C set, C
 * sees the address of an integer that Fortran set. */
struct gck_mpi_value gck_mpi_value_in(struct gck_mpi_value *v, enum gck_mpi_language language);

#endif

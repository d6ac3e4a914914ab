/* SPDX-License-Identifier: Apache-2.0
 * Attributes of communicators, datatypes and windows. The stand-in implements them without the real
 * library. Callbacks are program code, so these functions are called outside the gate (before
 * gck_mpi_enter or after gck_mpi_leave). */
#ifndef GCK_MPI_ATTRIBUTE_H
#define GCK_MPI_ATTRIBUTE_H

#include "common/base/error.h"
#include "shim/mpi/base/language.h"
#include "shim/mpi/handles/handle.h"

struct gck_mpi_attribute;

/* For MPI_Comm_dup, MPI_Type_dup and the like: runs the copy callbacks of from's attributes, oldest
 * first. After an error the caller frees the new object (its attributes first) and returns the
 * code. */
GCK_MUST_CHECK int gck_mpi_attributes_copy(void *to, const void *from);

/* Runs the delete callbacks, newest first, before an object is freed. After an error the object
 * stays and the MPI call returns the code. MPI_Finalize does this for MPI_COMM_SELF. */
GCK_MUST_CHECK int gck_mpi_attributes_delete(void *handle);

/* An attribute's value as one language sets or sees it. */
struct gck_mpi_value {
	enum gck_mpi_language language;
	union {
		void *pointer;    /* C */
		MPI_Fint integer; /* FORTRAN */
		MPI_Aint aint;    /* FORTRAN_AINT */
	};
};

/* Implement the MPI functions of all languages; return an MPI error code. handle is a valid handle
 * of the stand-in; number is the key value. */
GCK_MUST_CHECK int gck_mpi_attribute_set(void *handle, int number,
					 const struct gck_mpi_value *value);
GCK_MUST_CHECK int gck_mpi_attribute_get(void *handle, int number, enum gck_mpi_language language,
					 struct gck_mpi_value *value, int *flag);

/* Sets a value without calling a callback; predefined attributes are allowed. Returns an MPI error
 * code. */
GCK_MUST_CHECK int gck_mpi_attribute_put(void *handle, int number,
					 const struct gck_mpi_value *value);

#endif

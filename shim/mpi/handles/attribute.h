/* SPDX-License-Identifier: Apache-2.0
 * Attributes of communicators, datatypes and windows: wholly ours. Callbacks are program code:
 * call these outside the gate (before gck_mpi_enter or after gck_mpi_leave). */
#ifndef GCK_MPI_ATTRIBUTE_H
#define GCK_MPI_ATTRIBUTE_H

#include "shim/mpi/base/language.h"
#include "shim/mpi/handles/handle.h"

struct gck_mpi_attribute;

/* MPI_Comm_dup and the like, MPI_Type_dup: runs the copy callbacks of from's attributes, oldest
 * first. On an error the new object is to be freed (its attributes first) and the code returned. */
int gck_mpi_attributes_copy(void *to, const void *from);

/* Before an object is freed: runs the delete callbacks, newest first. An error means that the
 * object stays; its code is what the call returns. Finalize does it for MPI_COMM_SELF. */
int gck_mpi_attributes_delete(void *handle);

/* An attribute's value, as it was set by, or is to be seen by, a language. */
struct gck_mpi_value {
	enum gck_mpi_language language;
	union {
		void *pointer;    /* C */
		MPI_Fint integer; /* FORTRAN */
		MPI_Aint aint;    /* FORTRAN_AINT */
	};
};

/* What the MPI functions of all languages do; they return an MPI error code. handle is a valid one
 * of ours. number: the key value. */
int gck_mpi_attribute_set(void *handle, int number, const struct gck_mpi_value *value);
int gck_mpi_attribute_get(void *handle, int number, enum gck_mpi_language language,
			  struct gck_mpi_value *value, int *flag);

/* Sets a value, of predefined ones too, without calling a callback. */
int gck_mpi_attribute_put(void *handle, int number, const struct gck_mpi_value *value);

#endif

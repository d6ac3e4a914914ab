/* SPDX-License-Identifier: Apache-2.0
 * Attributes of communicators, datatypes and windows: wholly ours. Callbacks are program code:
 * call these outside the gate (before gck_mpi_enter or after gck_mpi_leave). */
#ifndef GCK_MPI_ATTRIBUTE_H
#define GCK_MPI_ATTRIBUTE_H

#include "shim/mpi/base/language.h"
#include "shim/mpi/handles/handle.h"

struct gck_mpi_attribute;

/* MPI_Comm_dup and its kin, MPI_Type_dup: runs the copy callbacks of from's attributes, oldest
 * first. On an error the new object is to be freed (its attributes first) and the code returned. */
int gck_mpi_attributes_copy(void *to, const void *from);

/* Before an object is freed: runs the delete callbacks, newest first. An error means that the
 * object stays; its code is what the call returns. Finalize does it for MPI_COMM_SELF. */
int gck_mpi_attributes_delete(void *handle);

/* The predefined attributes of a window. base is what the program's MPI_WIN_BASE says. */
int gck_mpi_attributes_of_win(void *win, void *base, MPI_Aint size, int disp_unit, int flavor,
			      int model);

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
int gck_mpi_attribute_delete(void *handle, int number);

/* As set, of predefined ones too, and nobody is called. */
int gck_mpi_attribute_put(void *handle, int number, const struct gck_mpi_value *value);

/* MPI_COMM_WORLD's predefined attributes, from the real library, when first they are needed. */
int gck_mpi_attributes_of_world(void);

/* Some calls of the real library (MPI_Intercomm_create, MPI_Comm_create_group) send messages with the
 * tag that they are given, on a communicator of the program's. They are told apart by tags above the
 * program's MPI_TAG_UB, which is half of the real one: sends of the program with such a tag fail.
 * take: asks the real library, right after its MPI_Init; an MPI error. own_tag: the one for a
 * program's tag; one that is wrong stays as it is. */
extern int gck_mpi_tag_ub;
int gck_mpi_tag_ub_take(void);
int gck_mpi_own_tag(int tag);

/* A send with it is refused: a quiesce would leave its message where it is. */
static inline bool gck_mpi_tag_is_own(int tag)
{
	return tag > gck_mpi_tag_ub;
}

#endif

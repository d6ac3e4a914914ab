/* SPDX-License-Identifier: Apache-2.0
 * MPI_T. A restart looks variables up by name in the fresh library; where their numbers differ, the
 * program keeps its old ones. Control variables that the program wrote are written again if that is
 * allowed after MPI_Init; the new step's environment sets the others. Performance variables start
 * again from their initial values. */
#ifndef GCK_MPI_TOOL_H
#define GCK_MPI_TOOL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "shim/mpi/handles/handle.h"

enum gck_mpi_t_list {
	GCK_MPI_T_CVARS,
	GCK_MPI_T_PVARS,
	GCK_MPI_T_CATEGORIES,
	GCK_MPI_T_LISTS
};

/* Translate the program's index to the library's and back, in the gate. NOWHERE: the library no
 * longer has it, and returns an error for this index (a negative one crashes it). -1: unknown to
 * the program. */
#define GCK_MPI_T_NOWHERE INT_MAX
int gck_mpi_t_real_index(enum gck_mpi_t_list list, int index);
int gck_mpi_t_our_index(enum gck_mpi_t_list list, int real);
int gck_mpi_t_count(enum gck_mpi_t_list list, int real_count);

/* Save all names before a restart; find the fresh library's numbers for them after it. */
GCK_MUST_CHECK int gck_mpi_t_names_save(struct gck_error *err);
GCK_MUST_CHECK int gck_mpi_t_names_rebuild(struct gck_error *err);

/* Called by MPI_Finalize before the real one: saves the names, which the library cannot return
 * afterwards. */
GCK_MUST_CHECK int gck_mpi_t_finalizing(struct gck_error *err);

/* Returns our handle for an enumeration that the library returned for a variable; NULL for NULL. */
MPI_T_enum gck_mpi_t_enum_of_real(MPI_T_enum real, enum gck_mpi_t_list list, int index);

/* Returns handle if it is of this kind of MPI_T's, else NULL. */
static inline void *gck_mpi_t_of(const void *handle, enum gck_mpi_kind kind)
{
	return gck_mpi_is(handle, kind) ? (void *)handle : NULL;
}

/* The object that a variable is bound to. */
struct gck_mpi_t_object {
	int bind;   /* MPI_T_BIND_… */
	void *ours; /* the MPI object's handle */
	void *real; /* its real handle, to which the library gets a pointer */
};

/* Sets *o; obj_handle is the program's pointer to a handle. */
void gck_mpi_t_bind(struct gck_mpi_t_object *o, int bind, void *obj_handle);
/* Returns the pointer to the real handle for the library; NULL: bound to nothing. */
void *gck_mpi_t_bound(struct gck_mpi_t_object *o);
/* True if the object has not been freed. */
bool gck_mpi_t_object_lives(const struct gck_mpi_t_object *o);

/* Parts of the participant's rebuild. */
GCK_MUST_CHECK int gck_mpi_t_cvars_rebuild(struct gck_error *err);
GCK_MUST_CHECK int gck_mpi_t_pvars_rebuild(struct gck_error *err);

/* Calls of MPI_T_init_thread less those of MPI_T_finalize; the level requested last. */
extern struct gck_mpi_t_state {
	int inits, level;
} gck_mpi_t_state;

#endif

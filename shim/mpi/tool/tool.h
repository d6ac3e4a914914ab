/* SPDX-License-Identifier: Apache-2.0
 * MPI_T. Variables are known by name: a restart asks the fresh library for them again, and what
 * it numbers otherwise is numbered for the program as before. Control variables that the program
 * wrote are written again where that is allowed after MPI_Init (others are as the new step's
 * environment says); performance variables start anew. */
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

/* The library's index for the program's; NOWHERE: it has no such thing any more, and says so when
 * it is asked (for a negative index it crashes). And back; -1: the program knows no such thing. In
 * the gate. */
#define GCK_MPI_T_NOWHERE INT_MAX
int gck_mpi_t_real_index(enum gck_mpi_t_list list, int index);
int gck_mpi_t_our_index(enum gck_mpi_t_list list, int real);
int gck_mpi_t_count(enum gck_mpi_t_list list, int real_count);

/* Names of all, before a restart; the numbers that the fresh library has for them, after it. */
int gck_mpi_t_names_save(struct gck_error *err);
int gck_mpi_t_names_rebuild(struct gck_error *err);

/* In MPI_Finalize, before the real one: save what cannot be asked for any more after it. */
int gck_mpi_t_finalizing(struct gck_error *err);

/* Ours for an enumeration that the library returned for a variable; NULL stays NULL. */
MPI_T_enum gck_mpi_t_enum_of_real(MPI_T_enum real, enum gck_mpi_t_list list, int index);

/* A handle of one of MPI_T's kinds, or NULL. */
static inline void *gck_mpi_t_of(const void *handle, enum gck_mpi_kind kind)
{
	return gck_mpi_is(handle, kind) ? (void *)handle : NULL;
}

/* What a variable is bound to: bind is MPI_T_BIND_…, obj_handle the program's pointer to a
 * handle. */
struct gck_mpi_t_object {
	int bind;
	void *ours; /* the MPI object */
	void *real; /* its real handle: the library is given a pointer to it */
};

void gck_mpi_t_bind(struct gck_mpi_t_object *o, int bind, void *obj_handle);
/* For the library; NULL: bound to nothing. */
void *gck_mpi_t_bound(struct gck_mpi_t_object *o);
/* Is the object there still? */
bool gck_mpi_t_object_lives(const struct gck_mpi_t_object *o);

/* The parts of tool_part.c. */
int gck_mpi_t_enums_rebuild(struct gck_error *err);
int gck_mpi_t_cvars_rebuild(struct gck_error *err);
int gck_mpi_t_pvars_rebuild(struct gck_error *err);

/* How often MPI_T_init_thread was called, less MPI_T_finalize; the level asked for. */
extern struct gck_mpi_t_state {
	int inits, level;
} gck_mpi_t_state;

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Binding to the real library: its functions go to gck_mpi_real, its predefined objects behind the
 * stand-in's. */
#ifndef GCK_MPI_BIND_H
#define GCK_MPI_BIND_H

#include <stdbool.h>

#include "common/base/error.h"

/* A symbol of the real library and where its address is stored. Lists end with a NULL name. */
struct gck_mpi_slot {
	const char *name;
	void **at;
};

extern const struct gck_mpi_slot gck_mpi_slots[];      /* at: the member of gck_mpi_real */
extern const struct gck_mpi_slot gck_mpi_predefined[]; /* at: the stand-in's object */

/* True if the function is an extension of Open MPI, which a build may lack. */
bool gck_mpi_is_optional(const char *function);

/* Binds to the copy of the library that was loaded last (gck_namespace_symbol finds it). Fails if
 * it is not Open MPI 4.1. */
GCK_MUST_CHECK int gck_mpi_bind(struct gck_error *err);

#endif

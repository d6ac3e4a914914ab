/* SPDX-License-Identifier: Apache-2.0
 * The real library, bound: its functions in gck_mpi_real, its predefined objects behind ours. */
#ifndef GCK_MPI_BIND_H
#define GCK_MPI_BIND_H

#include <stdbool.h>

#include "common/base/error.h"

/* A name in the real library and where its address goes. Lists end with a NULL name. */
struct gck_mpi_slot {
	const char *name;
	void **at;
};

extern const struct gck_mpi_slot gck_mpi_slots[];      /* at: the member of gck_mpi_real */
extern const struct gck_mpi_slot gck_mpi_predefined[]; /* at: our object */

/* Is it one of Open MPI's extensions, which a build may lack? */
bool gck_mpi_is_optional(const char *function);

/* Bind to what gck_mpi_ns_symbol finds now: the copy of the library that was loaded last. */
int gck_mpi_bind(struct gck_error *err);

#endif

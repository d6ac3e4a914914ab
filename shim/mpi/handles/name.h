/* SPDX-License-Identifier: Apache-2.0
 * Names of communicators, datatypes and windows. */
#ifndef GCK_MPI_NAME_H
#define GCK_MPI_NAME_H

#include "common/base/error.h"
#include "shim/mpi/handles/handle.h"

/* What messages call it; never fails. name: MPI_MAX_OBJECT_NAME bytes. Outside the gate. */
void gck_mpi_name_for_people(struct gck_mpi_handle *h, char *name);

/* The name that the program gave to it, or that was saved; NULL: none. */
const char *gck_mpi_name_given(const struct gck_mpi_handle *h);

#endif

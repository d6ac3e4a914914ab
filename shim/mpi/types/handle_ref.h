/* SPDX-License-Identifier: Apache-2.0
 * References by pending operations to datatypes and reductions that the program may free. */
#ifndef GCK_MPI_HANDLE_REF_H
#define GCK_MPI_HANDLE_REF_H

#include <stdbool.h>

#include "common/base/error.h"
#include "shim/mpi/handles/handle.h"

#define GCK_MPI_REF_FREED 0x80000000u /* a bit of refs: the program has freed the handle */

static inline void gck_mpi_handle_ref(struct gck_mpi_handle *h)
{
	__atomic_fetch_add(&h->refs, 1, __ATOMIC_RELAXED);
}

/* True if the program has freed it and this was the last reference; the caller then destroys it. */
GCK_MUST_CHECK static inline bool gck_mpi_handle_unref(struct gck_mpi_handle *h)
{
	return __atomic_sub_fetch(&h->refs, 1, __ATOMIC_ACQ_REL) == GCK_MPI_REF_FREED;
}

/* For the program's free. True: the caller destroys it now. False: the last unref destroys it. */
GCK_MUST_CHECK static inline bool gck_mpi_handle_ref_free(struct gck_mpi_handle *h)
{
	return __atomic_fetch_or(&h->refs, GCK_MPI_REF_FREED, __ATOMIC_ACQ_REL) == 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * References to types and operations by pending operations, while the program may free them. */
#ifndef GCK_MPI_HANDLE_REF_H
#define GCK_MPI_HANDLE_REF_H

#include <stdbool.h>

#include "shim/mpi/handles/handle.h"

#define GCK_MPI_REF_FREED 0x80000000u /* in holds: the program has freed it */

static inline void gck_mpi_handle_ref(struct gck_mpi_handle *h)
{
	__atomic_fetch_add(&h->refs, 1, __ATOMIC_RELAXED);
}

/* True: it was freed and this was the last: the caller gives it back. */
static inline bool gck_mpi_handle_unref(struct gck_mpi_handle *h)
{
	return __atomic_sub_fetch(&h->refs, 1, __ATOMIC_ACQ_REL) == GCK_MPI_REF_FREED;
}

/* The program frees it. False: it is referred to, and goes with the last unref. */
static inline bool gck_mpi_handle_ref_free(struct gck_mpi_handle *h)
{
	return __atomic_fetch_or(&h->refs, GCK_MPI_REF_FREED, __ATOMIC_ACQ_REL) == 0;
}

#endif

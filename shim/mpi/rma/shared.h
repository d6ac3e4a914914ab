/* SPDX-License-Identifier: Apache-2.0
 * Memory that the ranks of a window share (MPI_Win_allocate_shared): ordinary shared memory of the
 * program. The agent has it copied while all ranks of the node are held, and a restart maps it
 * again in all of them at the same addresses, before the real library makes the window again. */
#ifndef GCK_MPI_SHARED_H
#define GCK_MPI_SHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/mpi/rma/rma.h"

struct gck_mpi_segment {
	MPI_Aint offset, size; /* whole pages if apart */
	int disp_unit;
};

struct gck_mpi_shared {
	char *base;                      /* of this rank's mapping */
	size_t size;
	bool apart;                      /* each segment begins on its own page */
	struct gck_mpi_segment *segments; /* [nranks] */
};

/* Maps the shared memory of all ranks, w->size for this rank, and sets w->base. apart: each segment
 * has its own pages, and one without memory no address; ignored for a single rank, as by Open MPI.
 * Collective over w->comm; called in the gate. Returns an MPI error class. After an error too,
 * gck_mpi_shared_free frees it. */
GCK_MUST_CHECK int gck_mpi_shared_make(struct gck_mpi_win *w, bool apart);
void gck_mpi_shared_free(struct gck_mpi_win *w);

#endif

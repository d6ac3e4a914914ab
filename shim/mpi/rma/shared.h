/* SPDX-License-Identifier: Apache-2.0
 * Memory that the ranks of a window share (MPI_Win_allocate_shared). An image holds what a rank
 * has mapped, as memory of its own; after a restart the ranks share it again, at the same
 * addresses. That is for windows that are one rank's alone: where several ranks share one, one may
 * write what another rank's image has already, and the agent refuses the checkpoint (shared.c
 * there). */
#ifndef GCK_MPI_SHARED_H
#define GCK_MPI_SHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/mpi/rma/rma.h"

struct gck_mpi_segment {
	MPI_Aint offset, size;
	int disp_unit;
};

struct gck_mpi_shared {
	char *base;                      /* of the mapping, in this rank */
	size_t size;
	struct gck_mpi_segment *segments; /* [nranks] */
};

/* Collective over w->comm, in the gate: map memory of all, w->size of this rank's. apart: every
 * segment on pages of its own. Sets w->base. An MPI error class. */
int gck_mpi_shared_make(struct gck_mpi_win *w, bool apart);
void gck_mpi_shared_free(struct gck_mpi_win *w);

/* After a restart, collective over w->comm's real communicator: share it again. */
int gck_mpi_shared_rebuild(struct gck_mpi_win *w, struct gck_error *err);

#endif

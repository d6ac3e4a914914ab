/* SPDX-License-Identifier: Apache-2.0
 * Sweeps over all objects of a kind, which any of some calls of the program may make: the next one
 * comes after so many calls that each of them pays for a bounded part of the last one, however many
 * objects there are. */
#ifndef GCK_MPI_SWEEP_H
#define GCK_MPI_SWEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { GCK_MPI_SWEEP_PER_CALL = 128 }; /* looks */

struct gck_mpi_sweep {
	atomic_size_t calls; /* since the last sweep */
	atomic_size_t cost;  /* of the last sweep, in looks at an object */
};

/* Counts a call; true if it is to sweep. */
static inline bool gck_mpi_sweep_due(struct gck_mpi_sweep *s)
{
	return (atomic_fetch_add(&s->calls, 1) + 1) * GCK_MPI_SWEEP_PER_CALL >= s->cost;
}

static inline void gck_mpi_sweep_done(struct gck_mpi_sweep *s, size_t cost)
{
	s->calls = 0;
	s->cost = cost;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * What a file with hand-written bodies of MPI functions begins with. */
#ifndef GCK_MPI_FUNCTION_H
#define GCK_MPI_FUNCTION_H

#include <mpi.h>

#include "shim/mpi/base/gate.h"
#include "shim/mpi/handles/error.h"
#include "shim/mpi/handles/handle.h"
#include "shim/mpi/real.h"

/* GCK_MPI_FUNCTION(Send, (const void *buf, …)) { … } defines PMPI_Send and, weak, MPI_Send. mpi.h
 * declares both, so a body that does not fit fails to compile. The real one: gck_mpi_real.Send. */
#define GCK_MPI_FUNCTION(name, parameters) GCK_MPI_DEFINE_(int, MPI_##name, PMPI_##name, parameters)
#define GCK_MPIX_FUNCTION(name, parameters) \
	GCK_MPI_DEFINE_(int, MPIX_##name, PMPIX_##name, parameters)
/* The same for one that returns something else: GCK_MPI_FUNCTION_OF(double, Wtime, (void)). */
#define GCK_MPI_FUNCTION_OF(type, name, parameters) \
	GCK_MPI_DEFINE_(type, MPI_##name, PMPI_##name, parameters)

#define GCK_MPI_DEFINE_(type, weak_name, name, parameters) \
	extern __typeof__(name) weak_name __attribute__((weak, alias(#name))) GCK_MPI_SHOWN; \
	type name parameters

#endif

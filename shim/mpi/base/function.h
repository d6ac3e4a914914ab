/* SPDX-License-Identifier: Apache-2.0
 * The header that files with hand-written bodies of MPI functions include. */
#ifndef GCK_MPI_FUNCTION_H
#define GCK_MPI_FUNCTION_H

#include <mpi.h>

#include "shim/mpi/base/gate.h"
#include "shim/mpi/handles/error.h"
#include "shim/mpi/handles/handle.h"
#include "shim/mpi/real.h"

/* GCK_MPI_FUNCTION(Send, (const void *buf, …)) { … } defines PMPI_Send and, weak, MPI_Send. mpi.h
 * declares both, so a wrong signature does not compile. gck_mpi_real.Send is the real function. */
#define GCK_MPI_FUNCTION(name, parameters) GCK_MPI_DEFINE_(int, MPI_##name, PMPI_##name, parameters)
#define GCK_MPIX_FUNCTION(name, parameters) \
	GCK_MPI_DEFINE_(int, MPIX_##name, PMPIX_##name, parameters)
/* The same for another return type: GCK_MPI_FUNCTION_OF(double, Wtime, (void)). */
#define GCK_MPI_FUNCTION_OF(type, name, parameters) \
	GCK_MPI_DEFINE_(type, MPI_##name, PMPI_##name, parameters)

#define GCK_MPI_DEFINE_(type, weak_name, name, parameters) \
	extern __typeof__(name) weak_name __attribute__((weak, alias(#name))) GCK_MPI_SHOWN; \
	type name parameters

#endif

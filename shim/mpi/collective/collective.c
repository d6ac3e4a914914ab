/* SPDX-License-Identifier: Apache-2.0
 * Collectives: the rare path of the generated ones. */
#include "config.h"

#include "shim/mpi/collective/collective.h"

#include "shim/mpi/handles/error.h"

int gck_mpi_collective_failed(MPI_Comm comm, int rc, const char *function)
{
	gck_mpi_comm_failed(comm, rc);
	return gck_mpi_error(comm, rc, function);
}

/* SPDX-License-Identifier: Apache-2.0
 * Functions to fill statuses. Calls that complete a single request do not set MPI_ERROR. */
#ifndef GCK_MPI_STATUS_H
#define GCK_MPI_STATUS_H

#include <mpi.h>

static inline void gck_mpi_status_put(MPI_Status *to, const MPI_Status *from)
{
	if (to == MPI_STATUS_IGNORE)
		return;
	to->MPI_SOURCE = from->MPI_SOURCE;
	to->MPI_TAG = from->MPI_TAG;
	to->_cancelled = from->_cancelled;
	to->_ucount = from->_ucount;
}

/* The status of null and inactive requests. */
#define GCK_MPI_STATUS_EMPTY                                                                   \
	(MPI_Status)                                                                           \
	{                                                                                      \
		.MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG, .MPI_ERROR = MPI_SUCCESS \
	}

static inline void gck_mpi_status_empty(MPI_Status *to)
{
	gck_mpi_status_put(to, &GCK_MPI_STATUS_EMPTY);
}

#endif

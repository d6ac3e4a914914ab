/* SPDX-License-Identifier: Apache-2.0
 * Memory that MPI gives out is the program's own: in the image as any other, at the same address
 * after a restart, whichever network is under the real library then. */
#include "config.h"

#include <stdlib.h>

#include "shim/mpi/base/function.h"

#define LINE 64 /* of the cache: what a program may hope for */

GCK_MPI_FUNCTION(Alloc_mem, (MPI_Aint size, MPI_Info info, void *baseptr))
{
	(void)info; /* hints only */
	if (size < 0 || !baseptr)
		return gck_mpi_error(NULL, MPI_ERR_ARG, "MPI_Alloc_mem");
	*(void **)baseptr = NULL;
	if (size && posix_memalign(baseptr, LINE, (size_t)size))
		return gck_mpi_error(NULL, MPI_ERR_NO_MEM, "MPI_Alloc_mem");
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Free_mem, (void *base))
{
	free(base);
	return MPI_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0
 * MPI_Alloc_mem, MPI_Win_attach and their opposites. Memory from MPI is ordinary memory of the
 * program: it is in the image and has the same address after a restart, whichever network the real
 * library uses then. */
#include "config.h"

#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/rma/rma.h"

#define CACHE_LINE 64 /* the alignment that programs may expect */

GCK_MPI_FUNCTION(Alloc_mem, (MPI_Aint size, MPI_Info info, void *baseptr))
{
	(void)info; /* hints only */
	if (size < 0 || !baseptr)
		return gck_mpi_error(NULL, MPI_ERR_ARG, "MPI_Alloc_mem");
	*(void **)baseptr = NULL;
	if (size && posix_memalign(baseptr, CACHE_LINE, (size_t)size))
		return gck_mpi_error(NULL, MPI_ERR_NO_MEM, "MPI_Alloc_mem");
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Free_mem, (void *base))
{
	free(base);
	return MPI_SUCCESS;
}

static int attach(struct gck_mpi_win *w, void *base, MPI_Aint size)
{
	struct gck_mpi_region *r;
	int rc;

	if (w->flavor != MPI_WIN_FLAVOR_DYNAMIC)
		return MPI_ERR_RMA_FLAVOR;
	r = malloc(sizeof(*r));
	if (!r)
		return MPI_ERR_NO_MEM;
	*r = (struct gck_mpi_region){base, size, NULL};
	gck_mpi_enter_as("MPI_Win_attach");
	rc = gck_mpi_real.Win_attach(GCK_MPI_REAL_WIN(w), base, size);
	if (rc) {
		free(r);
	} else {
		r->next = w->regions;
		w->regions = r;
	}
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(Win_attach, (MPI_Win win, void *base, MPI_Aint size))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? attach(w, base, size) : MPI_ERR_WIN, "MPI_Win_attach");
}

static int detach(struct gck_mpi_win *w, const void *base)
{
	int rc;

	if (w->flavor != MPI_WIN_FLAVOR_DYNAMIC)
		return MPI_ERR_RMA_FLAVOR;
	gck_mpi_enter_as("MPI_Win_detach");
	rc = gck_mpi_real.Win_detach(GCK_MPI_REAL_WIN(w), base);
	for (struct gck_mpi_region **at = &w->regions; !rc && *at; at = &(*at)->next)
		if ((*at)->base == base) {
			struct gck_mpi_region *region = *at;

			*at = region->next;
			free(region);
			break;
		}
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(Win_detach, (MPI_Win win, const void *base))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? detach(w, base) : MPI_ERR_WIN, "MPI_Win_detach");
}

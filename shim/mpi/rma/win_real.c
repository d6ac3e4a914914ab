/* SPDX-License-Identifier: Apache-2.0
 * The real windows behind one of the program's. */
#include "config.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/rma/win.h"

/* Nobody ever takes a lock of it in the real library, so there is nothing to check. */
static int open_for_ever(MPI_Win real)
{
	int rc = gck_mpi_real.Win_set_errhandler(real, gck_mpi_real_of(MPI_ERRORS_RETURN));

	return rc ? rc : gck_mpi_real.Win_lock_all(MPI_MODE_NOCHECK, real);
}

static int make_window(struct gck_mpi_win *w, MPI_Info info, MPI_Win *real)
{
	MPI_Comm comm = GCK_MPI_REAL_COMM(w->comm);
	int rc;

	if (w->flavor == MPI_WIN_FLAVOR_DYNAMIC)
		rc = gck_mpi_real.Win_create_dynamic(info, comm, real);
	else
		rc = gck_mpi_real.Win_create(w->base, w->size, w->disp_unit, info, comm, real);
	if (!rc)
		rc = open_for_ever(*real);
	for (struct gck_mpi_region *r = w->regions; r && !rc; r = r->next)
		rc = gck_mpi_real.Win_attach(*real, r->base, r->size);
	return rc;
}

/* The hints are the program's for its own window: not for this one. */
static int make_locks(struct gck_mpi_win *w, MPI_Win *real)
{
	int rc = gck_mpi_real.Win_create(w->words, sizeof(*w->words), sizeof(w->words->next),
					 gck_mpi_real_of(MPI_INFO_NULL),
					 GCK_MPI_REAL_COMM(w->comm), real);

	if (rc)
		return rc;
	return gck_mpi_real.Win_set_errhandler(*real, gck_mpi_real_of(MPI_ERRORS_RETURN));
}

int gck_mpi_win_make_real(struct gck_mpi_win *w)
{
	MPI_Win real = NULL, locks = NULL;
	int rc = make_window(w, gck_mpi_real_handle(w->info, GCK_MPI_INFO), &real);

	if (!rc && !w->no_locks)
		rc = make_locks(w, &locks);
	if (rc)
		return rc;
	gck_mpi_handle_set_real(&w->h, real);
	w->real_locks = locks;
	return MPI_SUCCESS;
}

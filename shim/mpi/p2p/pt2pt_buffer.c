// SPDX-License-Identifier: Apache-2.0
/* The buffer of MPI_Bsend. The real library keeps messages in it and its records of them elsewhere.
 * In a quiesce all of them arrive, so a restart only needs to attach the buffer again. */
#include "shim/mpi/base/function.h"
#include "shim/mpi/p2p/p2p.h"

static void *attached_buffer;
static int attached_size;

GCK_MPI_FUNCTION(Buffer_attach, (void *buffer, int size))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.Buffer_attach(buffer, size);
	if (!rc) {
		attached_buffer = buffer;
		attached_size = size;
	}
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Buffer_attach");
}

/* The real function waits until the buffer is empty; the receivers' quiesce empties it as well. */
GCK_MPI_FUNCTION(Buffer_detach, (void *buffer, int *size))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.Buffer_detach(buffer, size);
	if (!rc)
		attached_buffer = NULL;
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Buffer_detach");
}

int gck_mpi_buffer_reattach(struct gck_error *err)
{
	if (attached_buffer && gck_mpi_real.Buffer_attach(attached_buffer, attached_size))
		return gck_fail(err, EIO,
				"the buffer of MPI_Bsend (%d bytes at %p) cannot be attached again "
				"after a restart",
				attached_size, attached_buffer);
	return 0;
}

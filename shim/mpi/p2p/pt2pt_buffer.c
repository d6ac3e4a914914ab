// SPDX-License-Identifier: Apache-2.0
/* The buffer of MPI_Bsend. The real library keeps messages in it and its records of them elsewhere.
 * In a quiesce all of them arrive, so a restart only needs to attach the buffer again. */
#include "shim/mpi/base/function.h"
#include "shim/mpi/p2p/p2p.h"

static void *buffer_at;
static int buffer_size;

GCK_MPI_FUNCTION(Buffer_attach, (void *buffer, int size))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.Buffer_attach(buffer, size);
	if (!rc) {
		buffer_at = buffer;
		buffer_size = size;
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
		buffer_at = NULL;
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Buffer_detach");
}

int gck_mpi_buffer_again(struct gck_error *err)
{
	if (buffer_at && gck_mpi_real.Buffer_attach(buffer_at, buffer_size))
		return gck_fail(err, EIO,
				"the buffer of MPI_Bsend (%d bytes at %p) cannot be attached again "
				"after a restart",
				buffer_size, buffer_at);
	return 0;
}

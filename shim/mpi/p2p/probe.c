// SPDX-License-Identifier: Apache-2.0
/* Probes, plain and matched. */
#include "shim/mpi/base/function.h"
#include "shim/mpi/p2p/flushed.h"
#include "shim/mpi/p2p/message.h"
#include "shim/mpi/p2p/status.h"

/* Probes once; flushed messages come first. */
static int probe_once(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	MPI_Status found;
	int rc;

	*flag = gck_mpi_flushed_probe(comm, source, tag, &found);
	if (!*flag) {
		rc = gck_mpi_real.Iprobe(source, tag, GCK_MPI_REAL_COMM(comm), flag, &found);
		if (rc)
			return rc;
	}
	if (*flag)
		gck_mpi_status_put(status, &found);
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status))
{
	int rc;

	if (!flag)
		return gck_mpi_error(comm, MPI_ERR_ARG, "MPI_Iprobe");
	gck_mpi_enter();
	rc = probe_once(source, tag, comm, flag, status);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Iprobe");
}

GCK_MPI_FUNCTION(Probe, (int source, int tag, MPI_Comm comm, MPI_Status *status))
{
	int rc, flag;

	gck_mpi_enter();
	while (!(rc = probe_once(source, tag, comm, &flag, status)) && !flag)
		gck_mpi_park_if_closed();
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Probe");
}

/* The same for a matched probe, which takes the message out of matching. */
static int mprobe_once(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
		       MPI_Status *status)
{
	MPI_Message real = NULL;
	MPI_Status found;
	struct gck_mpi_flushed *d = gck_mpi_flushed_take(comm, source, tag, &found);
	int rc = MPI_SUCCESS;

	*flag = d != NULL;
	if (!d)
		rc = gck_mpi_real.Improbe(source, tag, GCK_MPI_REAL_COMM(comm), flag, &real,
					  &found);
	if (rc || !*flag)
		return rc;
	gck_mpi_status_put(status, &found);
	if (found.MPI_SOURCE == MPI_PROC_NULL)
		*message = MPI_MESSAGE_NO_PROC;
	else
		*message = gck_mpi_message_new(comm, real, d, &found);
	return *message ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

GCK_MPI_FUNCTION(Improbe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
			   MPI_Status *status))
{
	int rc;

	if (!flag || !message)
		return gck_mpi_error(comm, MPI_ERR_ARG, "MPI_Improbe");
	gck_mpi_enter();
	rc = mprobe_once(source, tag, comm, flag, message, status);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Improbe");
}

GCK_MPI_FUNCTION(Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message *message,
			  MPI_Status *status))
{
	int rc, flag;

	if (!message)
		return gck_mpi_error(comm, MPI_ERR_ARG, "MPI_Mprobe");
	gck_mpi_enter();
	while (!(rc = mprobe_once(source, tag, comm, &flag, message, status)) && !flag)
		gck_mpi_park_if_closed();
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Mprobe");
}

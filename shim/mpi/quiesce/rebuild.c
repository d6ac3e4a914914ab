/* SPDX-License-Identifier: Apache-2.0
 * The rebuild of MPI in a restored process. */
#include <stdio.h>

#include "common/base/fault.h"
#include "shim/mpi/handles/bind.h"
#include "shim/mpi/base/gate.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/base/pmix.h"
#include "shim/mpi/base/mpi_thread.h"
#include "shim/mpi/quiesce/quiesce.h"
#include "shim/namespace/namespace.h"

/* Loads a fresh copy of the real library. */
static int load(struct gck_error *err)
{
	if (gck_mpi_ns_load(&gck_mpi_state.left_out, err) || gck_mpi_bind(err))
		return -1;
	gck_mpi_threads_adopt();
	return 0;
}

int gck_mpi_rebuild(bool initialized, struct gck_error *err)
{
	struct gck_error discard_error = {0};

	GCK_FAULT(GCK_FAULT_MPI_RESTORED);
	gck_mpi_pmix_restart();
	if (gck_mpi_ns_discard(&discard_error)) /* the load fails if one copy too many remains */
		fprintf(stderr, "gpuckpt: after a restart: %s\n", discard_error.text);
	if (load(err))
		return -1;
	GCK_FAULT(GCK_FAULT_MPI_LOADED);
	if (initialized && gck_mpi_init_again(err))
		return -1;
	GCK_FAULT(GCK_FAULT_MPI_INITIALIZED);
	if (gck_mpi_participants_rebuild(!initialized, err))
		return -1;
	GCK_FAULT(GCK_FAULT_MPI_REBUILT);
	return 0;
}

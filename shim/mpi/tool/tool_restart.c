/* SPDX-License-Identifier: Apache-2.0
 * MPI_T over a restart. */
#include "config.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/base/mpi_thread.h"
#include "shim/mpi/tool/tool.h"

/* After MPI_Finalize was entered, Open MPI crashes when asked about variables of components that it
 * has unloaded. MPI_Finalize saved the names before. */
static int save(struct gck_error *err)
{
	return gck_mpi_leaving() ? 0 : gck_mpi_t_finalizing(err);
}

int gck_mpi_t_finalizing(struct gck_error *err)
{
	return gck_mpi_t_state.inits > 0 ? gck_mpi_t_names_save(err) : 0;
}

static int rebuild(struct gck_error *err)
{
	int provided;

	for (int i = 0; i < gck_mpi_t_state.inits; i++)
		if (gck_mpi_real.T_init_thread(gck_mpi_t_state.level, &provided))
			return gck_fail(err, EIO, "MPI_T_init_thread failed after a restart");
	if (gck_mpi_t_state.inits <= 0)
		return 0;
	return gck_mpi_t_names_rebuild(err) || gck_mpi_t_enums_rebuild(err) ||
	       gck_mpi_t_cvars_rebuild(err) || gck_mpi_t_pvars_rebuild(err) ? -1 : 0;
}

const struct gck_mpi_participant gck_mpi_tool_participant = {
	.name = "tools", .save = save, .rebuild = rebuild, .uninitialized = true};

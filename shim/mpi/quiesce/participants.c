/* SPDX-License-Identifier: Apache-2.0
 * The lists of participants, and the rebuild of MPI in a restored process. In a rebuild each
 * participant depends on those before it. In a round collectives reach a common point before
 * messages are counted. */
#include <stdio.h>

#include "common/base/fault.h"
#include "shim/mpi/base/gate.h"
#include "shim/mpi/base/library.h"
#include "shim/mpi/base/mpi_thread.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/base/pmix.h"
#include "shim/mpi/handles/bind.h"
#include "shim/mpi/quiesce/quiesce.h"

const struct gck_mpi_participant *const gck_mpi_participants[] = {
	&gck_mpi_info_participant, &gck_mpi_attribute_participant, &gck_mpi_op_participant,
	&gck_mpi_datatype_participant, &gck_mpi_group_participant, &gck_mpi_comm_participant,
	&gck_mpi_win_participant, &gck_mpi_file_participant,
	&gck_mpi_request_participant, &gck_mpi_tool_participant, NULL,
};

const struct gck_mpi_round_ops *const gck_mpi_all_round_ops[] = {
	&gck_mpi_clock_round_ops, &gck_mpi_win_round_ops, &gck_mpi_flush_round_ops, NULL,
};

int gck_mpi_participants_save(bool uninitialized, struct gck_error *err)
{
	for (const struct gck_mpi_participant *const *p = gck_mpi_participants; *p; p++)
		if ((*p)->save && (!uninitialized || (*p)->uninitialized) && (*p)->save(err))
			return gck_fail_in(err, "%s", (*p)->name);
	return 0;
}

void gck_mpi_rounds_end(void)
{
	for (const struct gck_mpi_round_ops *const *o = gck_mpi_all_round_ops; *o; o++)
		if ((*o)->over)
			(*o)->over();
}

void gck_mpi_resume(void)
{
	__atomic_store_n(&gck_mpi_state.closed_for, 0, __ATOMIC_SEQ_CST);
	gck_mpi_rounds_end();
	gck_mpi_gate_open();
}

/* ---- rebuild -------------------------------------------------------------------------------- */

static int participants_rebuild(bool uninitialized, struct gck_error *err)
{
	for (const struct gck_mpi_participant *const *p = gck_mpi_participants; *p; p++)
		if ((*p)->rebuild && (!uninitialized || (*p)->uninitialized) && (*p)->rebuild(err))
			return gck_fail_in(err, "%s", (*p)->name);
	return 0;
}

/* Loads a fresh copy of the real library. */
static int load(struct gck_error *err)
{
	if (gck_namespace_load(&gck_mpi_library, &gck_mpi_state.exclusions, err) ||
	    gck_mpi_bind(err))
		return -1;
	gck_mpi_threads_adopt();
	return 0;
}

int gck_mpi_rebuild(bool initialized, struct gck_error *err)
{
	struct gck_error discard_error = {0};

	GCK_FAULT(GCK_FAULT_MPI_RESTORED);
	gck_mpi_pmix_restart();
	if (gck_namespace_discard(&discard_error)) /* the load fails if one copy too many remains */
		fprintf(stderr, "gpuckpt: after a restart: %s\n", discard_error.text);
	if (load(err))
		return -1;
	GCK_FAULT(GCK_FAULT_MPI_LOADED);
	if (initialized && gck_mpi_init_again(err))
		return -1;
	GCK_FAULT(GCK_FAULT_MPI_INITIALIZED);
	if (participants_rebuild(!initialized, err))
		return -1;
	GCK_FAULT(GCK_FAULT_MPI_REBUILT);
	return 0;
}

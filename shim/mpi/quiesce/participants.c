/* SPDX-License-Identifier: Apache-2.0
 * The lists of participants. In a rebuild each depends on those before it. In a round collectives
 * reach a common point before messages are counted. */
#include "shim/mpi/base/gate.h"
#include "shim/mpi/quiesce/quiesce.h"

const struct gck_mpi_participant *const gck_mpi_participants[] = {
	&gck_mpi_info_participant, &gck_mpi_attribute_participant, &gck_mpi_op_participant,
	&gck_mpi_datatype_participant, &gck_mpi_group_participant, &gck_mpi_comm_participant,
	&gck_mpi_win_participant, &gck_mpi_file_participant,
	&gck_mpi_request_participant, &gck_mpi_tool_participant, NULL,
};

const struct gck_mpi_pending *const gck_mpi_pendings[] = {
	&gck_mpi_clock_pending, &gck_mpi_win_pending, &gck_mpi_flush_pending, NULL,
};

int gck_mpi_participants_save(bool uninitialized, struct gck_error *err)
{
	for (const struct gck_mpi_participant *const *p = gck_mpi_participants; *p; p++)
		if ((*p)->save && (!uninitialized || (*p)->uninitialized) && (*p)->save(err))
			return gck_fail_in(err, "%s", (*p)->name);
	return 0;
}

int gck_mpi_participants_rebuild(bool uninitialized, struct gck_error *err)
{
	for (const struct gck_mpi_participant *const *p = gck_mpi_participants; *p; p++)
		if ((*p)->rebuild && (!uninitialized || (*p)->uninitialized) && (*p)->rebuild(err))
			return gck_fail_in(err, "%s", (*p)->name);
	return 0;
}

void gck_mpi_pendings_over(void)
{
	for (const struct gck_mpi_pending *const *o = gck_mpi_pendings; *o; o++)
		if ((*o)->over)
			(*o)->over();
}

void gck_mpi_resume(void)
{
	__atomic_store_n(&gck_mpi_state.closed_for, 0, __ATOMIC_SEQ_CST);
	gck_mpi_pendings_over();
	gck_mpi_gate_open();
}

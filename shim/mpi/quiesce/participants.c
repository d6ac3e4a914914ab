/* SPDX-License-Identifier: Apache-2.0
 * The parts in their order: of a restart, where each builds on those before it; of a round, where
 * collectives come to a common place before messages are counted. */
#include "shim/mpi/base/gate.h"
#include "shim/mpi/quiesce/quiesce.h"

const struct gck_mpi_part *const gck_mpi_parts[] = {
	&gck_mpi_info_part, &gck_mpi_attribute_part, &gck_mpi_op_part, &gck_mpi_datatype_part,
	&gck_mpi_group_part, &gck_mpi_comm_part, &gck_mpi_win_part, &gck_mpi_file_part,
	&gck_mpi_request_part, &gck_mpi_tool_part, NULL,
};

const struct gck_mpi_owed *const gck_mpi_oweds[] = {
	&gck_mpi_clock_owed, &gck_mpi_win_owed, &gck_mpi_drain_owed, NULL,
};

int gck_mpi_parts_save(bool outside, struct gck_error *err)
{
	for (const struct gck_mpi_part *const *p = gck_mpi_parts; *p; p++)
		if ((*p)->save && (!outside || (*p)->outside) && (*p)->save(err))
			return gck_fail_in(err, "%s", (*p)->name);
	return 0;
}

int gck_mpi_parts_rebuild(bool outside, struct gck_error *err)
{
	for (const struct gck_mpi_part *const *p = gck_mpi_parts; *p; p++)
		if ((*p)->rebuild && (!outside || (*p)->outside) && (*p)->rebuild(err))
			return gck_fail_in(err, "%s", (*p)->name);
	return 0;
}

void gck_mpi_oweds_over(void)
{
	for (const struct gck_mpi_owed *const *o = gck_mpi_oweds; *o; o++)
		if ((*o)->over)
			(*o)->over();
}

void gck_mpi_resume(void)
{
	__atomic_store_n(&gck_mpi_state.closed_for, 0, __ATOMIC_SEQ_CST);
	gck_mpi_oweds_over();
	gck_mpi_gate_open();
}

/* SPDX-License-Identifier: Apache-2.0
 * Weak stand-ins for parts on their way (goes when the last is there). */
#include "shim/mpi/clock.h"
#include "shim/mpi/namespace/namespace.h"
#include "shim/mpi/part.h"

#define WEAK __attribute__((weak))

WEAK const struct gck_mpi_part gck_mpi_group_part = {"group"};
WEAK const struct gck_mpi_part gck_mpi_comm_part = {"comm"};
WEAK const struct gck_mpi_part gck_mpi_win_part = {"win"};
WEAK const struct gck_mpi_part gck_mpi_file_part = {"file"};
WEAK const struct gck_mpi_part gck_mpi_request_part = {"request"};
WEAK const struct gck_mpi_part gck_mpi_tool_part = {"tool"};
WEAK const struct gck_mpi_owed gck_mpi_clock_owed = {"clock"};
WEAK const struct gck_mpi_owed gck_mpi_win_owed = {"win"};
WEAK const struct gck_mpi_owed gck_mpi_drain_owed = {"drain"};

WEAK int gck_mpi_ns_setenv(const char *name, const char *value, struct gck_error *err)
{
	(void)name;
	(void)value;
	(void)err;
	return 0;
}

WEAK int gck_mpi_ns_hold(int ms, struct gck_error *err)
{
	(void)ms;
	(void)err;
	return 0;
}

WEAK void gck_mpi_ns_release(void)
{
}

WEAK int gck_mpi_ns_bury(struct gck_error *err)
{
	return gck_fail(err, ENOSYS, "bury is not there yet");
}

WEAK int gck_mpi_ns_abandon(struct gck_error *err)
{
	return gck_fail(err, ENOSYS, "abandon is not there yet");
}

WEAK void gck_mpi_clock_resume(void)
{
}

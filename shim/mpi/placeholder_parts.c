/* SPDX-License-Identifier: Apache-2.0
 * Weak stand-ins for parts on their way (goes when the last is there). */
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

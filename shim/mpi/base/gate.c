/* SPDX-License-Identifier: Apache-2.0
 * What the gate asks of MPI's stand-in. */
#include "shim/mpi/base/gate.h"

#include <stdio.h>
#include <unistd.h>

#include "shim/mpi/base/bind.h"
#include "shim/namespace/namespace.h"

static void load(void)
{
	struct gck_error err = {0};

	if (gck_mpi_load(&err) == 0)
		return;
	fprintf(stderr, "gpuckpt: MPI: %s\n", err.text);
	_exit(1);
}

static void enter_end(void)
{
	gck_gate_enter("the end of a thread", 0);
}

/* A copy that is dead, or about to be, has no thread end in it. */
void gck_mpi_gate_guard(void)
{
	gck_mpi_ns_guard(enter_end, gck_gate_leave);
}

const struct gck_gate_owner gck_gate_owner = {.admit = load, .admitted = gck_mpi_ns_adopt};

void gck_mpi_threads_adopt(void)
{
	gck_gate_each_thread(gck_mpi_ns_adopt);
}

void gck_mpi_gate_where(char *buf, size_t n)
{
	struct gck_gate_place place = {.function = NULL};
	const char *function = gck_gate_where(&place) ? place.function : "";

	snprintf(buf, n, "%s", function[0] == 'P' ? function + 1 : function);
}

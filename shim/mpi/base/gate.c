/* SPDX-License-Identifier: Apache-2.0
 * The gate in front of the real MPI library. */
#include "shim/mpi/base/gate.h"

#include <stdio.h>

#include "shim/namespace/namespace.h"

static void enter_end(void)
{
	gck_gate_enter("the end of a thread", 0);
}

/* The linker's name of the section; NULL in tests that link no loader. */
extern void (*const __start_gck_mpi_loader[])(void) __attribute__((weak));

static void admit(void)
{
	__start_gck_mpi_loader[0]();
}

const struct gck_gate_owner gck_gate_owner = {.admit = admit, .admitted = gck_namespace_adopt};

/* A thread must not end inside a copy that is dead or dying. */
void gck_mpi_gate_guard(void)
{
	static const struct gck_namespace_guard guard = {
		.enter = enter_end, .leave = gck_gate_leave, .gone = gck_gate_thread_gone,
	};

	gck_namespace_guard_by(&guard);
}

void gck_mpi_threads_adopt(void)
{
	gck_gate_each_thread(gck_namespace_adopt);
}

void gck_mpi_gate_where(char *buf, size_t n)
{
	struct gck_gate_place place = {.function = NULL};
	const char *function = gck_gate_where(&place) ? place.function : "";

	snprintf(buf, n, "%s", function[0] == 'P' ? function + 1 : function);
}

/* SPDX-License-Identifier: Apache-2.0
 * The gate in front of the real MPI library: shim/inside/gate.h under MPI's names. */
#ifndef GCK_MPI_GATE_H
#define GCK_MPI_GATE_H

#include "shim/inside/gate.h"

#define gck_mpi_thread gck_gate_self

/* Enters the gate; the caller's name appears in messages. */
#define gck_mpi_enter() gck_gate_enter(__func__, 0)
#define gck_mpi_enter_as(function) gck_gate_enter(function, 0)
#define gck_mpi_leave gck_gate_leave
#define gck_mpi_may_park gck_gate_may_park
#define gck_mpi_park_if_closed gck_gate_park_if_closed

#define gck_mpi_gate_close gck_gate_close
#define gck_mpi_gate_open gck_gate_open
#define gck_mpi_gate_empty gck_gate_empty
#define gck_mpi_gate_wait_empty gck_gate_wait_empty
#define gck_mpi_gate_waited gck_gate_waited

/* Writes the MPI function that a thread is inside of, for messages; "" if no thread is. */
void gck_mpi_gate_where(char *buf, size_t n);

/* Declares the function that loads the real library when a thread first enters. It returns when the
 * library is loaded and ends the process on failure. The linker finds it. A constructor could not
 * register it in time: constructors of other libraries run earlier and may call MPI. */
#define GCK_MPI_LOADER(function) \
	static void (*const function##_at_first_call)(void) \
		__attribute__((section("gck_mpi_loader"), used)) = function

/* Before a load: makes ending threads pass through the gate. */
void gck_mpi_gate_guard(void);

/* After a load: makes every listed thread known to the copy's libc. */
void gck_mpi_threads_adopt(void);

#endif

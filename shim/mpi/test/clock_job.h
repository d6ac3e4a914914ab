/* SPDX-License-Identifier: Apache-2.0
 * A job of simulated ranks that run a random program, and what the real library would do for them,
 * for test/clock_model.c. */
#ifndef GCK_MPI_TEST_CLOCK_JOB_H
#define GCK_MPI_TEST_CLOCK_JOB_H

#include "shim/mpi/comm/clock_rounds.h"
#include "shim/mpi/test/clock_program.h"

struct rank {
	struct gck_mpi_clocks clocks;
	struct gck_mpi_clock comm[MAX_COMMS];
	bool live[MAX_COMMS], freed[MAX_COMMS]; /* it has a clock; the program is done with it */
	unsigned long goodbye[MAX_COMMS];       /* its number; 0: not said */
	struct gck_mpi_meeting meeting;
	int met[MAX_RANKS];
	int pc, computed;
	bool open, inside;   /* the gate; in a real blocking call */
	unsigned long number[MAX_NONBLOCKING];          /* 0: not started */
	bool done[MAX_NONBLOCKING], seen[MAX_NONBLOCKING]; /* in the real library; told */
	struct gck_mpi_blob blob;
};

extern struct program p;
extern struct rank rank[MAX_RANKS];
extern unsigned goodbyes[MAX_COMMS]; /* members that have said it */

void job_begin(unsigned seed);
bool job_ended(void);
void job_run(int steps);
void job_step(int rank);

/* A rank's end of communicators: begun, noticed. */
void job_sweep(int rank);

/* The MPI threads of ranks that are closed and outside: messages are taken in, collectives tested.
 * */
void job_progress(void);
/* Of one rank: under way, and those of them that are to be finished. */
size_t job_active(int rank);
size_t job_open(int rank);

#endif

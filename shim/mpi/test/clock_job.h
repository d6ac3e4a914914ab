/* SPDX-License-Identifier: Apache-2.0
 * A job of simulated ranks that run a random program, with a simulated real library, for
 * test/clock_model.c. */
#ifndef GCK_MPI_TEST_CLOCK_JOB_H
#define GCK_MPI_TEST_CLOCK_JOB_H

#include "shim/mpi/comm/clock_rounds.h"
#include "shim/mpi/test/clock_program.h"

struct rank {
	struct gck_mpi_clocks clocks;
	struct gck_mpi_clock comm[MAX_COMMS];
	bool live[MAX_COMMS], freed[MAX_COMMS]; /* has a clock; the program has freed it */
	unsigned long goodbye[MAX_COMMS];       /* the number of its goodbye; 0: not started */
	struct gck_mpi_meeting meeting;
	int met[MAX_RANKS];
	int pc, computed;
	bool open, inside;   /* the gate is open; in a real blocking call */
	unsigned long number[MAX_NONBLOCKING];          /* 0: not started */
	bool done[MAX_NONBLOCKING], seen[MAX_NONBLOCKING]; /* in the real library; by the rank */
	struct gck_mpi_blob blob;
};

extern struct program p;
extern struct rank rank[MAX_RANKS];
extern unsigned goodbyes[MAX_COMMS]; /* members that have started it */

void job_begin(unsigned seed);
bool job_ended(void);
void job_run(int steps);
void job_step(int rank);

/* Starts and notices the end of a rank's communicators. */
void job_sweep(int rank);

/* The MPI threads of ranks that are closed and outside: flush messages and test collectives. */
void job_progress(void);
/* A rank's collectives in progress, and those of them that must finish. */
size_t job_active(int rank);
size_t job_open(int rank);

#endif

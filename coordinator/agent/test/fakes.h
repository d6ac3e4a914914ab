/* SPDX-License-Identifier: Apache-2.0
 * An agent without a coordinator, a store and real workers: what it sends is collected, ranks are
 * processes that sleep, and workers do as scripted. Linked instead of upstream.c, store_job.c,
 * event_loop.c, gate.c, worker.c and restorer.c. */
#ifndef AGENT_TEST_FAKES_H
#define AGENT_TEST_FAKES_H

#include "coordinator/agent/base/agent.h"
#include "coordinator/agent/worker/worker.h"

#define FAKE_RANKS 3
#define FAKE_NUMBER 100 /* of each rank's process in images; of its second one: 1 more */

/* FAKE_LATE: fail, but only after a while. FAKE_STUCK: hang, and report the same progress again
 * and again. */
/* PASSING: it fails for a reason that passes. LATE: it fails later than others. */
enum fake_act { FAKE_GOOD, FAKE_FAIL, FAKE_PASSING, FAKE_DIE, FAKE_HANG, FAKE_LATE, FAKE_STUCK };

/* Shared with the workers. */
struct fake_world {
	struct { char phase[16]; enum fake_act act; } script[FAKE_RANKS];
	int writing, most_writing;  /* at a time */
	int uploading, most_uploading, staged; /* an upload waits until all are staged */
	int kept_staged;            /* the commit that the stage was to keep */
	int aborted;                /* workers that were told to leave */
	int discarded, pruned, committed;
	int checks_fail;
	int64_t space, memory;
	int first;
	int held_writes, device_writes; /* instead of writing devices' data, these send a byte */
	bool away;                  /* the coordinator is out of reach */
	unsigned mpi, cuda;         /* workers and restorers find that this many ranks, the first
				     * ones, use MPI or CUDA */
	int64_t device;             /* workers: bytes in each of these ranks' GPUs, */
	int64_t device_free;               /* and free bytes there */
	int64_t managed;            /* of the second rank's: managed memory */
	bool shared;                /* all use one device */
	pid_t filled_for;           /* number of the process that device data was sent to last */
	int64_t chunks;             /* workers: of each image */
	uint64_t areas;             /* workers: that their ranks share, of memory */
	int finished_rank;          /* restorers: this rank had exited; -1: none */
	int builds, filed, runs;
	int too_early;              /* ranks that were let go, or opened the files of others, before
				     * all had their files back */
	char share[16];             /* restorers: these ranks share memory; "": none do */
	bool share_object;          /* it is a set of semaphores */
	uint64_t shared_inode[FAKE_RANKS]; /* which each got; 0: none; of semaphores: one more
				     * than their number */
};

/* In the images of a checkpoint, rank 1 is in its first gck_checkpoint(), rank 2 in its fourth
 * gck_checkpoint_all(). */

extern struct fake_world *fake_world;
extern pid_t fake_second; /* a second process of the first rank's that uses CUDA; 0: none */
extern struct agent *fake_agent;
extern bool fake_opened, fake_holding, fake_ended;
extern int fake_link_peer[FAKE_RANKS];

/* A new agent with FAKE_RANKS ranks that run. */
void fake_begin(void);
void fake_end(void);

/* Make a rank's worker act so in one phase ("prepare", "freeze", ...). */
void fake_script(unsigned rank, const char *phase, enum fake_act act);

/* Ends a rank's process, and reaps it; told: the plugin reports it. */
void fake_rank_ends(unsigned rank, bool told);

/* The coordinator's command: {"op", "seq": 7, ...}. */
void fake_command(const char *op, json_t *more);

/* Runs the loop until a message with this op and phase (NULL: any) was sent since the last call,
 * for a minute or for so many seconds. Returns the message (valid until fake_end), or NULL. */
const json_t *fake_await(const char *op, const char *phase);
const json_t *fake_await_within(const char *op, const char *phase, double seconds);

/* Runs the loop for so long; until every message between the agent and this process is handled. */
void fake_run(double seconds);
void fake_turn(void);

/* Runs the loop until the condition holds; only a failure reaches the limit. */
#define fake_until(is) \
	for (int turns_ = 0; turns_ < 6000 && !(is); turns_++) \
		fake_run(0.01)

unsigned fake_workers(void);

#endif

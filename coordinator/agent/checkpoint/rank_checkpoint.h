/* SPDX-License-Identifier: Apache-2.0
 * One rank of this node in a checkpoint: its worker, and what that has answered. */
#ifndef AGENT_RANK_CHECKPOINT_H
#define AGENT_RANK_CHECKPOINT_H

#include "coordinator/agent/base/agent.h"
#include "coordinator/agent/worker/worker.h"
#include "shim/link.h"
#include "shim/process/gpu/gpu.h"

enum phase { PHASE_PREPARE, PHASE_QUIESCE, PHASE_FREEZE, PHASE_RESUME, PHASE_WRITE, PHASE_COMMIT,
	     PHASES };

extern const char *const phase_names[PHASES];

/* The phase of a name, or PHASES. */
enum phase phase_of(const char *name);

enum gpu_state {
	GPU_RUNS,                /* or has no CUDA */
	GPU_PREPARES,            /* has the order for the drain, and prepares */
	GPU_DRAINS,              /* has the order to drain */
	GPU_DRAINED,
	GPU_RESUMES,             /* has the order to resume */
};

/* A process of a rank that uses CUDA. */
struct gpu_process {
	pid_t number;             /* its pid for a worker of the rank */
	enum gpu_state state;     /* of its CUDA thread */
	json_int_t bytes;         /* on its devices, as of `prepare` */
	uint64_t device_copy_max[GCK_LINK_CUDA_DEVICES]; /* limit of the copies on each device, in
						    * bytes; UINT64_MAX: no other process uses the
						    * device, so what it finds free */
	json_int_t fits_device;   /* estimate of its bytes that fit there */
	struct gck_device_channel_ends device; /* channel for the device copies; -1: they cannot be
						* read */
	bool announced;           /* it has the order for a drain, and not yet one to drain or
				   * resume */
	bool device_copy;         /* its drain left copies on the devices */
	bool sends_device_copy;   /* it has the order to send those to the worker */
};

struct rank_checkpoint {
	struct transaction *t;
	struct task *task;
	struct child *child;      /* its worker; NULL: it has ended */
	struct worker_task work;
	json_t *answer[PHASES];   /* NULL: none yet */
	bool told_freeze, told_write, told_upload;
	json_t *memory;           /* what it may share, as its worker last reported; NULL:
				   * nothing */
	bool told_reserve, reserved; /* memory for its copy */
	bool told_copy, copied;   /* once all ranks of the node are frozen */
	bool staged;              /* its memory is not needed any more */
	bool asked_mpi;           /* its MPI thread has the order to quiesce, and not yet to
				   * resume */
	struct gpu_process *gpus; /* of its processes */
	size_t ngpus;
	uint32_t round;           /* the last that it waited for */
	bool carried;             /* it ended before the freeze: its exit status is its image */
	bool gone;                /* it seems so, and its exit status is awaited */
	bool refused;             /* for now, by its worker's look at it */
	uint64_t done, all;       /* bytes written */
	uint64_t sent, waiting;   /* of those that were staged */
	char *trouble;            /* why the write does not go on; NULL: it does, or the reason
				   * is unknown */
};

void rank_checkpoint_init(struct rank_checkpoint *m, struct transaction *t, struct task *task);

/* Forks the worker, which answers `prepare` first. */
int rank_checkpoint_start(struct rank_checkpoint *m, const json_t *prepare, struct gck_error *err)
	GCK_MUST_CHECK;

void rank_checkpoint_tell(struct rank_checkpoint *m, json_t *body);

/* The worker is not needed any more: it leaves by itself, or (at_once) is killed. */
void rank_checkpoint_dismiss(struct rank_checkpoint *m, bool at_once);

/* Its process's entry; NULL: it has none. With an address that stays valid until the next is
 * added. */
struct gpu_process *rank_checkpoint_gpu(const struct rank_checkpoint *m, pid_t number);

/* The same; an entry that it has not is added. NULL: no memory. */
struct gpu_process *rank_checkpoint_add_gpu(struct rank_checkpoint *m, pid_t number,
					    struct gck_error *err) GCK_MUST_CHECK;

/* Is the rank stopped by its worker? */
bool rank_checkpoint_held(const struct rank_checkpoint *m);

/* Or may it be: is it being stopped, or let go? */
bool rank_checkpoint_may_be_held(const struct rank_checkpoint *m);

/* Has it answered phase p, and the orders that belong to it, or need it not? */
bool rank_checkpoint_answered(const struct rank_checkpoint *m, enum phase p);

/* Is there no process, or one that has ended and was not waited for? */
bool rank_checkpoint_gone(const struct rank_checkpoint *m);

void rank_checkpoint_clear(struct rank_checkpoint *m);

#endif

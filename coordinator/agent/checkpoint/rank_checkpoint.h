/* SPDX-License-Identifier: Apache-2.0
 * One rank of this node in a checkpoint: its worker, and what that has answered. */
#ifndef AGENT_RANK_CHECKPOINT_H
#define AGENT_RANK_CHECKPOINT_H

#include "coordinator/agent/base/agent.h"
#include "coordinator/agent/worker/worker.h"
#include "shim/link.h"
#include "shim/process/gpu/device_channel.h"

enum phase { PHASE_PREPARE, PHASE_QUIESCE, PHASE_FREEZE, PHASE_RESUME, PHASE_WRITE, PHASE_COMMIT, PHASES };

extern const char *const phase_names[PHASES];

/* The phase of a name, or PHASES. */
enum phase phase_of(const char *name);

enum cuda_part {
	CUDA_RUNS,                /* without CUDA, too */
	CUDA_EXPECTS,             /* was told what drain will come, and gets ready */
	CUDA_DRAINS,              /* was asked to drain */
	CUDA_DRAINED,
	CUDA_RESUMES,             /* was told to go on */
};

struct member {
	struct transaction *t;
	struct task *task;
	struct child *child;      /* NULL: its worker has ended */
	struct worker_task work;
	json_t *answer[PHASES];   /* NULL: none yet */
	bool told_freeze, told_write, told_upload;
	bool staged;              /* its memory is needed no more */
	bool asked_mpi;           /* its MPI thread was asked to quiesce, and not to go on since */
	enum cuda_part cuda;      /* its CUDA thread's part in this */
	uint64_t keep_most[GCK_LINK_CUDA_DEVICES]; /* bytes that may be kept on each of its devices; UINT64_MAX: no
				   * other rank has memory there, what it finds (rooms.h) */
	json_int_t finds_room;    /* how many of its bytes there do so, as far as is known */
	struct gck_device_ends device; /* for what its devices keep; -1: nothing can be read of them */
	bool expects;             /* it was told so, and neither to drain nor to go on since */
	bool keeps;               /* its drain has left something there */
	bool brings;              /* it was told to bring that to its worker */
	uint32_t round;           /* that it waits for, or waited for last */
	bool carried;             /* the rank ended before it was frozen: its status is its image */
	bool gone;                /* it seems so, and its status is awaited */
	uint64_t done, all;       /* bytes written */
	uint64_t sent, waiting;   /* of those that were staged */
	char *trouble;            /* why the write has not gone on; NULL: it has, or nobody knows */
};

void member_init(struct member *m, struct transaction *t, struct task *task);

/* Fork the worker; its first answer is that to `prepare`. */
int member_start(struct member *m, const json_t *prepare, struct gck_error *err);

void member_tell(struct member *m, json_t *body);

/* Not needed or not wanted any longer: it leaves by itself, or (at_once) is killed. */
void member_dismiss(struct member *m, bool at_once);

/* Is the rank stopped by its worker? */
bool member_held(const struct member *m);

/* Or may it be: is it being stopped, or let go? */
bool member_may_be_held(const struct member *m);

/* Has it given the answer to a phase, or need not? */
bool member_answered(const struct member *m, enum phase p);

/* No process, or one that has ended and was not waited for. */
bool member_rank_gone(const struct member *m);

void member_clear(struct member *m);

#endif

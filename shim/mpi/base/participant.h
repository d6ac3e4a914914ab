/* SPDX-License-Identifier: Apache-2.0
 * The parts of the stand-in that carry state over a restart. All functions run in the MPI thread
 * with the gate closed and no thread inside; each may be NULL. */
#ifndef GCK_MPI_PARTICIPANT_H
#define GCK_MPI_PARTICIPANT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "shim/mpi/base/allgather.h"

/* Reports one obstacle to a checkpoint: object, reason, remedy (borrowed). */
typedef void gck_mpi_obstacle_fn(void *arg, const char *object, const char *reason,
				 const char *remedy);

struct gck_mpi_participant {
	const char *name;
	/* After the quiesce, the real library alive: copy into our memory what only it knows. */
	int (*save)(struct gck_error *err);
	/* After a restart, the fresh library initialised: make every object again and set its
	 * `real`. All ranks make the real library's collective calls in the same order. */
	int (*rebuild)(struct gck_error *err);
	/* Report what cannot be carried now. May run at any time, beside the program's threads. */
	void (*report_obstacles)(gck_mpi_obstacle_fn *report, void *arg);
	bool uninitialized; /* its objects also live before MPI_Init and after MPI_Finalize */
};

extern const struct gck_mpi_participant gck_mpi_info_participant, gck_mpi_attribute_participant,
	gck_mpi_op_participant, gck_mpi_datatype_participant, gck_mpi_group_participant,
	gck_mpi_comm_participant, gck_mpi_win_participant, gck_mpi_file_participant,
	gck_mpi_request_participant, gck_mpi_tool_participant;

/* In the order of rebuilding; NULL at the end. */
extern const struct gck_mpi_participant *const gck_mpi_participants[];

/* The functions of a part in the rounds of a quiesce. In each round put() writes this rank's words
 * and judge() reads those of all ranks. After it, behind() is true if this rank must run on, and
 * settled() if this part sees nothing under way in any rank. Between rounds step() calls the real
 * library to make progress and take messages in, gate closed and no thread inside. */
struct gck_mpi_round_ops {
	const char *name;
	int (*put)(struct gck_mpi_blob *b, struct gck_error *err);
	/* all[r]: this part's words of rank r (n may be 0). Invalid words are an error. */
	int (*judge)(const struct gck_mpi_words *all, size_t nranks, struct gck_error *err);
	bool (*behind)(void);
	bool (*settled)(void);
	int (*step)(struct gck_error *err);
	/* True if step() has nothing left to do here after the last judge() (NULL: unknown). */
	bool (*done)(void);
	/* The quiesce has ended or was called off: discard the judgement. The gate is closed. */
	void (*over)(void);
};

extern const struct gck_mpi_round_ops gck_mpi_clock_round_ops, gck_mpi_win_round_ops,
	gck_mpi_flush_round_ops;
extern const struct gck_mpi_round_ops *const gck_mpi_all_round_ops[];

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The parts of the stand-in that have something to bring over a restart. All functions run in the
 * MPI thread with the gate closed and nobody inside; each may be NULL. */
#ifndef GCK_MPI_PARTICIPANT_H
#define GCK_MPI_PARTICIPANT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "shim/mpi/base/allgather.h"

/* One thing that stands in the way of a checkpoint: object, reason, remedy (borrowed). */
typedef void gck_mpi_obstacle_fn(void *arg, const char *object, const char *reason,
				 const char *remedy);

struct gck_mpi_participant {
	const char *name;
	/* Quiesced, the real library lives: bring into our memory what only it knows. */
	int (*save)(struct gck_error *err);
	/* After a restart, the fresh library is initialised: make every object again and set its
	 * `real`. Calls that are collective in the real library are made in the same order by all. */
	int (*rebuild)(struct gck_error *err);
	/* Name what cannot be carried now. May run at any time, program threads running. */
	void (*able)(gck_mpi_obstacle_fn *tell, void *arg);
	bool outside; /* its objects live before MPI_Init and after MPI_Finalize, too */
};

extern const struct gck_mpi_participant gck_mpi_info_participant, gck_mpi_attribute_participant,
	gck_mpi_op_participant, gck_mpi_datatype_participant, gck_mpi_group_participant,
	gck_mpi_comm_participant, gck_mpi_win_participant, gck_mpi_file_participant,
	gck_mpi_request_participant, gck_mpi_tool_participant;

/* In the order in which they are rebuilt; NULL at the end. */
extern const struct gck_mpi_participant *const gck_mpi_participants[];

/* What takes part in the rounds of a quiesce. put: append this rank's words to its blob; judge: the
 * blobs of all ranks; what is owed is told by behind() (this rank must run on) and settled() (as
 * far as this part sees nothing is under way in any rank). step: with the gate closed and nobody
 * inside, bring things on by calls of the real library (progress, take messages in). */
struct gck_mpi_pending {
	const char *name;
	int (*put)(struct gck_mpi_blob *b, struct gck_error *err);
	/* all[r]: this part's words of rank r (none: n 0). A blob that makes no sense is an error. */
	int (*judge)(const struct gck_mpi_words *all, size_t nranks, struct gck_error *err);
	bool (*behind)(void);
	bool (*settled)(void);
	int (*step)(struct gck_error *err);
	/* Nothing is left for step() in this rank, by what was judged last (NULL: not known). */
	bool (*done)(void);
	/* The quiesce is over, or called off: what was judged counts no more. Before the gate opens. */
	void (*over)(void);
};

extern const struct gck_mpi_pending gck_mpi_clock_pending, gck_mpi_win_pending,
	gck_mpi_flush_pending;
extern const struct gck_mpi_pending *const gck_mpi_pendings[];

#endif

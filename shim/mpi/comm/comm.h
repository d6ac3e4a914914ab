/* SPDX-License-Identifier: Apache-2.0
 * What is known of a communicator besides its handle: at ->body of every MPI_Comm, predefined or
 * made (MPI_COMM_NULL: a dummy, so that a wrong argument reaches the real library, which reports
 * it). */
#ifndef GCK_MPI_COMM_H
#define GCK_MPI_COMM_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/mpi/comm/clock.h"
#include "shim/mpi/handles/handle.h"

struct gck_mpi_topology; /* topology.h */
struct gck_mpi_flushed;
struct gck_mpi_info_snapshot;    /* hints.h */
struct gck_mpi_nonblocking;

/* A communicator that the program has freed lives on, out of its sight, until all its ranks are
 * done with it. */
enum gck_mpi_comm_life {
	GCK_MPI_COMM_ALIVE,
	GCK_MPI_COMM_FREED,   /* requests or messages of this rank may name it yet */
	GCK_MPI_COMM_LEAVING, /* nothing does: this rank says goodbye */
	GCK_MPI_COMM_LEFT,    /* all its ranks have */
};

struct gck_mpi_comm {
	struct gck_mpi_clock clock; /* clock.id: the communicator's, the same in all its ranks */
	int rank, size;
	int remote_size;            /* of an intercommunicator; 0 in others */
	bool inter;
	/* Has one of its own. Open MPI 4.1 tells of its parent's for some that have none. */
	bool with_topology;
	bool dynamic;               /* has processes of other worlds (spawn, connect) */
	enum gck_mpi_comm_life life;
	/* Of a persistent collective's own one: what the real library was told of it first. */
	struct gck_mpi_nonblocking *first;
	/* World ranks; -1: a process of another world. Messages name peers: the remote group's ranks in an
	 * intercommunicator, else the group's. */
	int *local, *peers;         /* size of them; npeers */
	int npeers;                 /* remote_size or size */
	/* Messages of this rank to and from each peer; NULL while npeers is 0. */
	uint64_t *sent, *received;
	MPI_Comm handle;            /* whose body this is */
	struct gck_mpi_flushed *flushed, *flushed_last; /* taken in, not yet received: flushed.h */
	_Atomic unsigned messages;  /* matched ones (MPI_Mprobe) of it that the program holds */
	/* Being made by MPI_Comm_idup: it exists once that collective is finished. */
	const struct gck_mpi_clock *making;
	uint64_t making_number;
	/* between save and rebuild; NULL: none */
	struct gck_mpi_topology *topology; /* from malloc */
	struct gck_mpi_info_snapshot *hints;
};

/* The body, or for what is no communicator of ours the dummy. */
static inline struct gck_mpi_comm *gck_mpi_comm_of(MPI_Comm comm)
{
	extern struct gck_mpi_comm gck_mpi_comm_dummy;
	const struct gck_mpi_handle *h = (const void *)comm;

	if (__builtin_expect(!gck_mpi_is(h, GCK_MPI_COMM) || !h->body, 0))
		return &gck_mpi_comm_dummy;
	return h->body;
}

/* The world rank of a rank as messages name it; -1: of another world, or no process
 * (MPI_PROC_NULL). */
static inline int gck_mpi_comm_world_rank(const struct gck_mpi_comm *c, int rank)
{
	return rank < 0 || rank >= c->npeers ? -1 : c->peers[rank];
}

/* After the real MPI_Init, inside the gate: bodies of MPI_COMM_WORLD and _SELF. */
int gck_mpi_comm_init(struct gck_error *err);

/* A new communicator is made by a collective call on another: begin enters the gate, thinks of its
 * id and ticks; then comes the real call, which writes to birth.real; end makes the handle, leaves,
 * and gives what the function returns. newcomm NULL: the real library has been told so. */
struct gck_mpi_birth {
	MPI_Comm parent, real;
	uint64_t seed;      /* the same in all ranks of the call, and no other call's */
	/* set after begin */
	bool with_topology;
	bool apart;         /* the seed is that of some ranks only: they agree on one in the new one */
	bool unborn;        /* its clock begins later */
};

#define gck_mpi_comm_begin(b, parent) gck_mpi_comm_begin_as(b, parent, __func__)
void gck_mpi_comm_begin_as(struct gck_mpi_birth *b, MPI_Comm parent, const char *function);
int gck_mpi_comm_end(const struct gck_mpi_birth *b, int rc, MPI_Comm *newcomm,
		     const char *function);

/* The same in two halves: the handle (which inherits the parent's error handler; a real null handle
 * gives MPI_COMM_NULL), with the ranks of `like` or, NULL, asked of the real library. An MPI error
 * code; the real one is freed if there is one. */
int gck_mpi_comm_made(const struct gck_mpi_birth *b, const struct gck_mpi_comm *like,
		      MPI_Comm *newcomm);

/* A collective call failed: if for its arguments, this rank was not in it. */
void gck_mpi_comm_failed(MPI_Comm comm, int rc);

/* World ranks of n members of a real group, which is freed; -1 for those of another world. NULL: no
 * memory, or the real library does not tell. *other: one is of another world. */
int *gck_mpi_comm_ranks(MPI_Group real, int n, bool *other);

/* Fill in who is in it: as the real one tells, or as another of the same ranks has it. A hash of
 * them, the same from both sides of an intercommunicator. */
int gck_mpi_comm_ask(struct gck_mpi_comm *c, MPI_Comm real);
int gck_mpi_comm_copy(struct gck_mpi_comm *c, const struct gck_mpi_comm *like);
uint64_t gck_mpi_comm_members(const struct gck_mpi_comm *c);

/* Frees what is ours of one that has left; its flushed messages are freed before. */
void gck_mpi_comm_forget(struct gck_mpi_comm *c);

/* The real communicator gets MPI_ERRORS_RETURN. */
int gck_mpi_comm_quiet(MPI_Comm real);

#endif

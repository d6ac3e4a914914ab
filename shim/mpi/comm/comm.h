/* SPDX-License-Identifier: Apache-2.0
 * The state of a communicator: ->body of every MPI_Comm, predefined or made. MPI_COMM_NULL has a
 * dummy, so that a wrong argument reaches the real library, which reports it. */
#ifndef GCK_MPI_COMM_H
#define GCK_MPI_COMM_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/mpi/comm/clock.h"
#include "shim/mpi/handles/handle.h"

struct gck_mpi_topology;
struct gck_mpi_flushed;
struct gck_mpi_info_snapshot;
struct gck_mpi_nonblocking;
struct gck_mpi_request;

/* A communicator that the program has freed lives on, invisible to it, until all its ranks are done
 * with it. */
enum gck_mpi_comm_life {
	GCK_MPI_COMM_ALIVE,
	GCK_MPI_COMM_FREED,   /* requests or messages of this rank may still use it */
	GCK_MPI_COMM_LEAVING, /* unused: this rank has started the goodbye */
	GCK_MPI_COMM_LEFT,    /* all its ranks have */
};

struct gck_mpi_comm {
	struct gck_mpi_clock clock; /* clock.id: the communicator's, the same in all its ranks */
	int rank, size;
	int remote_size;            /* of an intercommunicator; else 0 */
	bool inter;
	/* Has its own topology. Open MPI 4.1 reports the parent's for some that have none. */
	bool with_topology;
	bool dynamic;               /* has processes of other worlds (spawn, connect) */
	enum gck_mpi_comm_life life;
	/* A persistent collective on it that this rank has freed and other ranks may still have: a
	 * restart makes it again. */
	struct gck_mpi_nonblocking *first;
	/* World ranks; -1: a process of another world. Messages name peers: the ranks of the remote
	 * group in an intercommunicator, else of the group. */
	int *local, *peers;         /* of size and npeers elements */
	int npeers;                 /* remote_size or size */
	/* Messages of this rank to and from each peer; NULL while npeers is 0. */
	uint64_t *sent, *received;
	MPI_Comm handle;            /* the handle that has this body */
	struct gck_mpi_flushed *flushed, *flushed_last; /* flushed, not yet received: flushed.h */
	_Atomic unsigned messages;  /* matched messages (MPI_Mprobe) that the program holds */
	/* The exclusive collective (collective/issue.h), and those that wait for it. */
	struct gck_mpi_request *exclusive, *postponed, *postponed_last;
	/* MPI_Comm_idup: the collective that makes it; it exists when that is finished. */
	const struct gck_mpi_clock *making;
	uint64_t making_number;
	/* Between save and rebuild; NULL: none. From malloc. */
	struct gck_mpi_topology *topology;
	struct gck_mpi_info_snapshot *hints;
};

/* The body of a communicator; the dummy for an invalid handle. */
static inline struct gck_mpi_comm *gck_mpi_comm_of(MPI_Comm comm)
{
	extern struct gck_mpi_comm gck_mpi_comm_dummy;
	const struct gck_mpi_handle *h = (const void *)comm;

	if (__builtin_expect(!gck_mpi_is(h, GCK_MPI_COMM) || !h->body, 0))
		return &gck_mpi_comm_dummy;
	return h->body;
}

/* The world rank of a peer; -1: a process of another world, or none (MPI_PROC_NULL). */
static inline int gck_mpi_comm_world_rank(const struct gck_mpi_comm *c, int rank)
{
	return rank < 0 || rank >= c->npeers ? -1 : c->peers[rank];
}

/* Makes the bodies of MPI_COMM_WORLD and MPI_COMM_SELF. Called in the gate after the real
 * MPI_Init. */
GCK_MUST_CHECK int gck_mpi_comm_init(struct gck_error *err);

/* A collective call on one communicator makes another. gck_mpi_comm_begin (collective.h) enters the
 * gate, chooses the id and ticks. Then the caller makes the real call, which writes birth.real.
 * gck_mpi_comm_end makes the handle, leaves the gate and returns the MPI function's result. A
 * newcomm of NULL has been passed to the real library, which failed. */
struct gck_mpi_birth {
	MPI_Comm parent, real; /* real: NULL until the real library has made it */
	uint64_t seed;      /* the same in all ranks of the call, and no other call's */
	/* set by the caller after begin */
	bool with_topology;
	bool apart;         /* ranks have different seeds and agree on one over the new one */
	bool unborn;        /* its clock is added later */
};

GCK_MUST_CHECK int gck_mpi_comm_end(const struct gck_mpi_birth *b, int rc, MPI_Comm *newcomm,
				    const char *function);

/* The part of gck_mpi_comm_end that makes the handle; it inherits the parent's error handler. A
 * real null handle gives MPI_COMM_NULL. The ranks come from `like`, or from the real library if
 * that is NULL. Returns an MPI error code; after an error the real communicator is freed. */
GCK_MUST_CHECK int gck_mpi_comm_made(const struct gck_mpi_birth *b,
				     const struct gck_mpi_comm *like, MPI_Comm *newcomm);

/* Takes back the tick of a collective call that failed for its arguments. */
void gck_mpi_comm_failed(MPI_Comm comm, int rc);

/* The world ranks of the n members of a real group; -1 for a process of another world, which also
 * sets *other. Frees the group. NULL: no memory, or an error of the real library. */
GCK_MUST_CHECK int *gck_mpi_comm_ranks(MPI_Group real, int n, bool *other);

/* Fill in the ranks from the real communicator, or from another with the same ranks; return an MPI
 * error code. gck_mpi_comm_members is a hash of the ranks, the same from both sides of an
 * intercommunicator. */
GCK_MUST_CHECK int gck_mpi_comm_ask(struct gck_mpi_comm *c, MPI_Comm real);
GCK_MUST_CHECK int gck_mpi_comm_copy(struct gck_mpi_comm *c, const struct gck_mpi_comm *like);
uint64_t gck_mpi_comm_members(const struct gck_mpi_comm *c);

/* Frees the body and handle of a communicator that has left. Its flushed messages are freed
 * before. */
void gck_mpi_comm_forget(struct gck_mpi_comm *c);

/* Sets MPI_ERRORS_RETURN on a real communicator. Returns an MPI error code. */
GCK_MUST_CHECK int gck_mpi_comm_quiet(MPI_Comm real);

#endif

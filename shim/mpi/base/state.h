/* SPDX-License-Identifier: Apache-2.0
 * The state of a rank's MPI part for its agent and the capture. It is in the rank's memory; they
 * read it by process_vm_readv while the rank is held. Part of every image. */
#ifndef GCK_MPI_STATE_H
#define GCK_MPI_STATE_H

#include <stdint.h>

#include "shim/namespace/state.h"

#define GCK_MPI_STATE_MAGIC 0x0069706d006b6367ull
#define GCK_MPI_STATE_VERSION 1

struct gck_mpi_state {
	uint64_t magic;
	uint32_t version, size;
	uint64_t closed_for;        /* the checkpoint for which the gate is closed; 0: open */
	struct gck_ns_exclusions exclusions;
	int32_t link_fd;            /* the MPI thread's socket to the agent, also left out */
	int32_t tid;                /* the MPI thread (in the image) */
};

#endif

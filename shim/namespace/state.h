/* SPDX-License-Identifier: Apache-2.0
 * The state of a rank's MPI part for its agent and the capture. It is in the rank's memory; they
 * read it by process_vm_readv while the rank is held. Part of every image. */
#ifndef GCK_MPI_STATE_H
#define GCK_MPI_STATE_H

#include <stdint.h>

#define GCK_MPI_STATE_MAGIC 0x0069706d006b6367ull
#define GCK_MPI_STATE_VERSION 1

struct gck_ns_range {
	uint64_t start, length; /* bytes, whole pages */
};

/* What the real library owns, which the image leaves out. The arrays are in the rank's memory. */
struct gck_ns_exclusions {
	uint64_t ranges, nranges;   /* struct gck_ns_range[] */
	uint64_t fds, nfds;         /* int32_t[] */
	uint64_t threads, nthreads; /* int32_t[], the kernel's TIDs */
	/* struct gck_ns_range[], while MPI is quiesced: file mappings of which the image needs
	 * only the changed pages; the others may be zero after a restart */
	uint64_t changes_only, nchanges_only;
};

struct gck_mpi_state {
	uint64_t magic;
	uint32_t version, size;
	uint64_t closed_for;        /* the checkpoint for which the gate is closed; 0: open */
	struct gck_ns_exclusions exclusions;
	int32_t link_fd;            /* the MPI thread's socket to the agent, also left out */
	int32_t tid;                /* the MPI thread (in the image) */
};

#endif

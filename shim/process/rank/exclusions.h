/* SPDX-License-Identifier: Apache-2.0
 * What of a rank stays out of its image because the real MPI library owns it: threads, descriptors
 * and ranges of memory, as the rank's stand-in for MPI lists them (shim/namespace/state.h); and
 * its CUDA part's link (shim/cuda/base/state.h). Read from the rank, so checked as data from
 * outside: a rank that lies harms only its own image. */
#ifndef GCK_EXCLUSIONS_H
#define GCK_EXCLUSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "shim/process/gpu/gpu.h"
#include "shim/process/proc/maps.h"
#include "shim/process/proc/pages.h"

struct gck_exclusions {
	uint64_t closed_for;     /* the checkpoint that MPI is quiesced for; 0: it is not */
	uint64_t drained_for;    /* the one that its GPU is drained for; 0: it is not */
	int32_t link_fd;         /* the MPI thread's link; -1 */
	int32_t cuda_fds[5];     /* the CUDA thread's link, what keeps its memory, what that is read by */
	size_t ncuda_fds;
	bool cuda;               /* its GPU can be drained */
	uint64_t device_bytes;   /* which are in its memory then, or kept on the device */
	struct gck_device_memory devices[GCK_LINK_CUDA_DEVICES]; /* of these, by device */
	size_t ndevices;
	struct gck_ranges ranges; /* by address, apart from each other */
	struct gck_ranges hollow; /* the same: of file mappings in there only changed pages are needed */
	int32_t *fds;
	size_t nfds;
	int32_t *threads;
	size_t nthreads;
};

/* Read it from process pid, where a struct gck_mpi_state lies at mpi and a struct gck_cuda_state at
 * cuda (0: the process has none of that). What it held before is freed. */
int gck_exclusions_read(struct gck_exclusions *l, pid_t pid, uint64_t mpi, uint64_t cuda,
		      struct gck_error *err);
void gck_exclusions_free(struct gck_exclusions *l);

bool gck_exclusions_fd(const struct gck_exclusions *l, int fd);

/* Whether path is a device of the GPU's driver that a drain will close. Without CUDA, or once the
 * GPU is drained, it is a device like any other. */
bool gck_exclusions_device(const struct gck_exclusions *l, const char *path);
bool gck_exclusions_thread(const struct gck_exclusions *l, pid_t tid);

/* Whether all these bytes are excluded. */
bool gck_exclusions_range(const struct gck_exclusions *l, uint64_t start, uint64_t end);

/* Whether all these bytes are of a file mapping of which only changed pages are needed. */
bool gck_exclusions_hollow(const struct gck_exclusions *l, uint64_t start, uint64_t end);

/* Cut the excluded ranges out of a list of mappings. */
int gck_exclusions_cut(const struct gck_exclusions *l, struct gck_maps *m, struct gck_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * What an image leaves out because the real MPI library owns it, and the CUDA driver's with
 * cuda=replay: threads, descriptors and memory ranges, which the rank's stand-ins list
 * (shim/namespace/state.h); and the links of its CUDA part (shim/cuda/base/state.h). Read from the
 * rank, so checked as data from outside: a rank that lies harms only its own image. */
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
	uint64_t closed_for;     /* the checkpoint for which MPI is quiesced; 0: none */
	uint64_t drained_for;    /* the checkpoint for which its GPU is drained; 0: none */
	int32_t link_fd;         /* the MPI thread's link; -1: none */
	int32_t cuda_fds[5];     /* the CUDA thread's link, its fd vault, the device data's link */
	size_t ncuda_fds;
	struct gck_gpu_data gpu; /* with a pid: it uses CUDA and its GPU can be drained */
	int32_t cuda_pid;        /* the process that has begun to use CUDA: in a child just forked,
				  * its parent; 0: none */
	bool left_gpu;           /* it was forked from such a process, and uses none */
	struct gck_ranges ranges; /* by address, not adjacent */
	struct gck_ranges changes_only; /* the same: file mappings of which only changed pages are
				   * needed */
	int32_t *fds;
	size_t nfds;
	int32_t *threads;
	size_t nthreads;
};

/* Read them from process pid. mpi and cuda: addresses of its struct gck_mpi_state and struct
 * gck_cuda_state; 0: it has none. Frees what *l held before. */
int gck_exclusions_read(struct gck_exclusions *l, pid_t pid, uint64_t mpi, uint64_t cuda,
		      struct gck_error *err) GCK_MUST_CHECK;
void gck_exclusions_free(struct gck_exclusions *l);

bool gck_exclusions_fd(const struct gck_exclusions *l, int fd);

/* Whether path is a device of the GPU's driver. */
bool gck_is_gpu(const char *path);

/* Whether path is a device of the GPU's driver that a drain will close. Without CUDA, or once the
 * GPU is drained, it is an ordinary device. */
bool gck_exclusions_device(const struct gck_exclusions *l, const char *path);

/* Whether path is a device of the GPU's driver that the process has only from its parent. */
bool gck_exclusions_parents_device(const struct gck_exclusions *l, const char *path);
bool gck_exclusions_thread(const struct gck_exclusions *l, pid_t tid);

/* Whether all these bytes are excluded. */
bool gck_exclusions_range(const struct gck_exclusions *l, uint64_t start, uint64_t end);

/* Whether all these bytes belong to a file mapping of which only changed pages are needed. */
bool gck_exclusions_changes_only(const struct gck_exclusions *l, uint64_t start, uint64_t end);

/* Cut the excluded ranges out of a list of mappings. */
int gck_exclusions_cut(const struct gck_exclusions *l, struct gck_maps *m,
		       struct gck_error *err) GCK_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 * What the rank's CUDA part tells its agent and the capture: in the rank's memory, read from outside
 * while the rank is held. Part of every image. */
#ifndef GCK_CUDA_STATE_H
#define GCK_CUDA_STATE_H

#include <stdint.h>

#define GCK_CUDA_STATE_MAGIC 0x616475636b6367ull
#define GCK_CUDA_STATE_VERSION 2

struct gck_cuda_state {
	uint64_t magic;
	uint32_t version, size;
	uint64_t drained_for;    /* the checkpoint that the process is drained for: the driver holds
				  * no GPU, and an image can be taken; 0: none can */
	int32_t link_fd;         /* the CUDA thread's socket to the agent: left out of the image */
	int32_t tid;             /* the CUDA thread's (in the image) */
	int32_t kept_fd[2];      /* the socketpair that keeps slabs (keep.c): left out, too; -1 */
	uint64_t device_bytes;   /* of slabs: so much host memory a drain needs at most, and an image */
};

#endif

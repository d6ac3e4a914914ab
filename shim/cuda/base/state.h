/* SPDX-License-Identifier: Apache-2.0
 * What the rank's CUDA part tells its agent and the capture: in the rank's memory, read from outside
 * while the rank is held. Part of every image. */
#ifndef GCK_CUDA_STATE_H
#define GCK_CUDA_STATE_H

#include <stdint.h>

#include "shim/link.h"

#define GCK_CUDA_STATE_MAGIC 0x616475636b6367ull
#define GCK_CUDA_STATE_VERSION 6
#define GCK_CUDA_DEVICES_MAX GCK_LINK_CUDA_DEVICES /* no more than bits in a uint64_t */

/* What a process sees of devices, in its order. */
struct gck_cuda_devices {
	uint32_t n;              /* 0: not known */
	uint32_t all;            /* of the machine: behind the first n those that the process does not see, without
				  * a name. The driver's restore wants a new one for each of them */
	char driver[32];         /* version of the kernel's part */
	struct gck_cuda_device {
		unsigned char uuid[16];
		char name[64];
	} v[GCK_CUDA_DEVICES_MAX];
};

/* A device's memory, as far as this process knows. */
struct gck_cuda_memory {
	uint64_t bytes;          /* of slabs */
	uint64_t free_bytes;           /* free when a slab last came or went, for copies */
};

struct gck_cuda_state {
	uint64_t magic;
	uint32_t version, size;
	uint64_t drained_for;    /* the checkpoint that the process is drained for: the driver holds
				  * no GPU, and an image can be taken; 0: none can */
	int32_t link_fd;         /* the CUDA thread's socket to the agent: left out of the image */
	int32_t tid;             /* the CUDA thread's (in the image) */
	int32_t kept_fd[2];      /* the socketpair that keeps slabs (keep.c): left out, too; -1 */
	int32_t data_fd[2];      /* socket and ring of device data (GCK_LINK_DATA_FDS): left out, too; -1 */
	uint64_t device_bytes;   /* of slabs, cuMemCreate and managed memory: so much an image has of devices at most,
				  * and so much host memory a drain needs that is `held` */
	struct gck_cuda_memory memory[GCK_CUDA_DEVICES_MAX]; /* of `devices`: what a drain may keep there
				  * needs no host memory */
	struct gck_cuda_devices devices;
	char library[256];       /* the driver's, as it was loaded; "" */
	char visible[256];       /* CUDA_VISIBLE_DEVICES at cuInit; "" */
	/* R by the restorer: devices[i] is to come back on the one that has this UUID. */
	uint32_t nonto, unused;  /* 0: all on those where they were */
	unsigned char onto[GCK_CUDA_DEVICES_MAX][16];
};

/* This rank's. */
extern struct gck_cuda_state gck_cuda_state;

#endif

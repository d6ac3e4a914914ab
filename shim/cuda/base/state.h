/* SPDX-License-Identifier: Apache-2.0
 * The CUDA state of a rank: in its memory, read by the agent and the capture from outside while
 * the rank is held. Part of every image. */
#ifndef GCK_CUDA_STATE_H
#define GCK_CUDA_STATE_H

#include <stdint.h>

#include "shim/cuda/base/device_properties.h"
#include "shim/link.h"
#include "shim/namespace/state.h"

#define GCK_CUDA_STATE_MAGIC 0x616475636b6367ull
#define GCK_CUDA_STATE_VERSION 8
#define GCK_CUDA_DEVICES_MAX GCK_LINK_CUDA_DEVICES /* at most the bits of a uint64_t */

#define GCK_CUDA_FUNCTIONS_SIZE 65536 /* 256 unknown names of 64 bytes, and all of functions.tbl */

#define GCK_CUDA_CODE_SIZE 4096

/* The name of the vault's threads (fd_vault.c). Each has a descriptor table of its own, which a
 * restored process does not need. */
#define GCK_CUDA_VAULT_THREAD "gpuckpt-hold"

#define GCK_CUDA_BY_IMAGE 1u
#define GCK_CUDA_BY_REPLAY 2u

/* The devices that a process sees, in its order. */
struct gck_cuda_devices {
	uint32_t n;              /* 0: unknown */
	uint32_t all;            /* whose device file the process may open: the first n, then those
				  * that it does not see, without a name. The driver's restore
				  * wants a new device for each of them, and for no other */
	char driver[32];         /* version of the kernel module */
	struct gck_cuda_device {
		unsigned char uuid[16];
		char name[64];
		uint64_t memory; /* bytes in all */
		int32_t properties[GCK_CUDA_NPROPERTIES];
	} v[GCK_CUDA_DEVICES_MAX];
};

/* What gpuckpt-gpus answers. */
struct gck_cuda_here {
	struct gck_cuda_devices devices;
	char lacks[160];         /* the functions that it was asked for and the driver lacks, as far
				  * as there is room; "": none */
};

/* The memory of a device, as far as this process knows. */
struct gck_cuda_memory {
	uint64_t bytes;          /* in slabs */
	uint64_t free_bytes;           /* free for copies when a slab last came or went */
};

struct gck_cuda_state {
	uint64_t magic;
	uint32_t version, size;
	uint64_t drained_for;    /* the checkpoint that the process is drained for: an image can be
				  * taken, and the driver holds no GPU unless it `replays`; 0: not
				  * drained */
	int32_t link_fd;         /* the CUDA thread's socket to the agent; left out of the image */
	int32_t pid;             /* the kernel's, of the process that has begun to use CUDA. In a
				  * child that has this by fork it is another's, and before a
				  * restart it was another */
	int32_t kept_fd[2];      /* the vault's socketpair (fd_vault.c); left out of the image;
				  * -1 */
	int32_t data_fd[2];      /* socket and ring of device data (GCK_LINK_DATA_FDS); left out
				  * of the image; -1 */
	uint64_t device_bytes;   /* of slabs, cuMemCreate and managed memory: the most that an
				  * image holds of devices, and the host memory that a drain
				  * needs with `hold` */
	/* of `devices`: copies that fit there need no host memory */
	struct gck_cuda_memory memory[GCK_CUDA_DEVICES_MAX];
	struct gck_cuda_devices devices;
	char library[256];       /* the driver's library, as loaded; "" */
	char visible[256];       /* CUDA_VISIBLE_DEVICES at cuInit; "" */
	/* Written by the restorer: the UUID of the device on which devices[i] is to come back. */
	uint32_t nonto;          /* 0: every device stays where it was */
	uint32_t managed_mib;    /* of device_bytes: managed memory, which is copied slowly. Written
				  * by this process; 0 in images of 0.1.0 */
	unsigned char onto[GCK_CUDA_DEVICES_MAX][16];
	/* Of the checkpoint under way or the last one: the driver is loaded anew at a restart, and
	 * what its library owns is not in the image. Else the driver's own checkpoint is there */
	uint32_t replays;
	uint32_t ways;           /* GCK_CUDA_BY_*: those that a checkpoint of it can take */
	struct gck_ns_exclusions exclusions;
	/* The driver's functions that the program has called or has the address of, which another
	 * driver must have, too: names that end with NUL, at this address */
	uint64_t functions;
	uint64_t functions_size; /* at most GCK_CUDA_FUNCTIONS_SIZE */
	/* Of cuda=replay: what modules' code is for, the same at each of them once: "sm_90a
	 * compute_80" has code for GPUs of 9.0 only and PTX for those of 8.0 and above */
	uint64_t code;
	uint64_t code_size;      /* at most GCK_CUDA_CODE_SIZE */
};

/* The state of this rank. */
extern struct gck_cuda_state gck_cuda_state;

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Shared by the GPU programs here: calls of the driver that must succeed, a process that has the
 * driver checkpoint it, slabs of memory that survive that, and cases, each in a process of its
 * own. */
#ifndef GCK_TEST_GPU_DRIVER_H
#define GCK_TEST_GPU_DRIVER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* Of the driver's or the runtime's results: 0 is success in both. */
#define MUST(call) gpu_must((int)(call), #call, __FILE__, __LINE__)
void gpu_must(int result, const char *call, const char *file, int line);

/* The process fails and ends if the condition does not hold. */
#define CHECK(what) \
	do { \
		if (!(what)) \
			gpu_failed(#what, __FILE__, __LINE__); \
	} while (0)
void gpu_failed(const char *what, const char *file, int line);

double gpu_ms(void);
void gpu_figure(const char *name, double value, const char *unit);

/* Tell gpu_lineage that checkpoints may begin. */
void gpu_say_started(void);

/* The first device's primary context, current. */
extern CUcontext gpu_context;
void gpu_init(void);

/* ---- the driver's checkpoint, by a thread of the process itself ------------------------------ */

#define GPU_NOT_TRIED (-1)

struct gpu_self {
	bool shrink;             /* shrink the stack limit first */
	void (*during)(void);    /* called while checkpointed */
	unsigned timeout_ms;     /* of the lock; 0: 5000 */
	CUcheckpointRestoreArgs *onto; /* NULL: on the same devices */
	/* the driver's results, or GPU_NOT_TRIED */
	int locked, saved, restored, unlocked;
	double lock_ms, save_ms, restore_ms, all_ms;
	size_t grown;            /* bytes more of resident memory while checkpointed */
};

/* Checkpoint and restore; false if a step failed. NULL: with the stack shrunk, without results. */
bool gpu_self_checkpoint(struct gpu_self *s);

/* The kernel's PID; getpid() may return that of the first start. */
int gpu_pid(void);

/* ---- slabs ---------------------------------------------------------------------------------- */

#define GPU_SLABS_BASE 0x600000000000ull

struct gpu_slabs {
	CUdeviceptr at;
	size_t size, count, reserved; /* of one slab; how many; the addresses reserved */
	int devices;             /* number of devices with access, from the first on; 0: one */
	CUmemGenericAllocationHandle *handles;
	int flight[2];           /* a socketpair in which the slabs' descriptors are in flight */
};

/* Reserve addresses at `at` (0: anywhere), make and map the slabs there. The caller sets
 * devices. */
void gpu_slabs_make(struct gpu_slabs *s, CUdeviceptr at, size_t reserved, size_t size,
		    size_t count);
/* Map new memory at the same addresses: after gpu_slabs_unmap, when the descriptors are lost. */
void gpu_slabs_renew(struct gpu_slabs *s);
/* Send each slab's descriptor into the socketpair: it keeps the memory from here on. */
void gpu_slabs_export(struct gpu_slabs *s);
void gpu_slabs_unmap(struct gpu_slabs *s);
/* Import and map the slabs again. Their descriptors stay in flight. */
void gpu_slabs_import(struct gpu_slabs *s);
/* Free the memory and the addresses. */
void gpu_slabs_free(struct gpu_slabs *s);

/* ---- managed memory (mmap_hook.cu) ----------------------------------------------------------- */

/* Allocate managed memory, a multiple of 32 MiB, at an address where there was some before. Now
 * there is a placeholder (PROT_NONE). */
CUdeviceptr gpu_managed_at(void *at, size_t size);

/* ---- cases ---------------------------------------------------------------------------------- */

struct gpu_case {
	const char *name;
	void (*run)(void);       /* in a process without a context; returns on success */
};

/* Run all cases, or those that argv names, as TAP. */
int gpu_run(const struct gpu_case *cases, size_t n, int argc, char **argv);

#endif

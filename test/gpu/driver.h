/* SPDX-License-Identifier: Apache-2.0
 * What the GPU programs here have in common: calls of the driver that must succeed, a process that
 * has the driver checkpoint it, slabs of memory that survive that, and cases that run in a process
 * each. */
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

/* What a case is about: the process ends with a failure if it does not hold. */
#define CHECK(what) \
	do { \
		if (!(what)) \
			gpu_failed(#what, __FILE__, __LINE__); \
	} while (0)
void gpu_failed(const char *what, const char *file, int line);

double gpu_ms(void);
void gpu_figure(const char *name, double value, const char *unit);

/* The first device's primary context, current. */
extern CUcontext gpu_context;
void gpu_init(void);

/* ---- the driver's checkpoint, by a thread of the process itself -------------------------------
 * */

#define GPU_NOT_TRIED (-1)

struct gpu_self {
	bool shrink;             /* the stack limit first */
	void (*during)(void);    /* called while checkpointed */
	unsigned timeout_ms;     /* of the lock; 0: 5000 */
	CUcheckpointRestoreArgs *onto; /* NULL: all stay where they are */
	/* results: of the driver, or GPU_NOT_TRIED */
	int locked, saved, restored, unlocked;
	double lock_ms, save_ms, restore_ms, all_ms;
	size_t grown;            /* bytes more of resident memory while checkpointed */
};

/* The whole way; false if a step failed. NULL: with the stack shrunk, no results wanted. */
bool gpu_self_checkpoint(struct gpu_self *s);

/* The kernel's PID. What cuCheckpointProcess* takes, also where getpid() gives a first start's. */
int gpu_pid(void);

/* ---- slabs ---------------------------------------------------------------------------------- */

#define GPU_SLABS_BASE 0x600000000000ull

struct gpu_slabs {
	CUdeviceptr at;
	size_t size, count, room; /* of one slab; how many; the addresses reserved */
	int devices;             /* of the first ones, that have access; 0: the first only */
	CUmemGenericAllocationHandle *handles;
	int flight[2];           /* a socketpair in which each one's descriptor is under way */
};

/* Reserve room at an address (0: anywhere), make and map the slabs there. devices is the caller's.
 * */
void gpu_slabs_make(struct gpu_slabs *s, CUdeviceptr at, size_t room, size_t size, size_t count);
/* New memory where the old was: after gpu_slabs_away, when the descriptors are lost. */
void gpu_slabs_renew(struct gpu_slabs *s);
/* Send each one's descriptor into the socketpair: it keeps the memory from here on. */
void gpu_slabs_export(struct gpu_slabs *s);
/* Unmap and release; take the descriptors, import and map again; the descriptors stay under way. */
void gpu_slabs_away(struct gpu_slabs *s);
void gpu_slabs_back(struct gpu_slabs *s);
/* Give the memory and the addresses back. */
void gpu_slabs_free(struct gpu_slabs *s);

/* ---- managed memory (steer.cu) ----------------------------------------------------------------
 * */

/* A multiple of 32 MiB, at an address where it was before and where a placeholder (PROT_NONE) is
 * now. */
CUdeviceptr gpu_managed_at(void *at, size_t size);

/* ---- cases ---------------------------------------------------------------------------------- */

struct gpu_case {
	const char *name;
	void (*run)(void);       /* in a process without a context; returns if all held */
};

/* Run all of them, or those that argv names, as TAP. */
int gpu_run(const struct gpu_case *cases, size_t n, int argc, char **argv);

#endif

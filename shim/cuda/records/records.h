/* SPDX-License-Identifier: Apache-2.0
 * Records of the objects that a program holds in the CUDA driver, and their way into a fresh one.
 *
 * A hook stands before each function of the driver. It passes the driver the present handles, and
 * records what the call did (objects.tbl). Handles are the driver's own until the first restart;
 * from then on the program's handle of an older object is looked up. No new handle may equal an
 * old one: who loads a fresh driver keeps the old one's memory reserved. */
#ifndef GCK_CUDA_RECORDS_H
#define GCK_CUDA_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/real.h"

/* The driver: all calls of hooks and replay go by this table. */
extern struct gck_cuda_real gck_cuda_driver;

/* Fills a table with a library's functions; NULL where find, which gets arg, finds none. */
typedef void *gck_records_find_fn(void *arg, const char *name);
void gck_cuda_records_find(struct gck_cuda_real *table, gck_records_find_fn *find, void *arg);

/* Fills a table with the hooks; where there is none, with the driver's functions. */
void gck_cuda_records_hook(struct gck_cuda_real *table);

/* Who steers the library's mappings (shim/cuda/apart): told for which object the calling thread's
 * following ones are, 0: for none; and of an object that has ended for good. */
struct gck_records_maps {
	void (*maps_for)(uint64_t object);
	void (*ended)(uint64_t object);
};
void gck_cuda_records_maps_by(const struct gck_records_maps *maps);

/* Why the objects that live now cannot be made again in a fresh driver: a text that stays until the
 * next call; NULL: they can. */
const char *gck_cuda_records_unable(void);

/* Copies the contents of device memory, of arrays and of modules' variables to host memory. The GPU is idle,
 * no other call is under way, and gck_cuda_records_unable has returned NULL. What listens to
 * checkpoints (NVML) has left the GPU afterwards. */
GCK_MUST_CHECK int gck_cuda_records_save(struct gck_error *err);

/* After a save, or one that failed, in the process that goes on. pairs: all GPUs that the process
 * may open, as for cuCheckpointProcessRestore; for listeners. */
GCK_MUST_CHECK int gck_cuda_records_back(const CUcheckpointGpuPair *pairs, unsigned n,
					 struct gck_error *err);

/* Puts back what the program reads of the driver that has ended, whose memory is gone or reserved.
 * Before a fresh one is loaded, which must not get that place. */
GCK_MUST_CHECK int gck_cuda_records_keep(struct gck_error *err);

/* Makes all objects again. gck_cuda_driver is a fresh driver after cuInit. After a failure neither
 * the program nor this may go on. */
GCK_MUST_CHECK int gck_cuda_records_replay(struct gck_error *err);

/* Then, when memory that has no record is there again, too: makes textures, surfaces and graphs
 * again, and fills what was saved. pairs: as above. */
GCK_MUST_CHECK int gck_cuda_records_complete(const CUcheckpointGpuPair *pairs, unsigned n,
					     struct gck_error *err);

/* Frees what was saved. */
void gck_cuda_records_release(void);

/* For tests: how many records of a kind there are, by the kind's name, modules of libraries not
 * counted; and the driver's value of a handle. */
int gck_cuda_records_count(const char *kind);
uint64_t gck_cuda_records_now(const char *kind, uint64_t handle);

#endif

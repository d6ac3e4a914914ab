/* SPDX-License-Identifier: Apache-2.0
 * What the tests of the copy on the device have in common: a rank with data in two slabs, whose
 * checkpoints leave a copy. */
#ifndef GCK_CUDA_TEST_DEVICE_COPY_H
#define GCK_CUDA_TEST_DEVICE_COPY_H

#include <stdio.h>
#include <stdlib.h>

#include "shim/cuda/test/link_agent.h"
#include "test/support/cuda_data.h"
#include "test/support/tap.h"

#define MIB ((uint64_t)1 << 20)
#define SUM (3 << 20)   /* of the bytes of cuda_rank's memory */
#define TAKEN (2 * MIB + 64 * MIB) /* bytes that the program allocated */
#define SLABS (96 * MIB)
#define RESERVE 512

/* Start a rank with data in two slabs on a device of this many MiB. */
static inline void start(struct cuda_rank *r, int mib, const char *fail)
{
	char memory[16];

	snprintf(memory, sizeof memory, "%d", mib);
	setenv("FAKE_CUDA_MEMORY", memory, 1);
	cuda_rank_start(r, fail);
	r->cuda.keep = 1;
	cuda_tell(r, "more");
}

/* Make a checkpoint whose copy stays on the device, and list it; serve: all of TAKEN is there. */
static inline bool serve(struct cuda_rank *r, struct cuda_data *d, uint64_t seq)
{
	return cuda_drain(r, seq, WAIT_MS) && cuda_resume(r, seq, d) && cuda_data_list(d) &&
	       cuda_data_bytes(d) == TAKEN;
}

static inline bool serve_all(struct cuda_rank *r, struct cuda_data *d, uint64_t seq)
{
	return cuda_drain(r, seq, WAIT_MS) && cuda_resume(r, seq, d) && cuda_data_list(d);
}

static inline void carries_on(struct cuda_rank *r, struct cuda_data *d, uint64_t seq)
{
	is_int(cuda_tell(r, "sum"), SUM, "the program has its data");
	cuda_data_free(d);
	ok(all_of(serve(r, d, seq), cuda_data_read(d), cuda_rank_has(r, d)),
	   "the next checkpoint is good: %s%s", text, d->why);
	cuda_data_free(d);
	is_int(cuda_rank_end(r), 0, "and it ends well");
}

#endif

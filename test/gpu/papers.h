/* SPDX-License-Identifier: Apache-2.0
 * Programs like those with which CRUM and CheCUDA were measured: papers.cu runs one of CRUM's,
 * papers_managed.cu has the two with managed memory, checuda.cu has CheCUDA's. */
#ifndef GCK_TEST_GPU_PAPERS_H
#define GCK_TEST_GPU_PAPERS_H

#include "driver.h"

#include <stdlib.h>

#define THREADS 256
#define PAUSES_US 4000000 /* of all rounds */

/* begin: takes the memory; returns how many rounds there are. right: whether the result can be
 * right; adds the bytes of the result to the digest. */
struct paper {
	const char *name;
	unsigned size, times;    /* without arguments */
	unsigned (*begin)(unsigned size, unsigned times);
	void (*round)(unsigned i);
	bool (*right)(void);
};
extern const struct paper paper_hypre, paper_hpgmg;

void paper_digest(const void *data, size_t bytes);

__host__ __device__ static inline unsigned paper_mix(unsigned x)
{
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

/* A number from 0 to 1 for each seed and index. */
__host__ __device__ static inline float paper_noise(unsigned seed, unsigned i)
{
	return (float)(paper_mix(i + paper_mix(seed + 1)) >> 8) * (1.0f / (1 << 24));
}

static inline unsigned paper_blocks(size_t n)
{
	return (unsigned)((n + THREADS - 1) / THREADS);
}

/* After one of so many rounds: a checkpoint shall find a running program. A program alone, or one
 * whose end is awaited, makes no pauses. */
static inline void paper_pause(unsigned rounds)
{
	const char *hurry = getenv("GPUCKPT_TEST_HURRY");

	if (hurry && access(hurry, F_OK))
		usleep(PAUSES_US / rounds);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Kinds of memory that work.cu may have besides its data, and a picture that it always has. */
#ifndef GCK_TEST_GPU_KINDS_H
#define GCK_TEST_GPU_KINDS_H

#include "driver.h"

#define KINDS_WORDS 1000
#define KINDS_SIZE (64 * MIB)

/* NULL, 0: none. */
extern struct kinds {
	unsigned *pool, *mapped;      /* KINDS_SIZE bytes; twice that, by cuMemMap */
	size_t pinned_bytes;
	struct {
		volatile unsigned *words; /* the CPU counts in the first KINDS_WORDS, kernels in
					   * the others */
		unsigned *device;
	} pinned[3];                  /* allocated; registered; registered and shared */
} kinds;

void kinds_make_pool(void);
void kinds_make_mapped(void);
void kinds_make_pinned(void);     /* of kinds.pinned_bytes */

/* Two arrays, each with a texture and a surface. A round's kernel reads one and writes the other,
 * on another stream in the order of events. */
void kinds_make_picture(void);
void kinds_draw(unsigned round, cudaStream_t stream);
unsigned kinds_picture_sum(void);

/* One round with all kinds. Whether kernels counted this many rounds in pinned memory. */
void kinds_use(unsigned round, cudaStream_t stream);
bool kinds_counted(unsigned rounds);

unsigned kinds_sum(const unsigned *p, size_t size);

/* In heap.cu: a list in memory that kernels allocate; one round with it. */
void heap_make(void);
void heap_use(unsigned round, cudaStream_t stream);
unsigned heap_sum(void);

/* In work.cu: one step of a random number generator in each word. */
void kinds_mix(unsigned *p, size_t size, unsigned k, cudaStream_t stream);

#endif

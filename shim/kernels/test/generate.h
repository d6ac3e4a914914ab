/* SPDX-License-Identifier: Apache-2.0
 * Random kernels whose result does not depend on the order of their threads. */
#ifndef GCK_TEST_GENERATE_H
#define GCK_TEST_GENERATE_H

#include <stdbool.h>
#include <stddef.h>

#define GENERATE_WORDS 16 /* of four bytes, that a thread writes */
#define GENERATE_SUMS 8   /* words behind those of the threads, to which all add */

/* What a kernel is made for. */
struct shape {
	unsigned threads, dynamic; /* of a block; bytes of shared memory */
	bool has_grid;             /* it is launched cooperatively */
};

/* PTX for sm_90 with the kernel k(u64 out, u32 n, u32 m): for free(). With is_marked it has points.
 * Behind the sums are four bytes of each thread more, if has_grid. */
char *generate(unsigned seed, bool is_marked, struct shape *shape, size_t *size);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Random kernels whose result does not depend on the order of their threads. */
#ifndef GCK_TEST_GENERATE_H
#define GCK_TEST_GENERATE_H

#include <stddef.h>

#define GENERATE_WORDS 16 /* of four bytes, that a thread writes */
#define GENERATE_SUMS 8   /* words behind those of the threads, to which all add */

/* PTX for sm_90 with the kernel k(u64 out, u32 n, u32 m): for free(). With is_marked it has points.
 * threads: of a block, for which it is made; dynamic: the bytes of shared memory it needs. */
char *generate(unsigned seed, int is_marked, unsigned *threads, unsigned *dynamic, size_t *size);

#endif

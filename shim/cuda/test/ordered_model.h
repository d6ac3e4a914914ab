/* SPDX-License-Identifier: Apache-2.0
 * Stream-ordered memory taken, used and given back at random in several streams, none of which the
 * host waits for but now and then: kernels check that nobody has written where they still have to
 * read. On the fake driver, whose kernels are functions of ours. */
#ifndef GCK_CUDA_TEST_ORDERED_MODEL_H
#define GCK_CUDA_TEST_ORDERED_MODEL_H

/* So many steps at a time. What was wrong, NULL: nothing. A context is current. */
const char *ordered_begin(CUmodule module, unsigned int seed);
const char *ordered_steps(int n);
/* Threads that do so at a time; before the end, which says what they have overwritten. */
const char *ordered_threads(CUmodule module);
const char *ordered_end(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Stream-ordered memory allocated, used and freed at random in several streams, for which the host
 * waits only now and then. Kernels check that memory they still have to read was not overwritten.
 * On the fake driver, whose kernels are functions of the program. */
#ifndef GCK_CUDA_TEST_ORDERED_MODEL_H
#define GCK_CUDA_TEST_ORDERED_MODEL_H

/* Each returns what was wrong, or NULL. A context must be current. ordered_steps makes n steps. */
const char *ordered_begin(CUmodule module, unsigned int seed);
const char *ordered_steps(int n);
/* Do so in several threads. Call it before ordered_end, which reports what they overwrote. */
const char *ordered_threads(CUmodule module);
const char *ordered_end(void);

#endif

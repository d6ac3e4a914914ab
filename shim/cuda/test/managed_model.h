/* SPDX-License-Identifier: Apache-2.0
 * Managed memory taken, used by CPU and GPU, advised about and given back at random, every answer
 * compared with a plain list. */
#ifndef GCK_CUDA_TEST_MANAGED_MODEL_H
#define GCK_CUDA_TEST_MANAGED_MODEL_H

/* A thread that counts in managed memory begins; then so many steps at a time. What was wrong,
 * NULL: nothing. A context is current, module has the kernel `add` of kernels.h. */
const char *managed_begin(CUmodule module, unsigned int seed);
const char *managed_steps(int n);
/* Do not ask for advice back: a driver may take it for more or less than the range. */
void managed_forgets(void);
const char *managed_end(void); /* with the thread's counts, none of which may be lost */

#endif

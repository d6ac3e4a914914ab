/* SPDX-License-Identifier: Apache-2.0
 * Managed memory allocated, used by CPU and GPU, advised about and freed at random; every answer is
 * compared with a plain list. */
#ifndef GCK_CUDA_TEST_MANAGED_MODEL_H
#define GCK_CUDA_TEST_MANAGED_MODEL_H

/* Start a thread that counts in managed memory, then make n steps at a time. Each returns what was
 * wrong, or NULL. A context must be current; module has the kernel `add` of kernels.h. */
const char *managed_begin(CUmodule module, unsigned int seed);
const char *managed_steps(int n);
/* Do not query advice: a driver may apply it to more or less than the range. */
void managed_forgets(void);
const char *managed_end(void); /* also checks that no count of the thread was lost */

#endif

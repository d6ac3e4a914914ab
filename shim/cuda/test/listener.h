/* SPDX-License-Identifier: Apache-2.0
 * Something of the program that is told of checkpoints, as NVML is: it has a descriptor that no
 * image can have, and closes it meanwhile. Only with GPUCKPT_TEST_LISTENER: an agent would refuse
 * that descriptor before, which is none of a GPU. */
#ifndef GCK_CUDA_TEST_LISTENER_H
#define GCK_CUDA_TEST_LISTENER_H

/* NULL, or what is wrong. */
const char *listener_begin(void);
const char *listener_look(void);

#endif

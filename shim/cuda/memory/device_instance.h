/* SPDX-License-Identifier: Apache-2.0
 * The numbers by which the kernel module knows devices ("instances"). When the driver imports
 * memory it asks the kernel for the number of the memory's device, and looks for the device that
 * had that number when the process first started. In a process that was moved to other devices it
 * finds none, or another one (doc/cuda-driver.md). So the kernel's answers to the driver's library
 * are translated. */
#ifndef GCK_CUDA_DEVICE_INSTANCE_H
#define GCK_CUDA_DEVICE_INSTANCE_H

#define GCK_CUDA_INSTANCES 32 /* NV_MAX_DEVICES of the kernel module */

/* Install the hook, once the real library is loaded. */
void gck_cuda_instance_begin(void);

/* Tell the driver `told` where the kernel says `here`. */
void gck_cuda_instance_translate(int here, int told);

/* Translate nothing. */
void gck_cuda_instance_reset(void);

/* What the kernel said to this thread last; -1: nothing, or the hook is missing. */
int gck_cuda_instance_said(void);

#endif

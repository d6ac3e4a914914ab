/* SPDX-License-Identifier: Apache-2.0
 * Kernels without points that last: a checkpoint waits for their end. */
#ifndef GCK_CUDA_LATE_KERNEL_H
#define GCK_CUDA_LATE_KERNEL_H

/* Count the seconds. In the CUDA thread, often. */
void gck_cuda_late_kernels_tick(void);

/* Name each kernel that was launched more than a second ago and is not done. seconds: at least so
 * long ago; behind: so many launches may be before it in its stream. In the CUDA thread, at any
 * time while the driver is up. It does not wait for the GPU. */
typedef void gck_cuda_late_kernel_fn(void *arg, const char *name, unsigned seconds,
				     unsigned behind);
void gck_cuda_late_kernels_tell(gck_cuda_late_kernel_fn *tell, void *arg);

#endif

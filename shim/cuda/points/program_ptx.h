/* SPDX-License-Identifier: Apache-2.0
 * PTX text that the program brings itself: the kernels that kernels= names (GPUCKPT_KERNELS in the
 * environment) get points before the driver has it, as by `gckcc --auto`. */
#ifndef GCK_CUDA_PROGRAM_PTX_H
#define GCK_CUDA_PROGRAM_PTX_H

/* Name what was to have points and has none. At any time. */
typedef void gck_cuda_no_points_fn(void *arg, const char *object, const char *why);
void gck_cuda_program_ptx_tell(gck_cuda_no_points_fn *tell, void *arg);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * PTX with the program's kernels and variables, in two orders. */
#ifndef GPU_RANDOM_PTX_H
#define GPU_RANDOM_PTX_H

extern const char ptx_first[], ptx_later[];

#endif

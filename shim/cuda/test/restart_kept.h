/* SPDX-License-Identifier: Apache-2.0
 * What a program keeps of its driver, of whatever version that is after a restart: addresses of
 * functions, private tables, the address of a variable. */
#ifndef GCK_CUDA_TEST_RESTART_KEPT_H
#define GCK_CUDA_TEST_RESTART_KEPT_H

#include <cuda.h>

/* A module with the variable: PTX; with "cubin" compiled; with "fatbin" both. */
const void *kept_image(const char *more);

/* Ask for all, with a context current. NULL, or what is wrong. */
const char *kept_begin(CUmodule module, const char *more);
/* Use all. NULL, or what is wrong. */
const char *kept_look(void);

#endif

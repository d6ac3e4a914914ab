/* SPDX-License-Identifier: Apache-2.0
 * Calls of libc's that the driver's library makes, turned to functions of ours: in that library alone,
 * by its table of addresses. The program's own calls, and other libraries', are not touched. */
#ifndef GCK_CUDA_GOT_HOOK_H
#define GCK_CUDA_GOT_HOOK_H

/* Of the library with that handle of dlopen's: it calls ours for the function of that name from here
 * on. How many places that changed; 0: it does not call it in a way that can be seen. */
int gck_cuda_hook(void *handle, const char *name, void *ours);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * What has to pass calls on without knowing their arguments or without being seen in between: the
 * code is in jump.S. */
#ifndef GCK_CUDA_DISPATCH_H
#define GCK_CUDA_DISPATCH_H

/* libc's dlsym, behind ours; set by gck_cuda_find_dlsym. */
typedef void *gck_cuda_dlsym_fn(void *handle, const char *name);
extern gck_cuda_dlsym_fn *gck_cuda_real_dlsym;
gck_cuda_dlsym_fn *gck_cuda_find_dlsym(void);

/* dlsym on a handle; our dlsym jumps here. With RTLD_NEXT and RTLD_DEFAULT, which mean the caller's
 * place, it jumps to libc's at once. */
void *gck_cuda_dlsym(void *handle, const char *name);

/* Functions that functions.tbl does not list, asked for through cuGetProcAddress or dlsym: one of these
 * goes out for each, the same one for the same function, and tells when it is called. */
#define GCK_CUDA_UNKNOWN 256

extern const char gck_cuda_unknown_code[]; /* GCK_CUDA_UNKNOWN jumps of GCK_CUDA_UNKNOWN_SIZE bytes */
#define GCK_CUDA_UNKNOWN_SIZE 32
extern void *gck_cuda_unknown_real[GCK_CUDA_UNKNOWN];
extern unsigned char gck_cuda_unknown_used[GCK_CUDA_UNKNOWN];

/* Of the library with that handle of dlopen's: it calls ours for the function of that name from here
 * on. How many places that changed; 0: it does not call it in a way that can be seen. */
int gck_cuda_got_hook(void *handle, const char *name, void *ours);

#endif

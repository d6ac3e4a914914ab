/* SPDX-License-Identifier: Apache-2.0
 * How calls are passed on: jumps that do not know their arguments (jump.S), lookup by name, and
 * hooks in the driver's library. */
#ifndef GCK_CUDA_DISPATCH_H
#define GCK_CUDA_DISPATCH_H

#include "common/base/error.h"

/* libc's dlsym, which ours hides; set by gck_cuda_find_dlsym. */
typedef void *gck_cuda_dlsym_fn(void *handle, const char *name);
extern gck_cuda_dlsym_fn *gck_cuda_real_dlsym;
gck_cuda_dlsym_fn *gck_cuda_find_dlsym(void);

/* dlsym on a handle; our dlsym jumps here. For RTLD_NEXT and RTLD_DEFAULT, which depend on the
 * caller's address, it jumps to libc's. */
void *gck_cuda_dlsym(void *handle, const char *name);

/* libc's dlopen, which ours hides; set by gck_cuda_opened. */
typedef void *gck_cuda_dlopen_fn(const char *file, int mode);
extern gck_cuda_dlopen_fn *gck_cuda_real_dlopen;

/* What our dlopen opens for the program: this library for the path of the driver's file, if that is
 * in a link namespace, since a second copy of it cannot be used. */
const char *gck_cuda_opened(const char *file);

/* Functions that functions.tbl does not list but the program looked up through cuGetProcAddress
 * or dlsym. The program gets a jump in their place, always the same for the same function, which
 * records that it is called. */
#define GCK_CUDA_UNKNOWN 256

extern const char gck_cuda_unknown_code[]; /* GCK_CUDA_UNKNOWN jumps of GCK_CUDA_UNKNOWN_SIZE
					    * bytes each */
#define GCK_CUDA_UNKNOWN_SIZE 32
extern void *gck_cuda_unknown_real[GCK_CUDA_UNKNOWN];
extern unsigned char gck_cuda_unknown_used[GCK_CUDA_UNKNOWN];

/* Its name; NULL: there are no more. */
const char *gck_cuda_unknown_name(unsigned i);

/* Lead the jumps to the library that was loaded again. -1: it lacks one of the functions. */
GCK_MUST_CHECK int gck_cuda_unknown_again(struct gck_error *err);

/* The program has the address of ours for this function of the driver, or has called it. */
struct gck_cuda_function;
void gck_cuda_needs(const struct gck_cuda_function *f);
/* The same by name, which functions.tbl has. */
void gck_cuda_needs_name(const char *name);

/* Note all of these that the driver has, and those that functions.tbl does not list, in
 * gck_cuda_state.functions. Only the CUDA thread calls it. */
void gck_cuda_needs_note(void);

/* Make a library (a handle of dlopen's) call ours in place of the libc function of that name, by
 * its global offset table. The program's calls and those of other libraries are not touched.
 * Returns how many places were changed; 0: the library does not call it through the table. */
int gck_cuda_got_hook(void *handle, const char *name, void *ours);

/* The function that the library calls by that name now: libc's, or a hook, to which another hook
 * passes its calls on. NULL: it calls none. */
void *gck_cuda_got_find(void *handle, const char *name);

#endif

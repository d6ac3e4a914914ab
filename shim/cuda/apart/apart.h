/* SPDX-License-Identifier: Apache-2.0
 * The driver's library in a link namespace of its own. What it registers with libc for the whole
 * process (at exit, at fork) and asks libc about the process leads to the program's libc. Its
 * mappings have steered addresses: a fresh copy that is asked for the same objects in the same
 * order maps them where the copy before did, wherever the kernel would have put them.
 *
 * A child of fork has the copy's memory, and its handlers run as those of a plain library would. */
#ifndef GCK_CUDA_APART_H
#define GCK_CUDA_APART_H

#include <stdint.h>

#include "shim/namespace/namespace.h"

/* Loads the library, the first or a fresh copy, and returns its handle for dlsym; NULL: failed.
 * `owned` as in gck_namespace_load. Threads in the gate's list are known to its libc afterwards;
 * for later ones gck_namespace_adopt has to be called (gck_gate_owner.admitted). The library's
 * environment is the program's of now; see gck_namespace_take_environment. */
void *gck_cuda_apart_load(const char *path, struct gck_ns_exclusions *owned, struct gck_error *err);

/* In a restored process, where the copy is dead: discards it. Its handlers do not run any more, and
 * no address of its heap is given to anything again, so that no new handle equals an old one. */
GCK_MUST_CHECK int gck_cuda_apart_discard(struct gck_error *err);

/* Says for which object the calling thread's mappings are from now on; 0: for none in particular.
 * In a fresh copy they get the addresses that the same object's mappings of the same length,
 * protection and flags had, in order. To be called before and after the object is made: each
 * mapping that is made for it stays in its list as long as it lives. */
void gck_cuda_apart_maps_for(uint64_t object);

/* The object is not made again. Its mappings are forgotten, and their addresses are not given to
 * others, but for what the library has kept: that becomes another object's in a fresh copy. Returns
 * whether there is such. */
bool gck_cuda_apart_object_ended(uint64_t object);

/* ---- between the folder's files -------------------------------------------------------------- */

/* Leads the library's calls of mmap and munmap. */
void gck_cuda_apart_steer(void *library);

/* Leads what it registers for exit and fork. forget: the copy is dead. */
void gck_cuda_apart_handlers_lead(void *library);
void gck_cuda_apart_handlers_forget(void);

/* In a rank: leads what it asks about processes and threads. */
void gck_cuda_apart_process_lead(void *library);

#endif

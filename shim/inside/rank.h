/* SPDX-License-Identifier: Apache-2.0
 * What the preload (shim/preload) knows about this process. A process without it is not a rank. */
#ifndef GCK_INSIDE_RANK_H
#define GCK_INSIDE_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether it is a rank, or a descendant of one, so that it may connect to the agent. */
bool gck_inside_has_agent(void);

/* execve() of this program, again: the stand-ins in envp's LD_PRELOAD stay there. */
int gck_inside_execute(const char *path, char *const *argv, char *const *envp);

/* Report that the process uses MPI or CUDA from now on, and the address of its state. */
void gck_inside_uses_mpi(const void *state);
void gck_inside_uses_cuda(const void *state);

/* In a child by fork, which cannot use CUDA: it has its parent's devices, but no state. */
void gck_inside_leaves_gpu(void);

/* The abstract name of the agent's socket; it changes at a restart. */
const char *gck_inside_agent(void);

/* The environment of the task in which this process was restored, as "NAME=VALUE" slots of *size
 * bytes (common/base/environ_slots.h); NULL: it was not restored, or is not a rank. */
const char *gck_inside_environment(size_t *size);

/* After a restart the program knows its threads by their old TIDs. True if tid is such a TID and
 * differs from the kernel's TID of the thread. */
bool gck_inside_has_tid(int32_t tid);

/* The kernel's TID of the thread that the program knows as tid, and the other way round. */
int32_t gck_inside_kernel_tid(int32_t tid);
int32_t gck_inside_known_tid(int32_t kernel_tid);

/* The process that Yama allows to trace this one, as for PR_SET_PTRACER. A caller that changes it
 * restores it. */
pid_t gck_inside_tracer(void);

/* How often this process was restored. */
uint32_t gck_inside_restarts(void);

#endif

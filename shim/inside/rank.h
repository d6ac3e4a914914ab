/* SPDX-License-Identifier: Apache-2.0
 * What the preload (shim/preload) knows of this process. Without it in the process nothing here is
 * a rank. */
#ifndef GCK_INSIDE_RANK_H
#define GCK_INSIDE_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

bool gck_inside_is_rank(void);

/* MPI is used from here on, and its state lies there. */
void gck_inside_uses_mpi(const void *state);

/* CUDA is used from here on, and its state lies there. */
void gck_inside_uses_cuda(const void *state);

/* Abstract name of the agent's socket; another one after a restart. */
const char *gck_inside_agent(void);

/* This process as the kernel knows it: getpid() answers as it did at the first start. */
pid_t gck_inside_pid(void);

/* The environment of the task that this process was restored into, as "NAME=VALUE" slots of the
 * size (common/base/environ_slots.h); NULL: it was not restored, or is no rank. */
const char *gck_inside_environment(size_t *size);

/* After a restart the program knows its threads by their old TIDs: whether tid is such a TID,
 * which the kernel does not know the thread by. */
bool gck_inside_has_tid(int32_t tid);

/* The process that Yama allows to trace this one, as PR_SET_PTRACER takes it. A caller that
 * changes it puts it back. */
pid_t gck_inside_tracer(void);

/* How often this process was restored. */
uint32_t gck_inside_restarts(void);

#endif

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

/* MPI is used from here on, and its state lies there; NULL: no more. */
void gck_inside_uses_mpi(const void *state);

/* CUDA is used from here on, and its state lies there. */
void gck_inside_uses_cuda(const void *state);

/* Abstract name of the agent's socket; another one after a restart. */
const char *gck_inside_agent(void);

/* This process as the kernel knows it: getpid() answers as it did at the first start. */
pid_t gck_inside_pid(void);

/* How often this process was restored. */
uint32_t gck_inside_restarts(void);

#endif

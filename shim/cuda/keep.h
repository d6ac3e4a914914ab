/* SPDX-License-Identifier: Apache-2.0
 * Descriptors kept in flight: sent into a socketpair of the process' own, where they take no number of
 * the program's and keep what they stand for alive, whatever becomes of the agent. */
#ifndef GCK_CUDA_KEEP_H
#define GCK_CUDA_KEEP_H

#include <stdint.h>

/* Send one, which is closed then, under a number. -1 with errno: it is closed all the same. */
int gck_cuda_keep(uint64_t number, int fd);

/* A descriptor of that number, which stays in flight too; the caller's to close. -1: there is none, or the
 * program has closed the sockets. */
int gck_cuda_keep_get(uint64_t number);

/* It is wanted no more. */
void gck_cuda_keep_drop(uint64_t number);

/* In a restored process nothing is in flight, and the numbers of the sockets mean nothing. */
void gck_cuda_keep_forget(void);

#endif

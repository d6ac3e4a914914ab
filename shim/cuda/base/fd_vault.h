/* SPDX-License-Identifier: Apache-2.0
 * The vault of descriptors: keeps them as long as the process lives, where the program cannot see
 * or close them. Threads with a descriptor table of their own hold them: they take none of the
 * program's numbers, its children do not inherit them, and they are not in flight (which would
 * count against RLIMIT_NOFILE of all the user's processes). Any thread may call these functions. */
#ifndef GCK_CUDA_FD_VAULT_H
#define GCK_CUDA_FD_VAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

/* Keep a copy of fd and close fd. Returns its name; 0 with errno on failure, with fd closed all
 * the same. */
uint64_t gck_cuda_vault_put(int fd) GCK_MUST_CHECK;

/* A new descriptor for that name, for the caller to close. -1 with errno: EBADF if it is not
 * kept any more or the program closed the sockets; or the program's descriptor table is full. */
int gck_cuda_vault_get(uint64_t name) GCK_MUST_CHECK;

/* Whether gck_cuda_vault_get can find that name. */
bool gck_cuda_vault_has(uint64_t name) GCK_MUST_CHECK;

/* Stop keeping it. */
void gck_cuda_vault_drop(uint64_t name);

/* Start empty in a restored process, where no descriptor is kept and the sockets' numbers mean
 * nothing. */
void gck_cuda_vault_forget(void);

#endif

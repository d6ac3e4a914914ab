/* SPDX-License-Identifier: Apache-2.0
 * Descriptors kept for as long as the process lives, whatever becomes of the agent, where the program has
 * none of them (holder.h). Each call may come from any thread. */
#ifndef GCK_CUDA_FD_VAULT_H
#define GCK_CUDA_FD_VAULT_H

#include <stdbool.h>
#include <stdint.h>

/* Keep one, which is closed then: its name. 0 with errno: it is closed all the same. */
uint64_t gck_cuda_vault_put(int fd);

/* A descriptor of that name, which is still kept; the caller's to close. -1 with errno: there is none, or the
 * program has closed the sockets (EBADF), or has no room for it. */
int gck_cuda_vault_get(uint64_t name);

/* Would there be one? */
bool gck_cuda_vault_has(uint64_t name);

/* It is wanted no more. */
void gck_cuda_vault_drop(uint64_t name);

/* In a restored process nothing is kept, and the numbers of the sockets mean nothing. */
void gck_cuda_vault_forget(void);

#endif

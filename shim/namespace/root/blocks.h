/* SPDX-License-Identifier: Apache-2.0
 * Small blocks of the heap. Each has one of 32 sizes: its class. */
#ifndef GCK_NS_ROOT_BLOCKS_H
#define GCK_NS_ROOT_BLOCKS_H

#include <stddef.h>

#define GCK_NS_STEP 16ul
#define GCK_NS_SMALL_MOST 8192ul

unsigned int gck_ns_class_of(size_t size); /* size <= GCK_NS_SMALL_MOST */
size_t gck_ns_class_size(unsigned int class);

void *gck_ns_block_get(unsigned int class); /* NULL: no memory */
void gck_ns_block_put(void *block, unsigned int class);

/* Moves the blocks that the calling thread has cached to the shared lists, at the thread's end. */
void gck_ns_blocks_end(void);

void gck_ns_blocks_lock(void);
void gck_ns_blocks_unlock(void);

#endif

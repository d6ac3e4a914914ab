/* SPDX-License-Identifier: Apache-2.0
 * Addresses of the memory that dirty_program changes. */
#ifndef GCK_TEST_DIRTY_PROGRAM_H
#define GCK_TEST_DIRTY_PROGRAM_H

#define DIRTY_AT 0x7d0000000000ul
#define DIRTY_STRIDE (16ul << 20)
#define DIRTY_SLOTS 8
#define DIRTY_END (DIRTY_AT + (DIRTY_SLOTS + 2) * DIRTY_STRIDE)
#define DIRTY_PAGE 4096ul

#endif

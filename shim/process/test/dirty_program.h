/* SPDX-License-Identifier: Apache-2.0
 * Where marks_program has the memory that it changes. */
#ifndef GCK_TEST_DIRTY_PROGRAM_H
#define GCK_TEST_DIRTY_PROGRAM_H

#define MARKS_AT 0x7d0000000000ul
#define MARKS_STRIDE (16ul << 20)
#define MARKS_SLOTS 8
#define MARKS_END (MARKS_AT + (MARKS_SLOTS + 2) * MARKS_STRIDE)
#define MARKS_PAGE 4096ul

#endif

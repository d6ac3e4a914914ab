/* SPDX-License-Identifier: Apache-2.0
 * Addresses of the memory that dirty_program changes. */
#ifndef GCK_TEST_DIRTY_PROGRAM_H
#define GCK_TEST_DIRTY_PROGRAM_H

#define DIRTY_AT 0x7d0000000000ul
#define DIRTY_STRIDE (16ul << 20)
#define DIRTY_SLOTS 8
#define DIRTY_END (DIRTY_AT + (DIRTY_SLOTS + 2) * DIRTY_STRIDE)
#define DIRTY_PAGE 4096ul

/* Memory whose first part "rewrite" rewrites all the time. Before it is some that no child by fork
 * gets. */
#define REWRITTEN_AT 0x7d1000000000ul
#define REWRITTEN_BYTES (160ul << 20)
#define REWRITTEN_ALL (REWRITTEN_BYTES + (64ul << 20))
#define UNFORKED_AT (REWRITTEN_AT - UNFORKED_BYTES)
#define UNFORKED_BYTES (1ul << 20)

#endif

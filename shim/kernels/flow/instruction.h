/* SPDX-License-Identifier: Apache-2.0
 * What the pass must know of an instruction. An instruction that is not in the table is refused
 * where it matters: no guess is made. */
#ifndef GCK_KERNELS_INSTRUCTION_H
#define GCK_KERNELS_INSTRUCTION_H

#include "shim/kernels/ptx/ptx.h"

enum gck_traits {
	GCK_WRITES = 1,        /* its first operand is written */
	GCK_WARP = 2,          /* the threads of a warp do it together */
	GCK_BARRIER = 4,       /* the threads of a block wait for each other */
	GCK_BRANCH = 8,        /* to its last operand, a label */
	GCK_TABLE_BRANCH = 16, /* to a label of the table that its last operand names */
	GCK_ENDS = 32,         /* the thread, or the function */
	GCK_CALL = 64,
	GCK_ASYNC = 128,       /* a copy may be under way behind it */
	GCK_REFUSED = 256,     /* not in a kernel with points */
	GCK_UNIFORM = 512,     /* gives equal results to a warp whose operands are equal */
	GCK_WAITED = 1024,     /* reads what another thread may have written meanwhile */
	GCK_CARRY_IN = 2048,
	GCK_CARRY_OUT = 4096,
	GCK_PURE = 8192,       /* gives what its operands determine, and does nothing else */
	GCK_GRID = 16384,      /* reads a half of the address of the grid's workspace; of one
				* statement, set by gck_refuse_kernel */
};

/* The traits of an instruction (its token); why is the reason if it is refused. */
unsigned gck_instruction_traits(const struct gck_ptx *ptx, uint32_t op, const char **why);

/* Whether an instruction's word has this part between its dots. */
bool gck_instruction_has(const struct gck_ptx *ptx, uint32_t op, const char *part);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * A function's registers, blocks and branches, and which registers are live. */
#ifndef GCK_KERNELS_FLOW_H
#define GCK_KERNELS_FLOW_H

#include "shim/kernels/flow/instruction.h"

#define GCK_NONE UINT32_MAX
#define GCK_CARRY 0   /* the register that stands for the carry flag */
#define GCK_SPECIAL 1 /* and for all special registers that may differ in a warp */

struct gck_register {
	uint32_t token;  /* its name, or the name's beginning */
	uint32_t number; /* of `.reg .b32 %r<9>`; GCK_NONE: the token is the whole name */
	uint32_t bits;   /* 1: a predicate */
	uint32_t depth;  /* braces around its declaration */
};

struct gck_reference {
	uint32_t reg;
	bool is_written;
};

struct gck_block {
	uint32_t first, last;          /* statements */
	uint32_t successor, n_successors; /* of gck_flow.successors */
};

struct gck_flow {
	const struct gck_ptx *ptx;
	const struct gck_ptx_function *function;
	const struct gck_ptx_statement *statements; /* the function's */
	uint32_t n_statements;
	struct gck_register *registers;
	size_t n_registers;
	struct gck_reference *references;
	size_t n_references;
	uint32_t *reference; /* of statement i: from reference[i] to before reference[i + 1] */
	unsigned *traits;    /* of statement i; 0 if it is no instruction */
	struct gck_block *blocks;
	size_t n_blocks;
	uint32_t *successors; /* blocks */
	size_t n_successors;
	uint32_t *block_of; /* of statement i */
	uint64_t *live;     /* of block i, at its begin: `words` words */
	size_t words;
};

/* All of a function. -1 and err for what cannot be followed; call gck_flow_clear in any case. */
int gck_flow_make(struct gck_flow *flow, const struct gck_ptx *ptx,
		  const struct gck_ptx_function *function, struct gck_error *err) GCK_MUST_CHECK;
void gck_flow_clear(struct gck_flow *flow);

/* Stores into set (flow->words) which registers are live before statement i. */
void gck_flow_live(const struct gck_flow *flow, uint32_t i, uint64_t *set);

/* Whether statement i writes a register of the set. */
bool gck_flow_writes(const struct gck_flow *flow, uint32_t i, const uint64_t *set);

/* The opening brace of the outermost block of inline assembly that statement i is in. */
uint32_t gck_flow_braces(const struct gck_flow *flow, uint32_t i);

/* Fails with the statement's file and line in front of the text. */
int gck_flow_fail(const struct gck_ptx *ptx, const struct gck_ptx_statement *s,
		  struct gck_error *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static inline bool gck_set_has(const uint64_t *set, uint32_t i)
{
	return set[i / 64] >> (i % 64) & 1;
}

static inline void gck_set_add(uint64_t *set, uint32_t i)
{
	set[i / 64] |= 1ull << (i % 64);
}

#endif

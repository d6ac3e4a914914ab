/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "shim/kernels/flow/instruction.h"

#define PLAIN (GCK_WRITES | GCK_UNIFORM)
#define TOGETHER (GCK_WRITES | GCK_WARP)

/* The first row whose name is the instruction's word, or its beginning up to a dot, counts. */
static const struct {
	const char *name;
	unsigned traits;
	const char *why;
} table[] = {
	{ "bar.warp.sync", GCK_WARP, NULL },
	{ "bar.arrive", GCK_REFUSED, "bar.arrive: a barrier that does not wait" },
	{ "barrier.arrive", GCK_REFUSED, "barrier.arrive: a barrier that does not wait" },
	{ "barrier.cta.arrive", GCK_REFUSED, "barrier.arrive: a barrier that does not wait" },
	{ "barrier.cluster", GCK_REFUSED, "a barrier of a cluster" },
	{ "bar", GCK_BARRIER | GCK_UNIFORM, NULL },
	{ "barrier", GCK_BARRIER | GCK_UNIFORM, NULL },
	{ "mbarrier", GCK_REFUSED, "mbarrier" },
	{ "cp.async.bulk", GCK_REFUSED, "cp.async.bulk" },
	{ "cp.reduce.async.bulk", GCK_REFUSED, "cp.reduce.async.bulk" },
	{ "cp.async.mbarrier", GCK_REFUSED, "cp.async.mbarrier" },
	{ "cp.async", GCK_ASYNC, NULL },
	{ "wgmma", GCK_REFUSED, "wgmma" },
	{ "tcgen05", GCK_REFUSED, "tcgen05" },
	{ "setmaxnreg", GCK_REFUSED, "setmaxnreg" },
	{ "griddepcontrol", GCK_REFUSED, "griddepcontrol" },
	{ "mapa", GCK_REFUSED, "memory of a cluster (mapa)" },
	{ "getctarank", GCK_REFUSED, "memory of a cluster (getctarank)" },
	{ "st.async", GCK_REFUSED, "st.async" },
	{ "red.async", GCK_REFUSED, "red.async" },
	{ "alloca", GCK_REFUSED, "alloca" },
	{ "stacksave", GCK_REFUSED, "stacksave" },
	{ "stackrestore", GCK_REFUSED, "stackrestore" },
	{ "bra", GCK_BRANCH, NULL },
	{ "brx.idx", GCK_TABLE_BRANCH, NULL },
	{ "ret", GCK_ENDS, NULL },
	{ "exit", GCK_ENDS, NULL },
	{ "trap", GCK_ENDS, NULL },
	{ "call", GCK_CALL, NULL },
	{ "st", 0, NULL }, { "red", 0, NULL }, { "membar", 0, NULL }, { "fence", 0, NULL },
	{ "prefetch", 0, NULL }, { "prefetchu", 0, NULL }, { "pmevent", 0, NULL },
	{ "nanosleep", 0, NULL }, { "discard", 0, NULL }, { "applypriority", 0, NULL },
	{ "sust", 0, NULL }, { "sured", 0, NULL },
	{ "stmatrix", GCK_WARP, NULL }, { "wmma.store", GCK_WARP, NULL },
	{ "shfl.sync", TOGETHER, NULL }, { "vote.sync", TOGETHER, NULL },
	{ "match", TOGETHER, NULL }, { "redux", TOGETHER, NULL },
	{ "activemask", TOGETHER, NULL }, { "elect", TOGETHER, NULL },
	{ "mma", TOGETHER, NULL }, { "wmma", TOGETHER, NULL },
	{ "ldmatrix", TOGETHER, NULL }, { "movmatrix", TOGETHER, NULL },
	{ "atom", GCK_WRITES | GCK_WAITED, NULL },
	{ "ld.volatile", GCK_WRITES | GCK_WAITED, NULL },
	{ "ld.relaxed", GCK_WRITES | GCK_WAITED, NULL },
	{ "ld.acquire", GCK_WRITES | GCK_WAITED, NULL },
	{ "ld.mmio", GCK_WRITES | GCK_WAITED, NULL },
	{ "ld.local", GCK_WRITES, NULL }, { "ld.global", PLAIN, NULL },
	{ "ld.shared", PLAIN, NULL }, { "ld.shared::cta", PLAIN, NULL },
	{ "ld.param", PLAIN | GCK_PURE, NULL }, { "ld.const", PLAIN, NULL },
	{ "ld.weak", GCK_WRITES, NULL },
	{ "ld", GCK_WRITES, NULL }, { "ldu", GCK_WRITES, NULL },
	{ "tex", GCK_WRITES, NULL }, { "tld4", GCK_WRITES, NULL }, { "txq", PLAIN, NULL },
	{ "suld", GCK_WRITES, NULL }, { "suq", PLAIN, NULL }, { "istypep", PLAIN, NULL },
	{ "isspacep", PLAIN | GCK_PURE, NULL }, { "createpolicy", PLAIN, NULL },
	{ "addc", PLAIN | GCK_CARRY_IN, NULL }, { "subc", PLAIN | GCK_CARRY_IN, NULL },
	{ "madc", PLAIN | GCK_CARRY_IN, NULL },
};

/* All of these write their first operand, and only that. */
static const char *const arithmetic[] = {
	"abs", "add", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign",
	"cos", "cvt", "cvta", "div", "dp2a", "dp4a", "ex2", "fma", "fns", "lg2", "lop3", "mad",
	"mad24", "max", "min", "mov", "mul", "mul24", "neg", "not", "or", "popc", "prmt", "rcp",
	"rem", "rsqrt", "sad", "selp", "set", "setp", "shf", "shl", "shr", "sin", "slct", "sqrt",
	"sub", "szext", "tanh", "testp", "xor",
};

static bool begins(const struct gck_ptx *ptx, uint32_t op, const char *name)
{
	const struct gck_ptx_token *t = &ptx->tokens[op];
	size_t n = strlen(name), length = t->end - t->begin;

	return length >= n && !memcmp(ptx->text + t->begin, name, n) &&
	       (length == n || ptx->text[t->begin + n] == '.');
}

bool gck_instruction_has(const struct gck_ptx *ptx, uint32_t op, const char *part)
{
	const struct gck_ptx_token *t = &ptx->tokens[op];
	size_t n = strlen(part);

	for (uint32_t at = t->begin; at + n < t->end; at++)
		if (ptx->text[at] == '.' && !memcmp(ptx->text + at + 1, part, n) &&
		    (at + 1 + n == t->end || ptx->text[at + 1 + n] == '.'))
			return true;
	return false;
}

unsigned gck_instruction_traits(const struct gck_ptx *ptx, uint32_t op, const char **why)
{
	unsigned carry = gck_instruction_has(ptx, op, "cc") ? GCK_CARRY_OUT : 0;

	*why = NULL;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (begins(ptx, op, table[i].name)) {
			*why = table[i].why;
			return table[i].traits | carry;
		}
	for (size_t i = 0; i < sizeof arithmetic / sizeof *arithmetic; i++)
		if (begins(ptx, op, arithmetic[i]))
			return PLAIN | GCK_PURE | carry;
	*why = "an instruction that is not known";
	return GCK_REFUSED;
}

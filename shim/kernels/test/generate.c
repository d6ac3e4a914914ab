/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "generate.h"

struct made {
	FILE *out;
	unsigned random, label, loops, left; /* statements that may still come */
	unsigned threads;
	bool is_marked, has_warp, has_barrier, has_dynamic, has_grid, may_end;
};

/* Which threads do a statement together. */
enum together { SOME, BLOCK, GRID };

static unsigned draw(struct made *m, unsigned n)
{
	m->random = m->random * 1103515245 + 12345;
	return (m->random >> 8) % n;
}

#define SAY(...) fprintf(m->out, __VA_ARGS__)

static void arithmetic(struct made *m)
{
	static const char *const ops[] = { "add.u32", "sub.u32", "mul.lo.u32", "and.b32", "xor.b32",
					   "or.b32", "min.u32", "max.u32" };
	unsigned d = draw(m, 8), a = draw(m, 8), b = draw(m, 8);

	switch (draw(m, 11)) {
	case 9: case 10: SAY("\t@%s%%p%u mul.lo.u32 %%r%u, %%r%u, %u;\n", draw(m, 2) ? "!" : "",
			     draw(m, 4), d, a, 3 + draw(m, 99)); break;
	case 0: SAY("\tfma.rn.f32 %%f%u, %%f%u, 0f3F400000, %%f%u;\n", d % 3, a % 3, b % 3); break;
	case 1: SAY("\tadd.f32 %%f%u, %%f%u, %%f%u;\n", d % 3, a % 3, b % 3); break;
	case 2: SAY("\tfma.rn.f64 %%d%u, %%d%u, 0d3FE0000000000000, %%d%u;\n", d % 2, a % 2, b % 2);
		break;
	case 3: SAY("\tcvt.rn.f32.u32 %%f%u, %%r%u;\n", d % 3, a); break;
	case 4: SAY("\tshr.u32 %%r%u, %%r%u, %u;\n", d, a, draw(m, 31)); break;
	case 5: SAY("\tmad.lo.u32 %%r%u, %%r%u, %u, %%r%u;\n", d, a, draw(m, 1000), b); break;
	case 6: SAY("\tmul.wide.u32 %%l%u, %%r%u, %%r%u;\n\tcvt.u32.u64 %%r%u, %%l%u;\n", d % 2, a,
		    b, d, a % 2); break;
	case 7: SAY("\tsetp.lt.u32 %%p%u, %%r%u, %%r%u;\n\tselp.b32 %%r%u, %%r%u, %%r%u, %%p%u;\n",
		    d % 4, a, b, d, b, a, draw(m, 4)); break;
	default: SAY("\t%s %%r%u, %%r%u, %%r%u;\n", ops[draw(m, 8)], d, a, b);
	}
}

/* A thread gives its register to the next one of the block. */
static void exchange(struct made *m)
{
	const char *where = m->has_dynamic && draw(m, 2) ? "dyn" : "box";
	unsigned d = draw(m, 8), a = draw(m, 8);

	if (m->may_end) { /* the neighbour may have ended */
		SAY("\tbar.sync 0;\n");
		return;
	}
	SAY("\tmov.u32 %%s1, %s;\n\tadd.u32 %%s2, %%s1, %%s0;\n\tst.shared.u32 [%%s2], %%r%u;\n"
	    "\tbar.sync 0;\n\tadd.u32 %%s1, %%s1, %%s3;\n\tld.shared.u32 %%r%u, [%%s1];\n"
	    "\tbar.sync 0;\n", where, a, d);
}

static void memory(struct made *m)
{
	unsigned d = draw(m, 8), a = draw(m, 8);

	switch (draw(m, 5)) {
	case 0: SAY("\tand.b32 %%s1, %%r%u, 28;\n\tcvt.u64.u32 %%l2, %%s1;\n"
		    "\tadd.u64 %%l2, %%l3, %%l2;\n\tst.local.u32 [%%l2], %%r%u;\n", a, d); break;
	case 1: SAY("\tand.b32 %%s1, %%r%u, 28;\n\tcvt.u64.u32 %%l2, %%s1;\n"
		    "\tadd.u64 %%l2, %%l3, %%l2;\n\tld.local.u32 %%r%u, [%%l2];\n", a, d); break;
	case 2: SAY("\tst.global.u32 [%%l4+%u], %%r%u;\n", 4 * draw(m, 8), a); break;
	case 3: SAY("\tld.global.u32 %%r%u, [%%l4+%u];\n", d, 4 * draw(m, 8)); break;
	default: SAY("\tred.global.add.u32 [%%l5+%u], %%r%u;\n", 4 * draw(m, 8), a);
	}
}

static void call(struct made *m)
{
	unsigned id = m->label++;

	SAY("\t{ // callseq %u\n\t.param .b32 param0;\n\tst.param.b32 [param0+0], %%r%u;\n"
	    "\t.param .b32 param1;\n\tst.param.b32 [param1+0], %%r%u;\n\t.param .b32 retval0;\n"
	    "\tcall.uni (retval0), f, (param0, param1);\n\tld.param.b32 %%r%u, [retval0+0];\n\t}\n",
	    id, draw(m, 8), draw(m, 8), draw(m, 8));
}

/* Points and warps: a warp must come to them together. */
static void together(struct made *m)
{
	unsigned d = draw(m, 8), a = draw(m, 8);

	if (m->has_warp)
		SAY("\tshfl.sync.bfly.b32 %%r%u, %%r%u, %u, 31, -1;\n", d, a, 1u << draw(m, 5));
}

static void point(struct made *m)
{
	if (m->is_marked)
		SAY("\t// gpuckpt point\n");
}

static void statements(struct made *m, unsigned n, unsigned depth, enum together who);

/* Whether threads that do a statement together have a predicate for it that is never set by threads
 * that are apart: %p6 and %p7. */
static bool has_common(const struct made *m, enum together who)
{
	return who && !m->may_end;
}

/* %u0 is the block's, %u1 the grid's. */
static void branch(struct made *m, unsigned depth, enum together who)
{
	unsigned id = m->label++, u = 0;
	bool same = draw(m, 2);
	unsigned p = same && has_common(m, who) ? 6 : 4;

	if (same) {
		u = draw(m, 2);
		SAY("\tsetp.lt.u32 %%p%u, %%u%u, %u;\n", p, u, draw(m, 4));
	} else {
		SAY("\tand.b32 %%s1, %%r%u, 1;\n\tsetp.eq.u32 %%p4, %%s1, 0;\n", draw(m, 8));
	}
	who = !same ? SOME : who && !u ? BLOCK : who;
	SAY("\t@%s%%p%u bra $E%u;\n", draw(m, 2) ? "!" : "", p, id);
	statements(m, 1 + draw(m, 3), depth + 1, who);
	SAY("\tbra.uni $J%u;\n$E%u:\n", id, id);
	statements(m, draw(m, 3), depth + 1, who);
	SAY("$J%u:\n", id);
}

static void table(struct made *m, unsigned depth)
{
	unsigned id = m->label++;

	SAY("\tand.b32 %%s1, %%r%u, 1;\n$T%u: .branchtargets $A%u, $B%u;\n\tbrx.idx %%s1, $T%u;\n"
	    "$A%u:\n", draw(m, 8), id, id, id, id, id);
	statements(m, 1, depth + 1, SOME);
	SAY("\tbra.uni $C%u;\n$B%u:\n", id, id);
	statements(m, 1, depth + 1, SOME);
	SAY("$C%u:\n", id);
}

static void loop(struct made *m, unsigned depth, enum together who)
{
	unsigned id = m->label++, counter = m->loops++;
	bool same = draw(m, 3) > 0;
	unsigned p = same && has_common(m, who) ? 7 : 5;

	if (same)
		SAY("\tadd.u32 %%e%u, %%u1, %u;\n", counter, 1 + draw(m, 4));
	else
		SAY("\tand.b32 %%e%u, %%r%u, 3;\n\tadd.u32 %%e%u, %%e%u, 1;\n", counter, draw(m, 8),
		    counter, counter);
	SAY("\tmov.u32 %%c%u, 0;\n$L%u:\n", counter, id);
	if ((who && same) || !m->has_warp)
		point(m);
	statements(m, 1 + draw(m, 4), depth + 1, same ? who : SOME);
	SAY("\tadd.u32 %%c%u, %%c%u, 1;\n\tsetp.lt.u32 %%p%u, %%c%u, %%e%u;\n"
	    "\t@%%p%u bra $L%u;\n", counter, counter, p, counter, counter, p, id);
}

static void barrier(struct made *m)
{
	unsigned d = draw(m, 8);

	if (draw(m, 3))
		exchange(m);
	else if (m->may_end)
		SAY("\tbar.sync 0;\n");
	else if (draw(m, 2)) /* as __syncthreads_or() */
		SAY("\t{\n\t.reg .pred %%z<2>;\n\tsetp.ne.u32 %%z0, %%r%u, %%r%u;\n"
		    "\tbar.red.or.pred %%z1, 0, %%z0;\n\tselp.u32 %%r%u, 1, 0, %%z1;\n\t}\n",
		    draw(m, 8), draw(m, 8), d);
	else
		SAY("\tsetp.lt.u32 %%p%u, %%r%u, %%r%u;\n\tbar.red.popc.u32 %%r%u, 0, %%p%u;\n",
		    d % 4, d, draw(m, 8), draw(m, 8), d % 4);
}

/* A barrier of the grid, as nvcc makes it of barrier_arrive() and barrier_wait(), or of sync(). */
static void arrive(struct made *m)
{
	unsigned id = m->label++;

	SAY("\tsetp.ne.s64 %%p8, %%g2, 0;\n\t@%%p8 bra $V%u;\n\ttrap;\n$V%u:\n\tmov.u32 %%h6, 0;\n"
	    "\tbarrier.sync 0;\n\t@%%p9 bra $W%u;\n"
	    "\tatom.add.release.gpu.u32 %%h6,[%%g3],%%h3;\n$W%u:\n", id, id, id, id);
}

static void await(struct made *m)
{
	unsigned id = m->label++;

	SAY("\t@%%p9 bra $Y%u;\n$X%u:\n\tld.acquire.gpu.u32 %%h7,[%%g3];\n"
	    "\txor.b32 %%h7, %%h7, %%h6;\n\tsetp.gt.s32 %%p10, %%h7, -1;\n\t@%%p10 bra $X%u;\n"
	    "$Y%u:\n\tbarrier.sync 0;\n", id, id, id, id);
}

/* A thread gives its register to the same one of the next block. */
static void grid(struct made *m, unsigned depth)
{
	unsigned d = draw(m, 8), a = draw(m, 8);

	SAY("\tst.global.u32 [%%g4], %%r%u;\n", a);
	arrive(m);
	if (depth < 3 && !draw(m, 3))
		statements(m, 1 + draw(m, 3), depth + 1, BLOCK);
	await(m);
	SAY("\tld.global.u32 %%r%u, [%%g5];\n", d);
	arrive(m);
	await(m);
}

static void statements(struct made *m, unsigned n, unsigned depth, enum together who)
{
	for (; n && m->left; n--) {
		m->left--;
		if (m->has_grid && !m->may_end && who == GRID && !draw(m, 5)) {
			grid(m, depth);
			continue;
		}
		switch (draw(m, 12)) {
		case 0: case 1: memory(m); break;
		case 2: call(m); break;
		case 3: if (depth < 3) branch(m, depth, who); break;
		case 4: case 5:
			if (depth < 3 && m->loops < 8)
				loop(m, depth, who);
			break;
		case 6: if (who && m->has_barrier) barrier(m); break;
		case 7: if (who) together(m); break;
		case 8: if (who || !m->has_warp) point(m); break;
		case 9: if (depth < 3 && !draw(m, 3)) table(m, depth); break;
		default: arithmetic(m);
		}
	}
}

static void header(struct made *m)
{
	SAY("// threads %u dynamic %u grid %u\n", m->threads,
	    m->has_dynamic ? 4 * m->threads : 0, m->has_grid);
	SAY(".version 8.0\n.target sm_90\n.address_size 64\n\n");
	if (m->has_dynamic)
		SAY(".extern .shared .align 16 .b8 dyn[];\n");
	SAY(".func (.param .b32 back) f(.param .b32 a, .param .b32 b)\n{\n\t.reg .b32 %%x<4>;\n"
	    "\t.reg .pred %%q<2>;\n\tld.param.u32 %%x0, [a];\n\tld.param.u32 %%x1, [b];\n"
	    "\tsetp.lt.u32 %%q0, %%x0, %%x1;\n\t@%%q0 bra $F;\n\txor.b32 %%x0, %%x0, 85;\n$F:\n"
	    "\tadd.u32 %%x0, %%x0, %%x1;\n\tst.param.b32 [back+0], %%x0;\n\tret;\n}\n\n");
	SAY(".visible .entry k(.param .u64 out, .param .u32 n, .param .u32 m)\n{\n"
	    "\t.local .align 8 .b8 depot[32];\n\t.reg .pred %%p<11>;\n"
	    "\t.reg .b32 %%r<8>, %%s<5>, %%u<2>, %%c<8>, %%e<8>;\n"
	    "\t.reg .f32 %%f<3>;\n\t.reg .f64 %%d<2>;\n\t.reg .b64 %%l<7>;\n");
	if (m->has_grid)
		SAY("\t.reg .b32 %%h<8>;\n\t.reg .b64 %%g<6>;\n");
	if (m->has_barrier)
		SAY("\t.shared .align 4 .b8 box[%u];\n", 4 * m->threads);
}

/* %g2: the grid's workspace; %g3: the barrier's word; %h3: what the block adds to it; %p9: not its
 * first thread; %g4, %g5: a word of the thread's own, and that of the same one of the next
 * block. */
static void begin_grid(struct made *m)
{
	SAY("\tmov.u32 %%h0, %%envreg2;\n\tcvt.u64.u32 %%g0, %%h0;\n"
	    "\tmov.u32 %%h1, %%envreg1;\n\tcvt.u64.u32 %%g1, %%h1;\n"
	    "\tbfi.b64 %%g2, %%g1, %%g0, 32, 32;\n"
	    "\tadd.s64 %%g3, %%g2, 4;\n\tmov.u32 %%h2, %%nctaid.x;\n"
	    "\tsub.s32 %%h3, -2147483647, %%h2;\n\tsetp.eq.u32 %%p8, %%u0, 0;\n"
	    "\tselp.b32 %%h3, %%h3, 1, %%p8;\n\tsetp.ne.u32 %%p9, %%s0, 0;\n"
	    "\tmul.wide.u32 %%g4, %%r0, 4;\n\tadd.u64 %%g4, %%g4, %%l5;\n"
	    "\tadd.u64 %%g4, %%g4, %u;\n\tadd.u32 %%h4, %%u0, 1;\n\trem.u32 %%h4, %%h4, %%h2;\n"
	    "\tmov.u32 %%h5, %%ntid.x;\n\tsub.u32 %%h4, %%h4, %%u0;\n"
	    "\tmul.lo.u32 %%h4, %%h4, %%h5;\n\tcvt.s64.s32 %%g5, %%h4;\n"
	    "\tshl.b64 %%g5, %%g5, 2;\n\tadd.s64 %%g5, %%g5, %%g4;\n", 4 * GENERATE_SUMS);
}

/* Everything has a value that depends on the thread. */
static void begin(struct made *m)
{
	SAY("\tld.param.u64 %%l4, [out];\n\tld.param.u32 %%u1, [n];\n\tmov.u32 %%u0, %%ctaid.x;\n"
	    "\tmov.u32 %%s0, %%tid.x;\n\tmov.u32 %%s1, %%ntid.x;\n\tmov.u32 %%s2, %%nctaid.x;\n"
	    "\tmad.lo.u32 %%r0, %%u0, %%s1, %%s0;\n\tmul.lo.u32 %%s2, %%s2, %%s1;\n"
	    "\tmul.wide.u32 %%l5, %%s2, %u;\n\tadd.u64 %%l5, %%l5, %%l4;\n"
	    "\tmul.wide.u32 %%l6, %%r0, %u;\n\tadd.u64 %%l4, %%l4, %%l6;\n"
	    "\tadd.u32 %%s3, %%s0, 1;\n\trem.u32 %%s3, %%s3, %%s1;\n\tshl.b32 %%s3, %%s3, 2;\n"
	    "\tshl.b32 %%s0, %%s0, 2;\n\tmov.u64 %%l3, depot;\n",
	    4 * GENERATE_WORDS, 4 * GENERATE_WORDS);
	for (unsigned i = 1; i < 8; i++)
		SAY("\tmad.lo.u32 %%r%u, %%r%u, %u, %u;\n", i, i - 1, 3 + draw(m, 99999),
		    draw(m, 99999));
	for (unsigned i = 0; i < 8; i++)
		SAY("\tst.local.u32 [%%l3+%u], %%r%u;\n", 4 * i, i);
	for (unsigned i = 0; i < 3; i++)
		SAY("\tcvt.rn.f32.u32 %%f%u, %%r%u;\n", i, i);
	for (unsigned i = 0; i < 2; i++)
		SAY("\tcvt.rn.f64.u32 %%d%u, %%r%u;\n\tcvt.u64.u32 %%l%u, %%r%u;\n", i, i, i, i);
	for (unsigned i = 0; i < 4; i++)
		SAY("\tsetp.lt.u32 %%p%u, %%r%u, %%r%u;\n", i, i, i + 1);
	if (m->has_grid)
		begin_grid(m);
}

static void end(struct made *m)
{
	for (unsigned i = 0; i < 8; i++)
		SAY("\tst.global.u32 [%%l4+%u], %%r%u;\n", 32 + 4 * i, i);
	for (unsigned i = 0; i < 3; i++)
		SAY("\tst.global.f32 [%%l4+%u], %%f%u;\n", 4 * i, i);
	SAY("\tst.global.f64 [%%l4+16], %%d0;\n\tst.global.f64 [%%l4+24], %%d1;\n\tret;\n}\n");
}

char *generate(unsigned seed, bool is_marked, struct shape *shape, size_t *size)
{
	char *text;
	struct made made = { .random = seed * 2654435761u + 99, .left = 60,
			     .is_marked = is_marked, .has_grid = seed % 3 == 2 };
	struct made *m = &made;

	m->out = open_memstream(&text, size);
	draw(m, 2);
	m->threads = 1 + draw(m, draw(m, 2) ? 40 : 8);
	m->has_barrier = draw(m, 3) > 0;
	m->has_dynamic = m->has_barrier && draw(m, 2);
	m->has_warp = draw(m, 3) == 0;
	if (m->has_warp) /* shfl of a lane that is not there gives anything */
		m->threads = (m->threads + 31) / 32 * 32;
	header(m);
	begin(m);
	statements(m, 3 + draw(m, 5), 0, GRID);
	if (!m->has_warp && draw(m, 2)) { /* some threads end early */
		SAY("\tand.b32 %%s1, %%r%u, 3;\n\tsetp.eq.u32 %%p4, %%s1, 0;\n\t@%%p4 ret;\n",
		    draw(m, 8));
		m->may_end = true;
	}
	point(m);
	statements(m, 3 + draw(m, 8), 0, GRID);
	end(m);
	fclose(m->out);
	*shape = (struct shape){ m->threads, m->has_dynamic ? 4 * m->threads : 0, m->has_grid };
	return text;
}

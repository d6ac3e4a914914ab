/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "generate.h"

struct made {
	FILE *out;
	unsigned random, label, loops, left; /* statements that may still come */
	unsigned threads;
	bool is_marked, has_warp, has_barrier, has_dynamic, may_end;
};

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

static void statements(struct made *m, unsigned n, unsigned depth, bool is_uniform);

static void branch(struct made *m, unsigned depth, bool is_uniform)
{
	unsigned id = m->label++;
	bool same = draw(m, 2);
	unsigned p = same && is_uniform ? 6 : 4; /* %p6 and %p7 are equal in a block */

	if (same)
		SAY("\tsetp.lt.u32 %%p%u, %%u%u, %u;\n", p, draw(m, 2), draw(m, 4));
	else
		SAY("\tand.b32 %%s1, %%r%u, 1;\n\tsetp.eq.u32 %%p4, %%s1, 0;\n", draw(m, 8));
	SAY("\t@%s%%p%u bra $E%u;\n", draw(m, 2) ? "!" : "", p, id);
	statements(m, 1 + draw(m, 3), depth + 1, is_uniform && same);
	SAY("\tbra.uni $J%u;\n$E%u:\n", id, id);
	statements(m, draw(m, 3), depth + 1, is_uniform && same);
	SAY("$J%u:\n", id);
}

static void table(struct made *m, unsigned depth)
{
	unsigned id = m->label++;

	SAY("\tand.b32 %%s1, %%r%u, 1;\n$T%u: .branchtargets $A%u, $B%u;\n\tbrx.idx %%s1, $T%u;\n"
	    "$A%u:\n", draw(m, 8), id, id, id, id, id);
	statements(m, 1, depth + 1, false);
	SAY("\tbra.uni $C%u;\n$B%u:\n", id, id);
	statements(m, 1, depth + 1, false);
	SAY("$C%u:\n", id);
}

static void loop(struct made *m, unsigned depth, bool is_uniform)
{
	unsigned id = m->label++, counter = m->loops++;
	bool same = draw(m, 3) > 0;
	unsigned p = same && is_uniform ? 7 : 5;

	if (same)
		SAY("\tadd.u32 %%e%u, %%u1, %u;\n", counter, 1 + draw(m, 4));
	else
		SAY("\tand.b32 %%e%u, %%r%u, 3;\n\tadd.u32 %%e%u, %%e%u, 1;\n", counter, draw(m, 8),
		    counter, counter);
	SAY("\tmov.u32 %%c%u, 0;\n$L%u:\n", counter, id);
	if ((is_uniform && same) || !m->has_warp)
		point(m);
	statements(m, 1 + draw(m, 4), depth + 1, is_uniform && same);
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

static void statements(struct made *m, unsigned n, unsigned depth, bool is_uniform)
{
	for (; n && m->left; n--) {
		m->left--;
		switch (draw(m, 12)) {
		case 0: case 1: memory(m); break;
		case 2: call(m); break;
		case 3: if (depth < 3) branch(m, depth, is_uniform); break;
		case 4: case 5:
			if (depth < 3 && m->loops < 8)
				loop(m, depth, is_uniform);
			break;
		case 6: if (is_uniform && m->has_barrier) barrier(m); break;
		case 7: if (is_uniform) together(m); break;
		case 8: if (is_uniform || !m->has_warp) point(m); break;
		case 9: if (depth < 3 && !draw(m, 3)) table(m, depth); break;
		default: arithmetic(m);
		}
	}
}

static void header(struct made *m)
{
	SAY("// threads %u dynamic %u\n", m->threads, m->has_dynamic ? 4 * m->threads : 0);
	SAY(".version 8.0\n.target sm_90\n.address_size 64\n\n");
	if (m->has_dynamic)
		SAY(".extern .shared .align 16 .b8 dyn[];\n");
	SAY(".func (.param .b32 back) f(.param .b32 a, .param .b32 b)\n{\n\t.reg .b32 %%x<4>;\n"
	    "\t.reg .pred %%q<2>;\n\tld.param.u32 %%x0, [a];\n\tld.param.u32 %%x1, [b];\n"
	    "\tsetp.lt.u32 %%q0, %%x0, %%x1;\n\t@%%q0 bra $F;\n\txor.b32 %%x0, %%x0, 85;\n$F:\n"
	    "\tadd.u32 %%x0, %%x0, %%x1;\n\tst.param.b32 [back+0], %%x0;\n\tret;\n}\n\n");
	SAY(".visible .entry k(.param .u64 out, .param .u32 n, .param .u32 m)\n{\n"
	    "\t.local .align 8 .b8 depot[32];\n\t.reg .pred %%p<8>;\n"
	    "\t.reg .b32 %%r<8>, %%s<5>, %%u<2>, %%c<8>, %%e<8>;\n"
	    "\t.reg .f32 %%f<3>;\n\t.reg .f64 %%d<2>;\n\t.reg .b64 %%l<7>;\n");
	if (m->has_barrier)
		SAY("\t.shared .align 4 .b8 box[%u];\n", 4 * m->threads);
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
}

static void end(struct made *m)
{
	for (unsigned i = 0; i < 8; i++)
		SAY("\tst.global.u32 [%%l4+%u], %%r%u;\n", 32 + 4 * i, i);
	for (unsigned i = 0; i < 3; i++)
		SAY("\tst.global.f32 [%%l4+%u], %%f%u;\n", 4 * i, i);
	SAY("\tst.global.f64 [%%l4+16], %%d0;\n\tst.global.f64 [%%l4+24], %%d1;\n\tret;\n}\n");
}

char *generate(unsigned seed, int is_marked, unsigned *threads, unsigned *dynamic, size_t *size)
{
	char *text;
	struct made made = { .random = seed * 2654435761u + 99, .left = 60,
			     .is_marked = is_marked };
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
	statements(m, 3 + draw(m, 5), 0, true);
	if (!m->has_warp && draw(m, 2)) { /* some threads end early */
		SAY("\tand.b32 %%s1, %%r%u, 3;\n\tsetp.eq.u32 %%p4, %%s1, 0;\n\t@%%p4 ret;\n",
		    draw(m, 8));
		m->may_end = true;
	}
	point(m);
	statements(m, 3 + draw(m, 8), 0, true);
	end(m);
	fclose(m->out);
	*threads = m->threads;
	*dynamic = m->has_dynamic ? 4 * m->threads : 0;
	return text;
}

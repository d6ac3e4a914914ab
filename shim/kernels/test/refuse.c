/* SPDX-License-Identifier: Apache-2.0
 * What a kernel with points must not have is refused, with the file and line of what it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/pass/points.h"
#include "test/support/tap.h"

#define POINT "\t.loc 1 3 1\n\t// gpuckpt point\n"
#define AT "\t.loc 1 7 1\n" /* what comes next is refused */
/* The first thread waits for others, the rest are at E. */
#define WAIT(before) "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra E; " before AT \
	"L: ld.volatile.global.u32 %r1, [%l1]; setp.eq.u32 %p3, %r1, 0; @%p3 bra L; "
#define GRID "mov.u32 %r1, %envreg2; cvt.u64.u32 %l3, %r1; mov.u32 %r2, %envreg1;" \
	"cvt.u64.u32 %l2, %r2; bfi.b64 %l3, %l2, %l3, 32, 32;\n"

static const struct {
	const char *body, *why;
	unsigned line;
	const char *before, *header; /* of the module, of the kernel */
} rows[] = {
	{ POINT AT "bar.sync 1, 64;", "a named barrier", 7 },
	{ POINT AT "bar.sync 1;", "a named barrier", 7 },
	{ POINT AT "barrier.sync %r1;", "a named barrier", 7 },
	{ POINT AT "bar.sync 0, 64;", "a barrier of a part of the block", 7 },
	{ POINT AT "bar.red.popc.u32 %r1, 1, %p1;", "a named barrier", 7 },
	{ POINT AT "bar.arrive 0, 64;", "does not wait", 7 },
	{ POINT AT "barrier.arrive 0, 64;", "does not wait", 7 },
	{ POINT "{" AT "@%p1 bar.sync 0; }", "a barrier within a block of inline assembly", 7 },
	{ POINT "{" AT "bar.sync 0; bar.sync 0; }",
	  "a barrier within a block of inline assembly", 7 },
	{ POINT "{ {" AT "bar.sync 0; } }", "a barrier within a block of inline assembly", 7 },
	{ POINT AT "barrier.cluster.arrive;", "a barrier of a cluster", 7 },
	{ POINT AT "mapa.u64 %l1, %l2, 1;", "memory of a cluster", 7 },
	{ POINT AT "mov.u32 %r1, %cluster_ctarank;", "clusters", 7 },
	{ POINT, "clusters", 3, "", ".reqnctapercluster 2, 1, 1" },
	{ POINT, "clusters", 3, "", ".explicitcluster" },
	{ POINT AT "mov.u32 %r1, %envreg3;", "a register of the driver", 7 },
	{ POINT AT "@%p1 mov.u32 %r1, %envreg2;", "a register of the driver", 7 },
	{ POINT "{" AT "mov.u32 %r1, %envreg2; }", "a register of the driver", 7 },
	{ POINT AT "add.u32 %r1, %r2, %envreg2;", "a register of the driver", 7 },
	{ POINT AT "call g;", "a barrier of the grid (grid.sync), in function g", 9,
	  ".func g() {\n.reg .b32 %r;\n.loc 1 9 1\nmov.u32 %r, %envreg1; ret; }" },
	{ POINT GRID AT "st.global.u64 [%l1], %l3;", "no barrier of the grid", 7 },
	{ POINT GRID AT "ld.acquire.gpu.u32 %r3, [%l3];", "no barrier of the grid", 7 },
	{ POINT GRID AT "ld.acquire.gpu.u32 %r3, [%l3+8];", "no barrier of the grid", 7 },
	{ POINT GRID AT "ld.acquire.gpu.u64 %l1, [%l3+4];", "no barrier of the grid", 7 },
	{ POINT GRID AT "ld.global.u32 %r3, [%l3+4];", "no barrier of the grid", 7 },
	{ POINT GRID AT "atom.exch.b32 %r3, [%l3+4], %r4;", "no barrier of the grid", 7 },
	{ POINT GRID "add.s64 %l3, %l3, %l1;" AT "atom.add.u32 %r3, [%l3+4], %r4;",
	  "no barrier of the grid", 7 },
	{ POINT GRID "add.s64 %l1, %l3, 4;" AT "atom.add.u32 %r3, [%l1+4], %r4;",
	  "no barrier of the grid", 7 },
	{ POINT GRID AT "{ .param .b64 a; st.param.b64 [a], %l3; call g, (a); }",
	  "no barrier of the grid", 7, ".func g(.param .b64 a) {\nret; }" },
	{ POINT, "device code may launch", 3,
	  ".func g() {\n.reg .b64 %l;\nmov.u64 %l, k; ret; }" },
	{ POINT, "device code may launch", 3, ".entry k(.param .u64 p);\n.global .u64 x = k;" },
	{ POINT AT "mbarrier.init.shared.b64 [%r1], 1;", "mbarrier", 7 },
	{ POINT AT "mbarrier.try_wait.shared.b64 %p1, [%r1], %l1;", "mbarrier", 7 },
	{ POINT AT "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
		   "[%r1], [%l1], 16, [%r2];", "cp.async.bulk", 7 },
	{ POINT AT "cp.async.mbarrier.arrive.shared.b64 [%r1];", "cp.async.mbarrier", 7 },
	{ POINT AT "wgmma.fence.sync.aligned;", "wgmma", 7 },
	{ POINT AT "tcgen05.wait::ld.sync.aligned;", "tcgen05", 7 },
	{ POINT AT "setmaxnreg.inc.sync.aligned.u32 96;", "setmaxnreg", 7 },
	{ POINT AT "griddepcontrol.wait;", "griddepcontrol", 7 },
	{ POINT AT "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], "
		   "%r2, [%r3];",
	  "st.async", 7 },
	{ POINT AT "alloca.u64 %l1, 16;", "alloca", 7 },
	{ POINT AT "vadd.u32.u32.u32 %r1, %r2, %r3;", "not known", 7 },
	{ POINT AT "{\nlab: add.u32 %r1, %r1, 1;\n}", "a label in inline assembly", 7 },
	{ AT "{\n\t// gpuckpt point\n}", "a point within inline assembly", 7 },
	{ POINT AT "call (%r1), %l1, (%r2), proto;", "a function pointer", 7 },
	{ POINT AT "call other;", "not in this file", 7, ".extern .func other();" },
	{ POINT AT "call g;", "bar.sync, in function g", 9,
	  ".func g() {\n.loc 1 9 1\nbar.sync 0; ret; }" },
	{ POINT AT "call g;", "shfl.sync.idx.b32, in function g", 9,
	  ".func g() {\n.reg .b32 %r<3>;\n.loc 1 9 1\n"
	  "shfl.sync.idx.b32 %r1, %r2, 0, 31, -1; ret; }" },
	{ POINT AT "call g;", "may wait for other threads", 9,
	  ".func g() {\n.reg .b32 %r<3>; .reg .b64 %l; .reg .pred %p;\n"
	  "L: ld.volatile.global.u32 %r1, [%l];\nsetp.eq.u32 %p, %r1, 0;\n"
	  ".loc 1 9 1\n@%p bra L; ret; }" },
	{ POINT AT "call g;", "shared memory of function g", 9,
	  ".func g() {\n.loc 1 9 1\n.shared .b32 x; ret; }" },
	{ POINT AT "call g;", "mbarrier", 9,
	  ".func g() {\n.reg .b32 %r<3>;\n.loc 1 9 1\nmbarrier.init.shared.b64 [%r1], 1; ret; }" },
	{ "", "was not inlined", 9, ".func g() {\n.loc 1 9 1\n// gpuckpt point\nret; }" },
	{ "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;" POINT "L: "
	  "shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;",
	  "the threads of a warp may reach this point apart", 3 },
	{ "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 ret;" POINT
	  "shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;",
	  "the threads of a warp may reach this point apart", 3 },
	{ "mov.u32 %r1, %tid.x; mov.u32 %r2, 0;\nL:" POINT "add.u32 %r2, %r2, 1; "
	  "setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; vote.sync.any.pred %p2, %p1, -1;",
	  "the threads of a warp may reach this point apart", 3 },
	{ POINT WAIT("") "E: shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;",
	  "waits for other threads", 7 },
	{ POINT WAIT("") "E: @%p2 bar.sync 0; shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;",
	  "waits for other threads", 7 },
	{ POINT WAIT("bar.sync 0;") "E: bar.sync 0; shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;",
	  "waits for other threads", 7 },
	{ POINT WAIT("") "bra M; E: shfl.sync.idx.b32 %r1, %r1, 0, 31, -1; M: bar.sync 0;",
	  "waits for other threads", 7 },
	{ POINT "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p2, %r2, 0; mov.u32 %r3, %tid.x; "
	  "setp.eq.u32 %p0, %r3, 5; @%p2 bra B; " WAIT("") "E: bra M; B: @%p0 bra X; "
	  "M: bar.sync 0; X: shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;",
	  "waits for other threads", 7 },
	{ POINT WAIT("") "E: @%p2 bra M; bar.sync 0; bra X; M: bar.sync 0; X:",
	  "waits for other threads", 7 },
	{ POINT ".shared .b32 a; " WAIT("") "E: ", "waits for other threads", 7 },
	{ "add.cc.u32 %r1, %r2, %r3;" POINT "addc.u32 %r2, %r2, 0; st.global.u32 [%l1], %r2;",
	  "carry flag", 3 },
	{ "mov.b128 %w1, {%l1, %l2};" POINT "st.global.b128 [%l1], %w1;", "128 bits", 3 },
	{ ".shared .b32 a, b;" POINT, "a shared variable that cannot be saved", 0 },
	{ POINT AT "bra nowhere;", "no label", 7 },
	{ POINT "T: .branchtargets A; A:\n" AT "brx.idx T;", "without a label", 7 },
	{ POINT AT "@%none ret;", "a guard that is not declared", 7 },
	{ POINT AT "mov.u32 %gck_t, 0;", "has been through gckcc", 7 },
	{ AT "// gpuckpt point /a/b.cu:12\n\tbar.sync 1;", "", 7 },
};

/* The line, or 0, of "FILE:LINE: " in front; -1: it is accepted. */
static int refused(const char *text, struct gck_error *err)
{
	struct gck_ptx *ptx = gck_ptx_read(text, strlen(text), err);
	FILE *out = fopen("/dev/null", "w");
	unsigned line = 0;
	int result;

	must(ptx && out ? 0 : -1);
	result = gck_points_write(ptx, NULL, out, NULL, err);
	sscanf(err->text, "/src/x.cu:%u:", &line);
	fclose(out);
	gck_ptx_free(ptx);
	return result ? (int)line : -1;
}

static void row_text(size_t i, const char *target, char *text, size_t size)
{
	snprintf(text, size, ".version 9.0\n.target %s\n.address_size 64\n%s\n"
		 ".visible .entry k(.param .u64 p) %s\n{\n.reg .pred %%p<4>; .reg .b32 %%r<9>; "
		 ".reg .b64 %%l<4>; .reg .b128 %%w<2>;\nld.param.u64 %%l1, [p];\n%s\nret;\n}\n"
		 ".file 1 \"/src/x.cu\"\n",
		 target, rows[i].before ? rows[i].before : "", rows[i].header ? rows[i].header : "",
		 rows[i].body);
}

static void check_rows(void)
{
	unsigned wrong = 0;
	char text[4096];

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct gck_error err = { 0 };
		int line;

		row_text(i, "sm_90", text, sizeof text);
		line = refused(text, &err);
		if (line == (int)rows[i].line && strstr(err.text, rows[i].why))
			continue;
		wrong++;
		printf("# row %zu (%s): line %d, not %u: %s\n", i, rows[i].why, line, rows[i].line,
		       err.text);
	}
	is_int(wrong, 0, "each source that must be refused is, with its line and the reason");
	printf("# %zu sources\n", sizeof rows / sizeof *rows);
}

/* The same without a point is left alone. */
static void check_unpointed(void)
{
	unsigned wrong = 0;
	char text[4096], *point;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct gck_error err = { 0 };

		row_text(i, "sm_90", text, sizeof text);
		while ((point = strstr(text, "// gpuckpt point")))
			memcpy(point, "// gpuckpt_point", 16);
		wrong += refused(text, &err) != -1;
	}
	is_int(wrong, 0, "none of them is refused if it has no point");
}

static void check_target(void)
{
	struct gck_error err = { 0 };
	char text[4096];

	snprintf(text, sizeof text, ".version 6.0\n.target sm_60\n.address_size 64\n"
		 ".entry k() {\n%s\nret;\n}\n.file 1 \"/src/x.cu\"\n", POINT);
	ok(all_of(refused(text, &err) == 3, strstr(err.text, "sm_70")), "an old GPU is refused");
}

/* A mark that knows its place in the source, as gckcc makes them. */
static void check_mark(void)
{
	struct gck_error err = { 0 };

	refused(".version 9.0\n.target sm_90\n"
		".func g() {\n// gpuckpt point /a/b.cu:12\nret; }", &err);
	ok(!strncmp(err.text, "/a/b.cu:12: ", 12), "a mark's own file and line");
}

int main(void)
{
	check_rows();
	check_unpointed();
	check_target();
	check_mark();
	return tap_done();
}

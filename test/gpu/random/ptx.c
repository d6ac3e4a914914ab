/* SPDX-License-Identifier: Apache-2.0
 * The program's kernels: in PTX, and in C as the fake driver finds them, which has no modules'
 * variables, textures and surfaces for kernels: there the C ones do something else. */
#include "shim/cuda/test/kernel.h"
#include "test/gpu/random/ptx.h"
#include "test/support/driver/fake.h"

/* Variables have a line each, as the fake driver reads them. `first` and `later` differ in what
 * lies before the variables. */
#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
#define VARIABLES \
	".visible .global .align 8 .u64 total;\n" \
	".visible .global .align 8 .u64 place;\n" \
	".visible .const .align 8 .u64 factor;\n" \
	".visible .global .align 8 .u64 hidden;\n" \
	".extern .shared .align 8 .b8 dynamic[];\n" \
	".func (.param .b64 r) thrice (.param .b64 v)\n" \
	"{ .reg .b64 %v; ld.param.u64 %v, [v]; mad.lo.s64 %v, %v, 3, 1;\n" \
	" st.param.b64 [r], %v; ret; }\n" \
	".visible .global .align 8 .u64 pointer = generic(total);\n" \
	".visible .global .align 8 .u64 called = thrice;\n"

#define KERNELS \
	"// p[0] = 3 p[0] + v + the number of blocks, by the first of all threads\n" \
	".visible .entry add(.param .u64 p, .param .u64 v)\n" \
	"{ .reg .b64 %p, %v, %t; .reg .b32 %r, %n; .reg .pred %q;\n" \
	" ld.param.u64 %p, [p]; ld.param.u64 %v, [v];\n" \
	" mov.u32 %r, %ctaid.x; mov.u32 %n, %tid.x; or.b32 %r, %r, %n; setp.ne.u32 %q, %r, 0;\n" \
	" @%q ret; mov.u32 %n, %nctaid.x; cvt.u64.u32 %t, %n; add.s64 %v, %v, %t;\n" \
	" ld.global.u64 %t, [%p]; mad.lo.s64 %t, %t, 3, %v; st.global.u64 [%p], %t; ret; }\n" \
	"// p[i] = 5 from[i] + v + i, in all threads\n" \
	".visible .entry mix(.param .u64 p, .param .u64 from, .param .u64 v)\n" \
	"{ .reg .b64 %p, %f, %v, %t, %i; .reg .b32 %a, %b, %c;\n" \
	" ld.param.u64 %p, [p]; ld.param.u64 %f, [from]; ld.param.u64 %v, [v];\n" \
	" mov.u32 %a, %ctaid.x; mov.u32 %b, %ntid.x; mov.u32 %c, %tid.x;\n" \
	" mad.lo.u32 %a, %a, %b, %c; cvt.u64.u32 %i, %a; add.s64 %v, %v, %i;\n" \
	" shl.b64 %i, %i, 3; add.s64 %p, %p, %i; add.s64 %f, %f, %i;\n" \
	" ld.global.u64 %t, [%f]; mad.lo.s64 %t, %t, 5, %v; st.global.u64 [%p], %t; ret; }\n" \
	"// total grows by factor, through a stored address, and p[0] by total\n" \
	".visible .entry grow(.param .u64 p, .param .u64 v)\n" \
	"{ .reg .b64 %p, %v, %t, %f, %a;\n" \
	" ld.param.u64 %p, [p]; ld.param.u64 %v, [v]; ld.const.u64 %f, [factor];\n" \
	" ld.global.u64 %a, [pointer]; ld.u64 %t, [%a]; add.s64 %t, %t, %f; add.s64 %t, %t, %v;\n" \
	" st.u64 [%a], %t; ld.global.u64 %f, [hidden]; add.s64 %f, %f, 1;\n" \
	" st.global.u64 [hidden], %f; ld.global.u64 %f, [%p]; add.s64 %f, %f, %t;\n" \
	" st.global.u64 [%p], %f; ret; }\n" \
	"// p[0] is given to the function whose address is stored\n" \
	".visible .entry jump(.param .u64 p)\n" \
	"{ .reg .b64 %p, %t, %a;\n" \
	" ld.param.u64 %p, [p]; ld.global.u64 %t, [%p]; ld.global.u64 %a, [called];\n" \
	" { .param .b64 r; .param .b64 v; st.param.b64 [v], %t;\n" \
	" kind: .callprototype (.param .b64 _) _ (.param .b64 _);\n" \
	" call (r), %a, (v), kind; ld.param.b64 %t, [r]; }\n" \
	" st.global.u64 [%p], %t; ret; }\n" \
	"// 7 times and v more, where the address stored at p says, if there is one\n" \
	".visible .entry follow(.param .u64 p, .param .u64 v)\n" \
	"{ .reg .b64 %p, %v, %t; .reg .pred %q;\n" \
	" ld.param.u64 %p, [p]; ld.param.u64 %v, [v]; ld.global.u64 %p, [%p];\n" \
	" setp.eq.u64 %q, %p, 0; @%q ret;\n" \
	" ld.u64 %t, [%p]; mad.lo.s64 %t, %t, 7, %v; st.u64 [%p], %t; ret; }\n" \
	"// v goes through the last of n bytes of shared memory\n" \
	".visible .entry shared(.param .u64 p, .param .u64 v, .param .u64 n)\n" \
	"{ .reg .b64 %p, %v, %n; .reg .b32 %s, %m;\n" \
	" ld.param.u64 %p, [p]; ld.param.u64 %v, [v]; ld.param.u64 %n, [n];\n" \
	" mov.u32 %s, dynamic; cvt.u32.u64 %m, %n; add.u32 %s, %s, %m;\n" \
	" st.shared.u64 [%s+-8], %v; ld.shared.u64 %v, [%s+-8];\n" \
	" add.s64 %v, %v, %n; st.global.u64 [%p], %v; ret; }\n"

/* What a texture has at one place is added to p[0]. */
#define READ(name, registers, fetch) \
	".visible .entry " name "(.param .u64 p, .param .u64 t, .param .u64 at)\n" \
	"{ .reg .b64 %p, %t, %a; .reg .b32 %x, %y, %z, %r, %g, %b, %w; .reg .f32 %u, %v, %s;\n" \
	" ld.param.u64 %p, [p]; ld.param.u64 %t, [t]; ld.param.u64 %a, [at];\n" \
	" cvt.u32.u64 %x, %a; shr.u32 %y, %x, 8; shr.u32 %z, %x, 16; and.b32 %x, %x, 255;\n" \
	" and.b32 %y, %y, 255; and.b32 %z, %z, 255; cvt.rn.f32.u32 %u, %x;\n" \
	" cvt.rn.f32.u32 %v, %y; cvt.rn.f32.u32 %s, %z;\n" \
	registers \
	" " fetch ";\n cvt.u64.u32 %t, %r; ld.global.u64 %a, [%p]; add.s64 %a, %a, %t;\n" \
	" st.global.u64 [%p], %a; ret; }\n"

#define CENTRE \
	" add.f32 %u, %u, 0f3F000000; add.f32 %v, %v, 0f3F000000; add.f32 %s, %s, 0f3F000000;\n"
#define MIDDLE " mov.f32 %u, 0f3F000000; mov.f32 %v, %u;\n"

#define TEXTURES \
	READ("linear", "", "tex.1d.v4.u32.s32 {%r, %g, %b, %w}, [%t, {%x}]") \
	READ("line", CENTRE, "tex.1d.v4.u32.f32 {%r, %g, %b, %w}, [%t, {%u}]") \
	READ("plane", CENTRE, "tex.2d.v4.u32.f32 {%r, %g, %b, %w}, [%t, {%u, %v}]") \
	READ("body", CENTRE, "tex.3d.v4.u32.f32 {%r, %g, %b, %w}, [%t, {%u, %v, %s, %s}]") \
	READ("level", MIDDLE, \
	     "tex.level.2d.v4.u32.f32 {%r, %g, %b, %w}, [%t, {%u, %v}], %s") \
	"// what a surface has at a place is added to p[0], and then twice that is there\n" \
	".visible .entry paint(.param .u64 p, .param .u64 s, .param .u64 at)\n" \
	"{ .reg .b64 %p, %s, %a; .reg .b32 %x, %y, %r;\n" \
	" ld.param.u64 %p, [p]; ld.param.u64 %s, [s]; ld.param.u64 %a, [at];\n" \
	" cvt.u32.u64 %x, %a; shr.u32 %y, %x, 8; and.b32 %x, %x, 255; and.b32 %y, %y, 255;\n" \
	" shl.b32 %x, %x, 2; suld.b.2d.b32.trap {%r}, [%s, {%x, %y}];\n" \
	" cvt.u64.u32 %a, %r; shl.b32 %r, %r, 1; sust.b.2d.b32.trap [%s, {%x, %y}], {%r};\n" \
	" ld.global.u64 %s, [%p]; add.s64 %a, %a, %s; st.global.u64 [%p], %a; ret; }\n"

const char ptx_first[] = HEAD VARIABLES KERNELS TEXTURES;
const char ptx_later[] = HEAD ".visible .global .align 8 .u64 before;\n"
			 VARIABLES TEXTURES KERNELS
			 ".visible .global .align 8 .u64 behind;\n";

/* ---- in C ------------------------------------------------------------------------------------ */

#define WORD(i) (*(uint64_t *)params[i])
#define POINTER(i) ((uint64_t *)(uintptr_t)WORD(i))

KERNEL(add, 2)
{
	*POINTER(0) = 3 * *POINTER(0) + WORD(1) + grid->grid[0];
}

KERNEL(mix, 3)
{
	for (uint64_t i = 0; i < (uint64_t)grid->grid[0] * grid->block[0]; i++)
		POINTER(0)[i] = 5 * POINTER(1)[i] + WORD(2) + i;
}

KERNEL(grow, 2)
{
	(void)grid;
	*POINTER(0) += WORD(1);
}

KERNEL(jump, 1)
{
	(void)grid;
	*POINTER(0) = 3 * *POINTER(0) + 1;
}

KERNEL(follow, 2)
{
	uint64_t *at = (uint64_t *)(uintptr_t)*POINTER(0);

	(void)grid;
	if (at)
		*at = 7 * *at + WORD(1);
}

KERNEL(shared, 3)
{
	(void)grid;
	*POINTER(0) = WORD(1) + WORD(2);
}

/* A texture's number comes out equal. */
#define READER(name) \
	KERNEL(name, 3) \
	{ \
		(void)grid; \
		*POINTER(0) += WORD(1) + WORD(2); \
	}
READER(linear)
READER(line)
READER(plane)
READER(body)
READER(level)
READER(paint)

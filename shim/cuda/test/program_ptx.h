/* SPDX-License-Identifier: Apache-2.0
 * PTX of a program: loops and also_loops can have points, barred cannot, straight has no loop. */
#ifndef GCK_CUDA_TEST_PROGRAM_PTX_H
#define GCK_CUDA_TEST_PROGRAM_PTX_H

#define GCK_TEST_LOOP_(name, within) \
	".visible .entry " name "(.param .u64 " name "_a)\n{\n\t.reg .b32 %r<3>;\n" \
	"\t.reg .pred %p<2>;\n\tmov.u32 %r1, 0;\nL:\n" within "\tadd.s32 %r1, %r1, 1;\n" \
	"\tsetp.lt.s32 %p1, %r1, 1000;\n\t@%p1 bra L;\n\tret;\n}\n"
#define GCK_TEST_PTX_HEAD "// by hand\n.version 8.0\n.target sm_80\n.address_size 64\n"

#define GCK_TEST_PTX \
	GCK_TEST_PTX_HEAD GCK_TEST_LOOP_("loops", "") GCK_TEST_LOOP_("also_loops", "") \
	GCK_TEST_LOOP_("barred", "\tbar.sync 1;\n") \
	".visible .entry straight()\n{\n\tret;\n}\n"
#define GCK_TEST_PTX_REFUSED GCK_TEST_PTX_HEAD GCK_TEST_LOOP_("refused", "")

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/records/jumps.h"

#include <stdint.h>

#define JUMP_SIZE 32

extern const char gck_record_jumps[] __attribute__((visibility("hidden")));
function *gck_record_jump_to[JUMPS];
unsigned char gck_record_jump_used[JUMPS];
_Static_assert(JUMPS == 1408, "the number below");

__asm__(".text\n"
	"	.p2align 5\n"
	"	.globl gck_record_jumps\n"
	"	.hidden gck_record_jumps\n"
	"gck_record_jumps:\n"
	"	.set i, 0\n"
	"	.rept 1408\n"
	"	.p2align 5\n"
	"	endbr64\n"
	"	movb $1, gck_record_jump_used + i(%rip)\n"
	"	jmp *(gck_record_jump_to + 8 * i)(%rip)\n"
	"	.set i, i + 1\n"
	"	.endr\n");

static void no_gate(void)
{
}

static const struct gck_records_gate open_gate = {no_gate, no_gate};
const struct gck_records_gate *gck_record_gate = &open_gate;

void gck_cuda_records_gate_by(const struct gck_records_gate *gate)
{
	gck_record_gate = gate;
}

function *gck_record_jump(int number)
{
	return (function *)(uintptr_t)(gck_record_jumps + JUMP_SIZE * number);
}

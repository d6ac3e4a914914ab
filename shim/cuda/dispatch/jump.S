/* SPDX-License-Identifier: Apache-2.0
 * x86-64, System V: up to six integer arguments in registers, eight floating-point ones; al counts
 * those for functions with "...". r11 and rax are free at a call. */
	.text

/* void *dlsym(void *handle, const char *name). RTLD_DEFAULT (0) and RTLD_NEXT (-1) depend on the
 * return address, so libc must find the caller's on the stack. */
	.globl dlsym
	.type dlsym, @function
dlsym:
	.cfi_startproc
	endbr64
	lea 1(%rdi), %rax
	cmp $1, %rax
	ja gck_cuda_dlsym
	mov gck_cuda_real_dlsym(%rip), %rax
	test %rax, %rax
	jz 1f
	jmp *%rax
1:	push %rdi
	.cfi_adjust_cfa_offset 8
	push %rsi
	.cfi_adjust_cfa_offset 8
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	call gck_cuda_find_dlsym
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	pop %rsi
	.cfi_adjust_cfa_offset -8
	pop %rdi
	.cfi_adjust_cfa_offset -8
	jmp *%rax
	.cfi_endproc
	.size dlsym, . - dlsym

/* void *dlopen(const char *file, int mode), whose search depends on the return address, too. */
	.globl dlopen
	.type dlopen, @function
dlopen:
	.cfi_startproc
	endbr64
	push %rsi
	.cfi_adjust_cfa_offset 8
	call gck_cuda_opened
	pop %rsi
	.cfi_adjust_cfa_offset -8
	mov %rax, %rdi
	mov gck_cuda_real_dlopen(%rip), %rax
	jmp *%rax
	.cfi_endproc
	.size dlopen, . - dlopen

/* A jump of raw.S lands here if the real address is not known yet; r11 points to where it will
 * be. */
	.globl gck_cuda_raw_first
	.hidden gck_cuda_raw_first
	.type gck_cuda_raw_first, @function
gck_cuda_raw_first:
	.cfi_startproc
	push %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	sub $208, %rsp
	mov %rdi, (%rsp)
	mov %rsi, 8(%rsp)
	mov %rdx, 16(%rsp)
	mov %rcx, 24(%rsp)
	mov %r8, 32(%rsp)
	mov %r9, 40(%rsp)
	mov %rax, 48(%rsp)
	mov %r11, 56(%rsp)
	movups %xmm0, 64(%rsp)
	movups %xmm1, 80(%rsp)
	movups %xmm2, 96(%rsp)
	movups %xmm3, 112(%rsp)
	movups %xmm4, 128(%rsp)
	movups %xmm5, 144(%rsp)
	movups %xmm6, 160(%rsp)
	movups %xmm7, 176(%rsp)
	call gck_cuda_raw_load
	mov (%rsp), %rdi
	mov 8(%rsp), %rsi
	mov 16(%rsp), %rdx
	mov 24(%rsp), %rcx
	mov 32(%rsp), %r8
	mov 40(%rsp), %r9
	mov 48(%rsp), %rax
	mov 56(%rsp), %r11
	movups 64(%rsp), %xmm0
	movups 80(%rsp), %xmm1
	movups 96(%rsp), %xmm2
	movups 112(%rsp), %xmm3
	movups 128(%rsp), %xmm4
	movups 144(%rsp), %xmm5
	movups 160(%rsp), %xmm6
	movups 176(%rsp), %xmm7
	leave
	.cfi_def_cfa %rsp, 8
	jmp *(%r11)
	.cfi_endproc
	.size gck_cuda_raw_first, . - gck_cuda_raw_first

/* GCK_CUDA_UNKNOWN jumps to functions that functions.tbl does not list. */
	.globl gck_cuda_unknown_code
	.hidden gck_cuda_unknown_code
	.type gck_cuda_unknown_code, @function
	.p2align 5
gck_cuda_unknown_code:
	.set i, 0
	.rept 256
	.p2align 5
	endbr64
	movb $1, gck_cuda_unknown_used + i(%rip)
	jmp *(gck_cuda_unknown_real + 8 * i)(%rip)
	.set i, i + 1
	.endr
	.size gck_cuda_unknown_code, . - gck_cuda_unknown_code

	.section .note.GNU-stack, "", @progbits

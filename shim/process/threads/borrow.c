/* SPDX-License-Identifier: Apache-2.0
 * System calls made by a held thread of a program that has no preload. The code lies in the unused
 * end of its vdso, and is removed afterwards. */
#include "config.h"

#include "shim/process/threads/borrow.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "shim/process/proc/maps.h"
#include "shim/process/proc/pages.h"
#include "shim/process/threads/stub.h"

#define CODE_MAX 256

/* What the code reads. It writes nothing here. */
struct frame {
	uint64_t n, all, mask; /* all signals; the thread's own mask */
	uint64_t r15, r14, r13, r12, rbp, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, rbx;
	uint64_t rip, cs, eflags, rsp, ss;
	struct gck_borrowed_call calls[GCK_BORROW_MAX];
};

#define FRAME_OF_ONE (offsetof(struct frame, calls) + sizeof(struct gck_borrowed_call))

_Static_assert(offsetof(struct frame, r15) == 24 && offsetof(struct frame, calls) == 184 &&
	       sizeof(struct gck_borrowed_call) == 64 && sizeof(struct frame) <= GCK_BORROW_FRAME,
	       "as in the code");

extern const unsigned char gck_borrow_code[], gck_borrow_code_end[];

/* rbx: the frame; r12: the kept result; rbp, r13: the next call, and how many are left */
__asm__(".section .rodata\n"
	".globl gck_borrow_code, gck_borrow_code_end\n"
	".hidden gck_borrow_code, gck_borrow_code_end\n"
	"gck_borrow_code:\n"
	"	mov $14, %eax\n" /* rt_sigprocmask(SIG_BLOCK, &all, NULL) */
	"	xor %edi, %edi\n"
	"	lea 8(%rbx), %rsi\n"
	"	xor %edx, %edx\n"
	"	mov $8, %r10d\n"
	"	syscall\n"
	"	xor %r12d, %r12d\n"
	"	mov (%rbx), %r13\n"
	"	lea 184(%rbx), %rbp\n"
	"1:	mov 56(%rbp), %r14\n"
	"	mov $39, %eax\n" /* getpid, where a call is left out */
	"	test $3, %r14b\n"
	"	jz 2f\n"
	"	test %r12, %r12\n"
	"	js 3f\n"
	"2:	mov (%rbp), %rax\n"
	"	mov 8(%rbp), %rdi\n"
	"	mov 16(%rbp), %rsi\n"
	"	mov 24(%rbp), %rdx\n"
	"	mov 32(%rbp), %r10\n"
	"	mov 40(%rbp), %r8\n"
	"	mov 48(%rbp), %r9\n"
	"	test $1, %r14b\n"
	"	cmovnz %r12, %rdi\n"
	"	test $2, %r14b\n"
	"	cmovnz %r12, %r8\n"
	"3:	syscall\n"
	"	test $4, %r14b\n"
	"	cmovnz %rax, %r12\n"
	"	add $64, %rbp\n"
	"	dec %r13\n"
	"	jnz 1b\n"
	"	mov $14, %eax\n" /* rt_sigprocmask(SIG_SETMASK, &mask, NULL) */
	"	mov $2, %edi\n"
	"	lea 16(%rbx), %rsi\n"
	"	xor %edx, %edx\n"
	"	mov $8, %r10d\n"
	"	syscall\n"
	"	lea 24(%rbx), %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n"
	"	pop %r11\n	pop %r10\n	pop %r9\n	pop %r8\n	pop %rax\n"
	"	pop %rcx\n	pop %rdx\n	pop %rsi\n	pop %rdi\n	pop %rbx\n"
	"	iretq\n"
	"gck_borrow_code_end:\n"
	".text\n");

/* ---- the place ----------------------------------------------------------------------------- */

static size_t code_size(void)
{
	return (size_t)(gck_borrow_code_end - gck_borrow_code);
}

static int find_vdso(struct gck_target *t, struct gck_error *err)
{
	struct gck_maps maps = {0};

	if (t->vdso_end)
		return 0;
	if (gck_maps_read(t->proc, &maps, err))
		return -1;
	for (size_t i = 0; i < maps.n; i++)
		if (!strcmp(maps.v[i].name, "[vdso]"))
			t->vdso_end = maps.v[i].end;
	gck_maps_free(&maps);
	return 0;
}

/* Where the vdso's last page ends in so many bytes of zeros. */
static int find_room(struct gck_target *t, size_t size, uint64_t *at, struct gck_error *err)
{
	unsigned char end[CODE_MAX + sizeof(struct frame)];
	size_t zeros = 0;

	if (find_vdso(t, err))
		return -1;
	*at = t->vdso_end ? t->vdso_end - size : 0;
	if (*at && gck_memory_read(t->pid, *at, end, size, err))
		return -1;
	while (*at && zeros < size && !end[zeros])
		zeros++;
	return zeros == size ? 0 : gck_fail(err, ENOTSUP, "process %d has no vdso with room for a "
					    "system call", (int)t->pid);
}

/* Also where the process may only read: the page becomes its own. */
static int put_code(const struct gck_target *t, uint64_t at, const void *data, size_t size,
		    struct gck_error *err)
{
	int mem = openat(t->proc, "mem", O_RDWR | O_CLOEXEC);
	ssize_t n = mem < 0 ? -1 : pwrite(mem, data, size, (off_t)at);

	if (mem >= 0)
		close(mem);
	return n == (ssize_t)size ? 0 : gck_fail(err, EACCES, "process %d: its vdso cannot be "
						 "written: %s", (int)t->pid, strerror(errno));
}

/* ---- the calls ----------------------------------------------------------------------------- */

static void fill(struct frame *f, const struct gck_stub *s, const struct gck_borrowed_call *calls,
		 size_t n)
{
	const struct user_regs_struct *r = &s->back;

	*f = (struct frame){
		.n = n, .all = ~0ull, .mask = s->mask,
		.r15 = r->r15, .r14 = r->r14, .r13 = r->r13, .r12 = r->r12,
		.rbp = r->rbp, .r11 = r->r11, .r10 = r->r10, .r9 = r->r9, .r8 = r->r8,
		.rax = r->rax, .rcx = r->rcx, .rdx = r->rdx, .rsi = r->rsi, .rdi = r->rdi,
		.rbx = r->rbx, .rip = r->rip, .cs = r->cs, .eflags = r->eflags, .rsp = r->rsp,
		.ss = r->ss};
	memcpy(f->calls, calls, n * sizeof(*calls));
}

/* Remove the code if it begins so many bytes before the end of the vdso. */
static int clean(const struct gck_target *t, const struct gck_held *h, size_t size,
		 struct gck_error *err)
{
	static const unsigned char zeros[CODE_MAX + sizeof(struct frame)];
	const uint64_t code = t->vdso_end - size;
	unsigned char end[CODE_MAX];
	struct user_regs_struct regs;

	if (gck_memory_read(t->pid, code, end, code_size(), err))
		return -1;
	if (memcmp(end, gck_borrow_code, code_size()))
		return 0;
	for (size_t i = 0; i < h->n; i++)
		if (ptrace(PTRACE_GETREGS, h->v[i].tid, 0, &regs) ||
		    (regs.rip >= code && regs.rip < t->vdso_end))
			return gck_fail(err, EAGAIN, "process %d answers an earlier checkpoint "
					"still; try again", (int)t->pid);
	return put_code(t, code, zeros, size, err);
}

int gck_borrow_clean(struct gck_target *t, const struct gck_held *h, struct gck_error *err)
{
	if (find_vdso(t, err))
		return -1;
	if (!t->vdso_end)
		return 0;
	return clean(t, h, code_size(), err) || clean(t, h, code_size() + FRAME_OF_ONE, err) ? -1
											      : 0;
}

int gck_borrow(struct gck_target *t, struct gck_held_thread *x, uint64_t frame,
	       const struct gck_borrowed_call *calls, size_t n, int64_t *results,
	       struct gck_error *err)
{
	static const unsigned char zeros[CODE_MAX + sizeof(struct frame)];
	size_t used = offsetof(struct frame, calls) + n * sizeof(*calls);
	size_t size = code_size() + (frame ? 0 : FRAME_OF_ONE);
	struct user_regs_struct first;
	struct gck_error why;
	struct gck_stub s;
	struct frame f;
	uint64_t code;
	int64_t all[GCK_BORROW_MAX + 2];
	int failed;

	if (x->signal)
		return gck_fail(err, EAGAIN, "process %d is about to handle a signal; try again",
				(int)t->pid);
	if (gck_stub_begin(x, &s, err) || find_room(t, size, &code, err))
		return -1;
	fill(&f, &s, calls, n);
	first = s.own;
	first.rip = code;
	first.rbx = frame ? frame : code + code_size();
	failed = put_code(t, code, gck_borrow_code, code_size(), err) ||
		 (frame ? gck_stub_put(t, frame, &f, used, err)
			: put_code(t, first.rbx, &f, used, err)) ||
		 gck_stub_run(t, x, &s, &first, (unsigned)n + 2, all, err);
	if (!failed && results)
		memcpy(results, all + 1, n * sizeof *results);
	if (x->stopped && put_code(t, code, zeros, size, failed ? &why : err))
		failed = -1;
	return failed ? -1 : 0;
}

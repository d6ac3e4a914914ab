/* SPDX-License-Identifier: Apache-2.0
 * The helper: a thread of the rank, unknown to the program and libc. It serves the agent as long as
 * the rank lives, and connects again when the link ends. */
#include "config.h"

#include "shim/preload/helper/helper.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "shim/preload/helper/raw.h"

#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 2000
#define END_MS 3000 /* for the helper to end: more than a slice of its waits */
#define THREAD_FLAGS \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

static int32_t clone_pid;
static uint32_t told_to_end;
static int last_exit = -1; /* the status with which a thread has ended last; -1: not known */

void gck_helper_run(struct gck_link_msg *m, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		struct gck_link_call *c = &m->calls[i];

		c->result = gck_raw(c->nr, c->args[0], c->args[1], c->args[2], c->args[3],
				    c->args[4], c->args[5]);
	}
}

static long make_clone(int life, struct gck_link_msg *m)
{
	long pid;

	if (life < 0)
		return -EBADF;
	if (clone_pid)
		return -EBUSY;
	pid = gck_clone_make(life, m);
	if (pid > 0)
		clone_pid = pid;
	return pid;
}

static long end_clone(int32_t pid)
{
	long r = gck_clone_end(pid);

	if (pid == clone_pid)
		clone_pid = 0;
	return r;
}

/* Pass the agent a userfaultfd, by which it tracks written pages while it keeps the descriptor. The
 * threads are stopped, so that the program does not see its number here. */
static int give_userfaultfd(int fd, struct gck_link_msg *m)
{
	long uffd = gck_raw(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	int r = gck_link_give(fd, m, GCK_LINK_DIRTY_FD, uffd < 0 ? uffd : 0, uffd);

	gck_fork_watch();
	if (uffd >= 0)
		gck_raw(SYS_close, uffd);
	return r;
}

/* Answer one packet. Not 0: the link cannot be used any more. */
static int answer(int fd, struct gck_link_msg *m, int life)
{
	long r;

	switch (m->type) {
	case GCK_LINK_GO:
		gck_tracer_allow(m->pid);
		return 0;
	case GCK_LINK_CALLS:
		gck_helper_run(m, 0, m->ncalls);
		return gck_link_is_ours(fd) ? gck_link_send(fd, m, GCK_LINK_RESULTS, 0) : -EBADF;
	case GCK_LINK_CLONE:
		r = make_clone(life, m);
		/* Before the answer: the program must never see it, and the clone has its own. */
		if (life >= 0)
			gck_raw(SYS_close, life);
		return gck_link_send(fd, m, GCK_LINK_CLONED, r);
	case GCK_LINK_REAP:
		r = end_clone(m->pid);
		return gck_link_send(fd, m, GCK_LINK_REAPED, r);
	case GCK_LINK_TRACK_DIRTY:
		return give_userfaultfd(fd, m);
	case GCK_LINK_QUEUE:
		m->ncalls = 1;
		m->calls[0].result = gck_queue_copy(life);
		if (life >= 0)
			gck_raw(SYS_close, life);
		return gck_link_send(fd, m, GCK_LINK_RESULTS, 0);
	case GCK_LINK_LEASE:
		gck_lease_set(m->number);
		return 0;
	case GCK_LINK_OUTCOME:
		gck_ask_outcome(&m->outcome);
		return 0;
	default:
		return -EPROTO;
	}
}

static void serve(int fd)
{
	struct gck_link_msg m;
	int life;

	gck_ask_linked();
	do {
		life = -1;
		if (gck_link_receive(fd, &m, &life) <= 0)
			return;
		if (life >= 0 && m.type != GCK_LINK_CLONE && m.type != GCK_LINK_QUEUE)
			gck_raw(SYS_close, life);
	} while (answer(fd, &m, life) == 0);
}

static void drop_link(void)
{
	gck_lease_set(0);
	if (gck_link_is_ours(gck_state.link_fd))
		gck_raw(SYS_close, gck_state.link_fd);
	gck_state.link_fd = -1;
	gck_state.linked = 0;
}

/* Connect and wait for GO. An agent that does not know this rank yet may refuse. */
static bool connect_once(void)
{
	struct gck_link_msg m;
	int r;

	if (!gck_link_is_ours(gck_state.link_fd))
		gck_state.link_fd = gck_link_socket();
	if (gck_state.link_fd < 0)
		return false;
	r = gck_link_connect(gck_state.link_fd, true);
	if (r == -ECONNREFUSED)
		return false;
	if (r == 0 && gck_link_receive(gck_state.link_fd, &m, NULL) == 1 &&
	    m.type == GCK_LINK_GO) {
		gck_tracer_allow(m.pid);
		return true;
	}
	drop_link();
	return false;
}

/* Returns early if the helper is told to end. */
static void rest(unsigned ms)
{
	struct timespec t;

	t.tv_sec = ms / 1000;
	t.tv_nsec = ms % 1000 * 1000000l;
	gck_raw(SYS_futex, &told_to_end, FUTEX_WAIT_PRIVATE, 0, &t);
}

/* False: the helper must end. */
static bool connect_again(void)
{
	unsigned wait = BACKOFF_MIN_MS;

	while (!gck_helper_must_end()) {
		if (connect_once())
			return true;
		rest(wait);
		gck_ask_away(wait);
		wait = wait * 2 < BACKOFF_MAX_MS ? wait * 2 : BACKOFF_MAX_MS;
	}
	return false;
}

/* ---- its end -------------------------------------------------------------------------------- */

/* Threads of the process; 0: /proc does not tell. A main thread that has ended counts, until the
 * process ends. */
static unsigned count_threads(void)
{
	struct stat st;

	if (gck_raw(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) < 0 || st.st_nlink < 2)
		return 0;
	return st.st_nlink - 2;
}

/* An ended main thread has no memory, and so no program. */
static bool main_thread_ended(void)
{
	char c;

	return gck_raw(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", &c, 1) == -ENOENT;
}

bool gck_helper_must_end(void)
{
	return __atomic_load_n(&told_to_end, __ATOMIC_ACQUIRE) ||
	       (main_thread_ended() && count_threads() == 2);
}

/* The end of the link wakes the helper. */
bool gck_helper_end(void)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	bool gone = false;

	if (count_threads() != 2)
		return false;
	__atomic_store_n(&told_to_end, 1, __ATOMIC_RELEASE);
	gck_raw(SYS_futex, &told_to_end, FUTEX_WAKE_PRIVATE, INT_MAX);
	if (gck_link_is_ours(gck_state.link_fd))
		gck_raw(SYS_shutdown, gck_state.link_fd, SHUT_RD);
	for (int i = 0; i < END_MS && !(gone = count_threads() == 1); i++)
		gck_raw(SYS_nanosleep, &ms, 0);
	__atomic_store_n(&told_to_end, 0, __ATOMIC_RELEASE);
	return gone;
}

/* The main thread's exit status: the last number in its stat file, above eight bits. */
static int main_thread_status(void)
{
	char text[1024];
	long n = 0, fd = gck_raw(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
	int status = 0;

	if (fd >= 0) {
		n = gck_raw(SYS_read, fd, text, sizeof text);
		gck_raw(SYS_close, fd);
	}
	while (n > 0 && text[n - 1] != ' ')
		n--;
	for (; n > 0 && text[n] >= '0' && text[n] <= '9'; n++)
		status = status * 10 + text[n] - '0';
	return status >> 8;
}

void gck_helper_note_exit(int status)
{
	__atomic_store_n(&last_exit, status, __ATOMIC_RELEASE);
}

/* The kernel takes the last thread's status for the process's. */
static _Noreturn void end(void)
{
	int status = __atomic_load_n(&last_exit, __ATOMIC_ACQUIRE);

	for (;;)
		gck_raw(SYS_exit, status >= 0 ? status : main_thread_status());
}

/* Serve as long as there is a link. False: the helper must end. */
static bool serve_link(void)
{
	if (gck_state.link_fd < 0 && !connect_again())
		return false;
	serve(gck_state.link_fd);
	if (clone_pid)
		end_clone(clone_pid);
	drop_link();
	return true;
}

static void serve_once(void)
{
	if (connect_once())
		serve_link();
	else
		drop_link();
}

/* Called by gck_helper_entry only. Without a stack protector: an accidental use of TLS must not
 * read another thread's. */
__attribute__((used)) static _Noreturn void helper_main(void)
{
	uint64_t all = ~0ull;

	gck_raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, sizeof all);
	gck_raw(SYS_arch_prctl, ARCH_SET_FS, 0);
	gck_raw(SYS_prctl, PR_SET_NAME, "gpuckpt");
	gck_state.helper_tid = gck_raw(SYS_gettid);
	clone_pid = 0;
	gck_clone_forget();
	gck_lease_forget();
	gck_ask_wake();
	if (gck_state.features & GCK_SHIM_SUMMONED)
		serve_once();
	else
		while (!gck_helper_must_end() && serve_link())
			rest(BACKOFF_MIN_MS); /* an agent may close the link at once */
	end();
}

__asm__(".text\n"
	".globl gck_helper_entry\n"
	".hidden gck_helper_entry\n"
	".type gck_helper_entry, @function\n"
	"gck_helper_entry:\n"
	"	test %eax, %eax\n"
	"	jnz 2f\n"
	"1:	xorl %ebp, %ebp\n"
	"	andq $-16, %rsp\n"
	"	call helper_main\n"
	"	ud2\n"
	/* struct gck_shim_summon is at the stack pointer */
	"2:	mov $14, %eax\n" /* rt_sigprocmask(SIG_SETMASK, &all, NULL) */
	"	mov $2, %edi\n"
	"	lea 8(%rsp), %rsi\n"
	"	xor %edx, %edx\n"
	"	mov $8, %r10d\n"
	"	syscall\n"
	"	mov $56, %eax\n" /* clone(THREAD_FLAGS, stack) */
	"	mov $0x50f00, %edi\n"
	"	mov 16(%rsp), %rsi\n"
	"	xor %edx, %edx\n"
	"	xor %r10d, %r10d\n"
	"	xor %r8d, %r8d\n"
	"	syscall\n"
	"	test %eax, %eax\n"
	"	jz 1b\n"
	"	mov $14, %eax\n" /* rt_sigprocmask(SIG_SETMASK, &mask, NULL) */
	"	mov $2, %edi\n"
	"	mov %rsp, %rsi\n"
	"	xor %edx, %edx\n"
	"	mov $8, %r10d\n"
	"	syscall\n"
	"	add $24, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n"
	"	pop %rbx\n	pop %r11\n	pop %r10\n	pop %r9\n	pop %r8\n"
	"	pop %rax\n	pop %rcx\n	pop %rdx\n	pop %rsi\n	pop %rdi\n"
	"	iretq\n"
	".size gck_helper_entry, . - gck_helper_entry\n");

/* clone() whose child starts in gck_helper_entry on its own stack. */
static long start_thread(unsigned long flags, uint64_t stack)
{
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	long result;

	__asm__ volatile("syscall\n"
			 "	test %%rax, %%rax\n"
			 "	jz gck_helper_entry\n"
			 : "=a"(result)
			 : "a"(SYS_clone), "D"(flags), "S"(stack), "d"(0L), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
}

long gck_helper_start(void)
{
	uint64_t all = ~0ull, before;
	long tid;

	gck_raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
	tid = start_thread(THREAD_FLAGS, gck_state.helper_stack_top);
	gck_raw(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
	return tid;
}

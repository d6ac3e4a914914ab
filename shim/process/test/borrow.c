/* SPDX-License-Identifier: Apache-2.0
 * Calls that a held thread makes for us: what they return, and those that do not end. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/proc/procfs.h"
#include "shim/process/threads/borrow.h"
#include "test/support/tap.h"

#define HOLD_MS 20000 /* the machine may be loaded */
#define GOES_ON_MS 20000

static struct gck_shim_state shim; /* it has no helper */
static struct gck_target rank = {.proc = -1, .shim = &shim};
static volatile unsigned *count;
static int waits[2], ends[2]; /* pipes: nobody writes; the children of vfork(2) end with it */

static inline __attribute__((always_inline)) long raw(long nr, long a, long b, long c)
{
	__asm__ volatile("syscall" : "+a"(nr) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return nr;
}

/* The rank counts, and never sleeps. It calls no function: a child of vfork(2) has its stack. */
static void run(void)
{
	const long pid = getpid(), end = ends[0];
	volatile unsigned *n = count;

	for (;;) {
		if (raw(SYS_getpid, 0, 0, 0) != pid && raw(SYS_read, end, (long)(n + 1), 1) >= 0)
			raw(SYS_exit_group, 0, 0, 0);
		++*n;
	}
}

static void begin(void)
{
	count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (count == MAP_FAILED || pipe(waits) || pipe(ends) || (rank.pid = fork()) < 0)
		exit(99);
	if (!rank.pid) {
		close(ends[1]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run();
	}
	rank.proc = gck_proc_open(rank.pid, NULL);
}

static bool goes_on(void)
{
	unsigned before = *count;

	for (int ms = 0; *count == before && ms < GOES_ON_MS; ms++)
		usleep(1000);
	return *count != before;
}

/* Hold the rank, have its thread make the call, and release it. */
static int borrow(const struct gck_borrowed_call *call, int64_t *result, bool *stopped,
		  struct gck_error *err)
{
	struct gck_held held = {.n = 0};
	int failed = gck_threads_hold(&held, &rank, HOLD_MS, err) ||
		     gck_borrow_clean(&rank, &held, err) ||
		     gck_borrow(&rank, &held.v[0], 0, call, 1, result, err);

	*stopped = held.n && held.v[0].stopped;
	gck_threads_release(&held);
	return failed;
}

static void test_call(void)
{
	const struct gck_borrowed_call call = {.nr = SYS_getpid};
	struct gck_error err = {0};
	int64_t result = 0;
	bool stopped;

	ok(!borrow(&call, &result, &stopped, &err), "a thread makes a call: %s", err.text);
	is_int(result, rank.pid, "it returns what the call does");
	ok(goes_on(), "the thread goes on");
}

static void test_interrupted(void)
{
	const struct gck_borrowed_call call = {
		.nr = SYS_read, .args = {(uint64_t)waits[0], (uint64_t)(uintptr_t)(count + 1), 1}};
	struct gck_error err = {0};
	char byte = 0;
	bool stopped;

	is_int(borrow(&call, NULL, &stopped, &err) ? err.code : 0, EAGAIN,
	       "a call that does not end is given up");
	ok(all_of(stopped, goes_on()), "the thread is taken back, and goes on");
	ok(all_of(write(waits[1], "x", 1) == 1, usleep(20000) == 0, read(waits[0], &byte, 1) == 1,
		  byte == 'x'), "it does not make the call later");
}

/* Its thread waits until the child that has its memory ends, whatever comes. */
static void test_stuck(void)
{
	const struct gck_borrowed_call call = {.nr = SYS_vfork};
	struct gck_error err = {0};
	bool stopped;
	int status;
	pid_t worker = fork();

	if (worker == 0)
		_exit(borrow(&call, NULL, &stopped, &err) && err.code == EAGAIN &&
		      strstr(err.text, "does not end") && !stopped ? 0 : 1);
	ok(all_of(waitpid(worker, &status, 0) == worker, !status),
	   "a call that cannot be interrupted is given up, too");
	close(ends[1]);
	ok(goes_on(), "the thread goes on when the call has ended");
}

static void end(void)
{
	kill(rank.pid, SIGKILL);
	waitpid(rank.pid, NULL, 0);
}

int main(void)
{
	begin();
	test_call();
	test_interrupted();
	test_call();
	test_stuck();
	test_call();
	end();
	return tap_done();
}

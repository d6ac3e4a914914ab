/* SPDX-License-Identifier: Apache-2.0
 * Remote system calls in a child that waits: results, errors, threads, death, SIGSTOP. */
#include "config.h"

#include "shim/process/ptrace/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/support/tap.h"

#define PLANT 0x10000000000ull

static pid_t start(struct gck_remote *r)
{
	struct gck_error err = {0};
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	if (!ok(!gck_remote_seize(r, pid, &err), "seize") ||
	    !ok(!gck_remote_plant(r, PLANT, &err), "plant"))
		printf("# %s\n", err.text);
	return pid;
}

static void end(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	while (waitpid(-1, &status, __WALL) > 0 || errno == EINTR)
		;
}

static void test_calls(void)
{
	struct gck_error err = {0};
	struct gck_remote r;
	pid_t pid = start(&r);
	struct gck_batch b;
	char text[6] = "";

	is_int(gck_remote_call(&r, pid, &err, SYS_getpid, 0), pid, "getpid");
	is_int(gck_remote_call(&r, pid, &err, SYS_close, 999), -EBADF, "a failing call");
	b.n = 0;
	gck_batch_add(&b, SYS_openat, AT_FDCWD, r.scratch, O_RDONLY);
	gck_batch_add(&b, SYS_getppid, 0);
	for (int i = 0; i < GCK_REMOTE_CALLS - 2; i++)
		gck_batch_add(&b, SYS_umask, i % 512);
	must(gck_remote_write(&r, r.scratch, "/nowhere", 9, &err));
	is_int(gck_remote_run(&r, pid, &b, &err), 0, "a full batch");
	is_int(b.calls[0].result, -ENOENT, "first result");
	is_int(b.calls[1].result, getpid(), "second result");
	is_int(b.calls[GCK_REMOTE_CALLS - 1].result, (GCK_REMOTE_CALLS - 4) % 512, "last result");
	must(gck_remote_write(&r, r.scratch, "hello", 6, &err));
	must(gck_remote_read(&r, r.scratch, text, 6, &err));
	is_str(text, "hello", "memory");
	is_int(gck_remote_read(&r, 0x1000, text, 6, &err), -1, "no memory there");
	is_int(gck_remote_plant(&r, PLANT, &err), -1, "no second plant in the same place");
	is_int(gck_remote_plant(&r, 2 * PLANT, &err), 0, "a second plant");
	is_int(gck_remote_call(&r, pid, &err, SYS_munmap, PLANT, GCK_REMOTE_PLANT), 0,
	       "the first unmapped");
	is_int(gck_remote_last(&r, pid, &err, SYS_munmap, 2 * PLANT, GCK_REMOTE_PLANT), 0,
	       "the plant unmaps itself");
	end(pid);
}

static void make_threads(struct gck_remote *r, struct gck_batch *b)
{
	struct clone_args ca = {.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
					 CLONE_THREAD | CLONE_SYSVSEM};
	struct gck_error err = {0};

	b->n = 0;
	must(gck_remote_write(r, r->scratch, &ca, sizeof ca, &err));
	for (int i = 0; i < 3; i++)
		gck_batch_add(b, SYS_clone3, r->scratch, sizeof ca);
	is_int(gck_remote_run(r, r->pid, b, &err), 0, "three threads in one batch");
}

static void test_threads(void)
{
	struct gck_error err = {0};
	struct gck_remote r;
	pid_t pid = start(&r);
	struct gck_batch b;

	make_threads(&r, &b);
	for (int i = 0; i < 3; i++) {
		pid_t tid = (pid_t)b.calls[i].result;

		is_int(gck_remote_born(tid, &err), 0, "born");
		is_int(gck_remote_call(&r, tid, &err, SYS_gettid, 0), tid,
		       "each makes calls of its own");
	}
	is_int(gck_remote_exit(&r, (pid_t)b.calls[1].result, &err), 0, "one exits");
	is_int(gck_remote_call(&r, pid, &err, SYS_tgkill, pid, b.calls[1].result, 0), -ESRCH,
	       "and it is gone");
	is_int(gck_remote_call(&r, pid, &err, SYS_tgkill, pid, b.calls[2].result, 0), 0,
	       "the others are not");
	end(pid);
}

static void test_signals(void)
{
	struct gck_error err = {0};
	struct gck_remote r;
	pid_t pid = start(&r);

	kill(pid, SIGTERM);
	is_int(gck_remote_call(&r, pid, &err, SYS_getpid, 0), pid, "a signal is pending");
	kill(pid, SIGSTOP);
	is_int(gck_remote_call(&r, pid, &err, SYS_getpid, 0), pid, "SIGSTOP does not stop a call");
	kill(pid, SIGCONT);
	is_int(gck_remote_call(&r, pid, &err, SYS_getpid, 0), pid, "nor does SIGCONT");
	kill(pid, SIGKILL);
	is_int(gck_remote_call(&r, pid, &err, SYS_getpid, 0), -ESRCH, "killed");
	is_int(err.code, ESRCH, "the error says so");
	printf("# %s\n", err.text);
}

/* The main thread becomes a zombie only after its tracer has reaped the others. */
static void test_killed_with_threads(void)
{
	struct timespec pause = {.tv_nsec = 200000000}, forever = {.tv_sec = 60};
	struct gck_error err = {0};
	struct gck_remote r;
	pid_t pid = start(&r), killer;
	struct gck_batch b;

	make_threads(&r, &b);
	for (int i = 0; i < 3; i++)
		must(gck_remote_born((pid_t)b.calls[i].result, &err));
	must(gck_remote_write(&r, r.scratch, &forever, sizeof forever, &err));
	if (!(killer = fork())) {
		nanosleep(&pause, NULL);
		_exit(kill(pid, SIGKILL));
	}
	alarm(20); /* instead of a hang */
	is_int(gck_remote_call(&r, pid, &err, SYS_nanosleep, r.scratch, 0), -ESRCH,
	       "a process killed in a call, with threads, is noticed");
	alarm(0);
	is_int(err.code, ESRCH, "the error says so");
	is_int(waitpid(killer, NULL, 0), killer, "a thread that is not traced is not waited for");
	end(pid);
}

/* A tracee dies with its tracer. */
static void test_tracer_death(void)
{
	int fds[2], status;
	struct gck_remote r;
	pid_t pid, tracer;

	if (pipe(fds))
		return;
	if (!(pid = fork())) {
		close(fds[0]);
		for (;;)
			pause();
	}
	close(fds[1]);
	if (!(tracer = fork())) {
		_exit(gck_remote_seize(&r, pid, NULL) || gck_remote_plant(&r, PLANT, NULL));
	}
	waitpid(tracer, &status, 0);
	is_int(status, 0, "a tracer comes and is killed");
	waitpid(pid, &status, 0);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "its tracee is killed");
	is_int(gck_remote_seize(&r, pid, NULL), -1, "a process that does not exist");
	close(fds[0]);
}

int main(void)
{
	test_calls();
	test_threads();
	test_signals();
	test_killed_with_threads();
	test_tracer_death();
	return tap_done();
}

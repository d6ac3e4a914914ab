/* SPDX-License-Identifier: Apache-2.0
 * Stopping the world: no other thread runs meanwhile, and none notices, in any state. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/cuda/gate/stop_world.h"
#include "shim/cuda/gate/thread_stopper.h"
#include "test/support/tap.h"

#define THREADS 8
#define LIMIT_MS 60000 /* the machine may be loaded */

static volatile uint64_t counts[THREADS], made;
static volatile bool stop;
static int waits[2];

/* What ran while the world was stopped. */
static struct {
	uint64_t before[THREADS], made;
	bool moved, called;
} seen;

static void look(void)
{
	seen.called = true;
	for (int i = 0; i < THREADS; i++)
		seen.before[i] = counts[i];
	seen.made = made;
	for (volatile int i = 0; i < 3000000; i++)
		;
	for (int i = 0; i < THREADS; i++)
		seen.moved |= counts[i] != seen.before[i];
	seen.moved |= made != seen.made;
}

static void *count(void *arg)
{
	volatile uint64_t *mine = arg;

	while (!stop)
		++*mine;
	return NULL;
}

static void *nothing(void *arg)
{
	return arg;
}

/* There is always a new thread. */
static void *breed(void *arg)
{
	pthread_t child;

	while (!stop && pthread_create(&child, NULL, nothing, NULL) == 0) {
		pthread_join(child, NULL);
		made++;
	}
	return arg;
}

static void *wait_for_byte(void *arg)
{
	char byte;

	*(ssize_t *)arg = read(waits[0], &byte, 1);
	return NULL;
}

/* Its result; it ends by its time limit. */
static void *wait_for_event(void *arg)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;

	*(int *)arg = epoll_wait(fd, &event, 1, 1500);
	close(fd);
	return NULL;
}

static int still(int traced_ms, char text[480])
{
	struct gck_error err = {0};
	struct gck_cuda_stop_world *s;

	memset(&seen, 0, sizeof seen);
	s = gck_cuda_stop_world_begin(LIMIT_MS, traced_ms, &err);
	if (s) {
		look();
		gck_cuda_stop_world_end(s);
	}
	memcpy(text, err.text, 480);
	return err.code;
}

/* A debugger traces one of the threads for ms. */
static pid_t debug(pid_t tid, int ms)
{
	int told[2];
	char byte = 0;
	pid_t pid;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (pipe(told) || (pid = fork()) < 0)
		return -1;
	if (pid == 0) {
		byte = ptrace(PTRACE_SEIZE, tid, 0, 0) == 0;
		if (write(told[1], &byte, 1) != 1)
			_exit(1);
		usleep((unsigned)ms * 1000);
		_exit(0); /* which ends the trace */
	}
	if (read(told[0], &byte, 1) != 1 || !byte)
		printf("# the thread cannot be traced\n");
	return pid;
}

static void debugged(void)
{
	char text[480];
	pid_t pid = debug(getpid(), 600000);

	is_int(still(0, text), EPERM, "a traced thread cannot be stopped");
	ok(all_of(!seen.called, strstr(text, "traced")), "the callback is not called: %s", text);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	pid = debug(getpid(), 300);
	is_int(still(LIMIT_MS, text), 0, "with a longer limit the stop waits for the debugger");
	ok(all_of(seen.called, !seen.moved), "no thread runs during the callback");
	waitpid(pid, NULL, 0);
}

static bool nobody_ran(void)
{
	for (int i = 0; i < THREADS; i++) {
		if (counts[i] != seen.before[i])
			return false;
	}
	return made == seen.made;
}

/* This thread may be too slow for a pause, now and then. */
static struct gck_cuda_stop_world *after_pause(void)
{
	for (;;) {
		struct gck_cuda_stop_world *s = gck_cuda_stop_world_begin(LIMIT_MS, 0, NULL);

		look();
		gck_cuda_stop_world_pause(s);
		if (gck_cuda_stop_world_again(s))
			return s;
		gck_cuda_stop_world_end(s);
	}
}

/* A pause without an end: as if this thread waited for a lock of a stopped thread. */
static void paused(void)
{
	struct gck_cuda_stop_world *s = after_pause();

	ok(nobody_ran(), "no other thread runs in a pause");
	gck_cuda_stop_world_pause(s);
	while (nobody_ran())
		usleep(1000);
	is_int(gck_cuda_stop_world_again(s), 0, "a pause that lasts too long ends the stop");
	gck_cuda_stop_world_end(s);
}

/* The process that stops the threads dies: none of them stays stopped. */
static void killed(void)
{
	struct gck_cuda_stop_world *s = gck_cuda_stop_world_begin(LIMIT_MS, 0, NULL);
	uint64_t before = counts[0];

	kill(s->other, SIGKILL);
	while (counts[0] == before)
		usleep(1000);
	gck_cuda_stop_world_end(s);
	ok(true, "the threads go on when the process that stops them is killed");
}

/* A request of an io_uring, which one of the kernel's workers serves: it opens a named pipe, and
 * waits for who writes to it. */
struct request {
	int ring;
	struct io_uring_params p;
	char *queues;
	struct io_uring_sqe *entry;
	char pipe[32];
};

static bool begin_request(struct request *r)
{
	snprintf(r->pipe, sizeof r->pipe, "/tmp/gpuckpt-%d", (int)getpid());
	r->ring = (int)syscall(SYS_io_uring_setup, 1, &r->p);
	if (r->ring < 0 || mkfifo(r->pipe, 0600))
		return false;
	r->queues = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, r->ring,
			 IORING_OFF_SQ_RING);
	r->entry = mmap(NULL, sizeof *r->entry, PROT_READ | PROT_WRITE, MAP_SHARED, r->ring,
			IORING_OFF_SQES);
	*r->entry = (struct io_uring_sqe){.opcode = IORING_OP_OPENAT, .flags = IOSQE_ASYNC,
					  .fd = AT_FDCWD, .open_flags = O_RDONLY,
					  .addr = (uint64_t)(uintptr_t)r->pipe};
	*(uint32_t *)(void *)(r->queues + r->p.sq_off.tail) = 1;
	return syscall(SYS_io_uring_enter, r->ring, 1, 0, 0, NULL, 0) == 1;
}

/* What the request has returned. */
static int end_request(const struct request *r)
{
	int writer = open(r->pipe, O_WRONLY | O_NONBLOCK);

	unlink(r->pipe);
	syscall(SYS_io_uring_enter, r->ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	close(writer);
	close(r->ring);
	return ((struct io_uring_cqe *)(void *)(r->queues + r->p.cq_off.cqes))->res;
}

static void ring(void)
{
	struct request r = {0};
	char text[480];

	if (!begin_request(&r)) {
		skip("io_uring", strerror(errno));
		return;
	}
	usleep(20000);
	is_int(still(0, text), 0, "the world stops although a request of an io_uring waits");
	ok(end_request(&r) >= 0, "the stop has not cut it short");
}

/* Runs in a thread, since the main thread is stopped too. */
static void *test(void *arg)
{
	pthread_t waiter, poller;
	ssize_t got = -99;
	char text[480];
	int polled = -99;

	pthread_create(&waiter, NULL, wait_for_byte, &got);
	pthread_create(&poller, NULL, wait_for_event, &polled);
	usleep(20000);
	for (int i = 0; i < 20; i++) {
		if (still(0, text) || seen.moved || !seen.called)
			printf("# time %d: %s\n", i, text);
		else
			continue;
		got = -98;
	}
	is_int(got, -99, "in twenty stops no other thread runs");
	is_int(write(waits[1], "", 1), 1, "a thread waits in the kernel");
	pthread_join(waiter, NULL);
	is_int(got, 1, "the stops do not disturb it");
	pthread_join(poller, NULL);
	is_int(polled, 0, "nor do they end epoll_wait with EINTR");
	ring();
	paused();
	killed();
	debugged();
	return arg;
}

/* The main thread has ended. It stays in the list while other threads run. */
static void *test_last(void *main_thread)
{
	char text[480];

	pthread_join(*(pthread_t *)main_thread, NULL);
	is_int(still(0, text), 0, "the world stops although the main thread has ended");
	ok(all_of(seen.called, !seen.moved), "no other thread runs: %s", text);
	stop = true;
	exit(tap_done());
}

int main(void)
{
	static pthread_t self;
	pthread_t threads[THREADS], breeder, tester;

	self = pthread_self();
	if (pipe(waits))
		return 99;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, count, (void *)&counts[i]);
	pthread_create(&breeder, NULL, breed, NULL);
	pthread_create(&tester, NULL, test, NULL);
	pthread_join(tester, NULL);
	pthread_create(&tester, NULL, test_last, &self);
	pthread_exit(NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * A static program: no preload reaches it. `static_program ROUNDS`: in each round it holds what the
 * kernel says of its numbers, its threads, its child, its signals and its timer against what it
 * said at the start, and prints at the end what it has counted. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3
#define ROUND_US 4000

static pid_t own, parent, tids[THREADS];
static char stacks[THREADS][65536];
static atomic_int started, on_altstack, ticks;
static atomic_long counted[THREADS];
static atomic_bool over;

/* Also if signals come. */
static void sleep_us(long us)
{
	struct timespec left = {.tv_nsec = us * 1000};

	while (nanosleep(&left, &left))
		;
}

static pid_t tid_now(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static void fail(const char *what, long got, long want)
{
	printf("static: %s: %ld, not %ld (errno %d)\n", what, got, want, errno);
	fflush(stdout);
	_exit(1);
}

static void expect(const char *what, long got, long want)
{
	if (got != want)
		fail(what, got, want);
}

/* A handler runs on its thread's own stack. */
static void on_usr1(int signal)
{
	char here;

	(void)signal;
	for (int i = 0; i < THREADS; i++)
		if (&here >= stacks[i] && &here < stacks[i] + sizeof stacks[i] &&
		    tids[i] == tid_now())
			on_altstack++;
}

static void on_alarm(int signal)
{
	(void)signal;
	ticks++;
}

static void *thread(void *arg)
{
	int i = (int)(long)arg;
	stack_t s = {.ss_sp = stacks[i], .ss_size = sizeof stacks[i]};

	sigaltstack(&s, NULL);
	tids[i] = tid_now();
	started++;
	while (!over) {
		counted[i]++;
		usleep(100 + 50 * (useconds_t)i);
		expect("a thread's number", tid_now(), tids[i]);
	}
	return NULL;
}

/* A child that tells what it sees, and one that lives from round to round. */
static void try_fork(void)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(getppid() == own && getpid() != own ? 7 : 8);
	expect("waitpid", waitpid(pid, &status, 0), pid);
	expect("its exit status", WIFEXITED(status) ? WEXITSTATUS(status) : -1, 7);
}

static pid_t start_child(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (pid_t me = (pid_t)syscall(SYS_getpid);;) {
			usleep(3000);
			if (getppid() != own || syscall(SYS_getpid) != me)
				_exit(9);
		}
	}
	return pid;
}

int main(int argc, char **argv)
{
	struct itimerval every = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000};
	struct sigaction usr1 = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	const char *hurry = getenv("GPUCKPT_TEST_HURRY"); /* test/support/lineage.h */
	int rounds = argc > 1 ? atoi(argv[1]) : 100, death = 0, status;
	pthread_t threads[THREADS];
	unsigned long sum = 0;
	pid_t child;

	own = getpid();
	parent = getppid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	child = start_child();
	sigaction(SIGUSR1, &usr1, NULL);
	sigaction(SIGALRM, &alarm, NULL);
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, thread, (void *)i))
			fail("pthread_create", 0, 1);
	while (started < THREADS)
		usleep(100);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; i < rounds; i++) {
		int before = on_altstack;

		expect("getpid", (long)syscall(SYS_getpid), own);
		expect("getppid", getppid(), parent);
		expect("kill of the parent", kill(parent, 0), 0);
		expect("kill of the child", kill(child, 0), 0);
		expect("pthread_kill", pthread_kill(threads[i % THREADS], SIGUSR1), 0);
		for (int k = 0; on_altstack == before && k < 20000; k++)
			usleep(100);
		expect("signals on the stack", on_altstack, before + 1);
		if (i % 16 == 0)
			try_fork();
		sum = sum * 31 + (unsigned long)i;
		if (!hurry || access(hurry, F_OK))
			sleep_us(ROUND_US);
	}
	expect("prctl", prctl(PR_GET_PDEATHSIG, &death), 0);
	expect("the parent's death signal", death, SIGTERM);
	expect("waitpid of one that runs", waitpid(child, &status, WNOHANG), 0);
	kill(child, SIGTERM);
	expect("waitpid", waitpid(child, &status, 0), child);
	expect("the child's signal", WIFSIGNALED(status) ? WTERMSIG(status) : -1, SIGTERM);
	over = true;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		if (!counted[i])
			fail("a thread's count", 0, 1);
	}
	if (!ticks)
		fail("ticks", 0, 1);
	printf("static: %d rounds, %lx\n", rounds, sum);
	return 0;
}

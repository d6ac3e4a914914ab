/* SPDX-License-Identifier: Apache-2.0
 * launched MODE: what a program may do that another thread or another library in its process could
 * disturb (test/cluster/launch.tbl). Prints a line, and ends with status 3. Any libc can build
 * it. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS 3
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#endif
#define SECCOMP_FILTER_TSYNC 1

static void say(const char *what, long result)
{
	printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
	fflush(stdout);
}

static void hello(void)
{
	printf("hello, uid %d, euid %d\n", (int)getuid(), (int)geteuid());
}

/* Until the file that the environment variable LAUNCHED_UNTIL names is there. */
static void wait_for_file(void)
{
	const char *path = getenv("LAUNCHED_UNTIL");

	while (path && access(path, F_OK))
		usleep(50000);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void *count(void *n)
{
	++*(int *)n;
	return NULL;
}

static void threads(void)
{
	pthread_t t[8];
	int n[8] = { 0 }, sum = 0;

	for (int i = 0; i < 8; i++) {
		if (pthread_create(&t[i], NULL, count, &n[i])) {
			printf("no thread\n");
			return;
		}
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(t[i], NULL);
		sum += n[i];
	}
	printf("%d threads\n", sum);
}

/* The only thread ends by exit(2), which ends a process without other threads. */
static void last_thread(void)
{
	say("last thread", 0);
	syscall(SYS_exit, STATUS);
}

static void *outlive(void *main_thread)
{
	pthread_join(*(pthread_t *)main_thread, NULL);
	say("main thread", 0);
	syscall(SYS_exit, 5);
	return NULL;
}

/* The main thread ends first, the other one by exit(2). */
static void main_first(void)
{
	static pthread_t self;
	pthread_t t;

	self = pthread_self();
	if (pthread_create(&t, NULL, outlive, &self))
		return;
	pthread_exit(NULL);
}

/* ---- namespaces ----------------------------------------------------------------------------- */

static void new_user(void)
{
	say("unshare", unshare(CLONE_NEWUSER));
}

static void new_user_raw(void)
{
	say("syscall(unshare)", syscall(SYS_unshare, CLONE_NEWUSER));
}

/* Join the user namespace of a child. */
static void join_user(void)
{
	int ready[2], hold[2], fd = -1;
	char path[64], c = 0;
	pid_t child;

	if (pipe(ready) || pipe(hold) || (child = fork()) < 0)
		return;
	if (child == 0) {
		close(hold[1]);
		c = unshare(CLONE_NEWUSER) ? 'n' : 'y';
		_exit(write(ready[1], &c, 1) != 1 || read(hold[0], &c, 1) != 0);
	}
	if (read(ready[0], &c, 1) == 1 && c == 'y') {
		snprintf(path, sizeof path, "/proc/%d/ns/user", (int)child);
		fd = open(path, O_RDONLY);
	}
	say("setns", fd < 0 ? -1 : setns(fd, CLONE_NEWUSER));
	close(hold[1]);
	waitpid(child, NULL, 0);
}

/* The thread gets a descriptor table of its own: a pipe ends when it closes its end. */
static void own_files(void)
{
	int p[2] = { -1, -1 };
	char c;

	if (pipe(p))
		return;
	say("unshare", unshare(CLONE_FILES));
	close(p[1]);
	say("end of a pipe", read(p[0], &c, 1));
}

static void own_range(void)
{
	int p[2] = { -1, -1 };
	char c;

	if (pipe(p))
		return;
	say("close_range", syscall(SYS_close_range, p[1], p[1], CLOSE_RANGE_UNSHARE));
	say("end of a pipe", read(p[0], &c, 1));
}

/* ---- seccomp -------------------------------------------------------------------------------- */

struct instruction {
	unsigned short code;
	unsigned char yes, no;
	unsigned k;
};

/* Allow what a program needs to print and to end; kill the process at any other call. */
static struct instruction filter[] = {
	{ 0x20, 0, 0, 0 }, /* load the call's number */
	{ 0x15, 5, 0, SYS_write },
	{ 0x15, 4, 0, SYS_exit_group },
	{ 0x15, 3, 0, SYS_newfstatat },
	{ 0x15, 2, 0, SYS_fstat },
	{ 0x15, 1, 0, SYS_nanosleep },
	{ 0x06, 0, 0, 0x80000000u }, /* kill the process */
	{ 0x06, 0, 0, 0x7fff0000u }, /* allow */
};

static void sleep_s(int s)
{
	struct timespec t = { .tv_sec = s };

	syscall(SYS_nanosleep, &t, NULL);
}

static void filtered(long flags)
{
	struct {
		unsigned short n;
		struct instruction *v;
	} program = { sizeof filter / sizeof *filter, filter };
	long r;

	printf("a filter\n");
	fflush(stdout);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	r = syscall(SYS_seccomp, 1, flags, &program);
	sleep_s(2); /* longer than a slice of the helper's waits */
	say("seccomp", r);
}

static void filter_own(void)
{
	filtered(0);
}

static void filter_all(void)
{
	filtered(SECCOMP_FILTER_TSYNC);
}

static void strict(void)
{
	static const char done[] = "strict: done\n";

	prctl(PR_SET_SECCOMP, 1, 0, 0, 0);
	if (write(1, done, sizeof done - 1) < 0)
		syscall(SYS_exit, 1);
	syscall(SYS_exit, STATUS);
}

/* ---- descriptors and processes -------------------------------------------------------------- */

static void close_all(void)
{
	int out = fcntl(1, F_DUPFD, 3), next;

	for (int fd = 0; fd < 4096; fd++) {
		if (fd != out)
			close(fd);
	}
	sleep_s(2); /* longer than a slice of the helper's waits */
	next = open("/dev/null", O_RDONLY);
	dup2(out, 1);
	printf("all closed, next is %d\n", next);
}

/* Which of 0 to 2 are open, and the number that the next file gets. */
static void standard(void)
{
	char text[64];
	int n = 0, next = open("/dev/null", O_RDONLY);

	for (int fd = 0; fd < 3; fd++)
		n += snprintf(text + n, sizeof text - n, "%d:%d ", fd,
			      fcntl(fd, F_GETFD) >= 0 && fd != next);
	n += snprintf(text + n, sizeof text - n, "next %d\n", next);
	for (int fd = 2; fd > 0; fd--) {
		if (fd != next && write(fd, text, n) > 0)
			return;
	}
}

static void open_all(void)
{
	int n = 0;

	while (open("/dev/null", O_RDONLY) >= 0)
		n++;
	printf("%s\n", n < 16 ? "few files" : "many files");
}

static void become_daemon(void)
{
	int p[2];
	char c;

	if (pipe(p) || daemon(1, 1) < 0)
		return;
	say("daemon", 0);
	(void)!read(p[0], &c, 0);
}

static void second_libc(void)
{
#ifdef LM_ID_NEWLM
	void *own = dlopen("libc.so.6", RTLD_NOW), *other = dlmopen(LM_ID_NEWLM, "libc.so.6",
								   RTLD_NOW);
	pid_t (*get)(void) = other ? (pid_t (*)(void))dlsym(other, "getpid") : NULL;

	printf("two libcs: %d\n", own && get && get() == getpid());
#endif
}

static void die(void)
{
	say("a signal", 0);
	signal(SIGTERM, SIG_DFL);
	raise(SIGTERM);
}

static void not_dumpable(void)
{
	say("prctl", prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "hello", hello }, { "threads", threads }, { "last-thread", last_thread },
		{ "main-first", main_first }, { "new-user", new_user },
		{ "new-user-raw", new_user_raw }, { "join-user", join_user },
		{ "own-files", own_files }, { "own-range", own_range },
		{ "filter-own", filter_own }, { "filter-all", filter_all }, { "strict", strict },
		{ "close-all", close_all }, { "standard", standard }, { "open-all", open_all },
		{ "daemon", become_daemon }, { "second-libc", second_libc }, { "die", die },
		{ "not-dumpable", not_dumpable }, { "wait", wait_for_file },
	};

	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		if (argc > 1 && !strcmp(argv[1], modes[i].name)) {
			modes[i].run();
			fflush(stdout);
			return STATUS;
		}
	}
	return 2;
}

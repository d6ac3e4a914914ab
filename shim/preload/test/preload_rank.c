/* SPDX-License-Identifier: Apache-2.0
 * The rank of test_preload_link: counts in a thread, and obeys lines on its standard input,
 * answering each with a line. Its first line has addresses. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long count;
static volatile sig_atomic_t sigchlds;
static pthread_t counting;
static volatile sig_atomic_t counts = 1;

static void on_sigchld(int sig)
{
	(void)sig;
	sigchlds++;
}

static void *counter(void *unused)
{
	struct timespec ms = { 0, 1000000 };

	while (counts) {
		count++;
		nanosleep(&ms, NULL);
	}
	return unused;
}

static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2;
}

/* The program's children, as wait sees them. */
static void answer_wait(void)
{
	int r = waitpid(-1, NULL, WNOHANG);

	printf("waitpid %d %s sigchld %d\n", r, r < 0 ? strerrorname_np(errno) : "-", sigchlds);
}

/* A child without exec: whether it has threads, and the link. */
static void answer_fork(int link)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit((threads() << 1) | (fcntl(link, F_GETFD) >= 0));
	waitpid(pid, &status, 0);
	sigchlds = 0;
	printf("threads %d link %d\n", WEXITSTATUS(status) >> 1, WEXITSTATUS(status) & 1);
}

/* Whether a child without exec has the page at this address. */
static void answer_has(const char *address)
{
	unsigned char there;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(mincore((void *)strtoul(address, NULL, 16), 4096, &there) == 0);
	waitpid(pid, &status, 0);
	sigchlds = 0;
	printf("%s\n", WEXITSTATUS(status) ? "has" : "has not");
}

/* Close everything, and use the link's number for a file of our own. */
static void answer_closefrom(int link)
{
	int null;

	closefrom(3);
	null = open("/dev/null", O_RDWR);
	printf("%s\n", dup2(null, link) == link ? "closed" : strerrorname_np(errno));
}

static void answer_mine(int fd)
{
	char path[64] = "", name[32];

	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	if (readlink(name, path, sizeof path - 1) < 0)
		strcpy(path, strerrorname_np(errno));
	printf("%s\n", path);
}

/* The other thread has ended; the main thread ends last, but for the helper. */
static void answer_leave(void)
{
	counts = 0;
	pthread_join(counting, NULL);
	syscall(SYS_exit, 5); /* of the thread */
}

/* What LD_PRELOAD has behind the preload. */
#define SHOW "printf '%s ' \"${LD_PRELOAD#*/libgpuckpt-preload.so}\""

static void add_libraries(void)
{
	char list[512];

	snprintf(list, sizeof list, "%s:/none/libgpuckpt-mpi.so /none/libgpuckpt-cuda.so:libc.so.6",
		 getenv("LD_PRELOAD"));
	setenv("LD_PRELOAD", list, 1);
}

/* The same for programs of children that are made and executed in different ways. */
static void answer_preload(void)
{
	char *const argv[] = {(char *)"sh", (char *)"-c", (char *)SHOW, NULL};
	pid_t pid;

	add_libraries();
	pid = fork();
	if (pid == 0) {
		execve("/bin/sh", argv, environ);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	pid = vfork();
	if (pid == 0) {
		execvp("sh", argv);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	if (!posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ))
		waitpid(pid, NULL, 0);
	system(SHOW);
	printf("\n");
}

/* A shell is in gpuckpt-parent's place. */
static void answer_static(char *directory, bool search)
{
	char *argv[] = { (char *)"name", (char *)"-c", (char *)"echo $0 $GPUCKPT_PROGRAM; exit 3",
			 NULL }, path[128];
	int status;
	pid_t pid;

	directory[strcspn(directory, "\n")] = '\0';
	snprintf(path, sizeof path, "%s/static", directory);
	setenv("GPUCKPT_PARENT", "/none/gpuckpt-parent", 1);
	pid = fork();
	if (pid == 0) {
		execve(path, argv, environ);
		_exit(errno);
	}
	waitpid(pid, &status, 0);
	execv(path, argv);
	printf("a child: %s, without a parent: %s\n", strerrorname_np(WEXITSTATUS(status)),
	       strerrorname_np(errno));
	fflush(stdout);
	setenv("GPUCKPT_PARENT", "/bin/sh", 1);
	setenv("PATH", directory, 1);
	if (search)
		execvp("static", argv);
	execv(path, argv);
}

static void answer(char *line, char **argv)
{
	int number = strchr(line, ' ') ? atoi(strchr(line, ' ')) : 0;

	if (!strncmp(line, "wait", 4))
		answer_wait();
	else if (!strncmp(line, "fork", 4))
		answer_fork(number);
	else if (!strncmp(line, "has", 3))
		answer_has(line + 4);
	else if (!strncmp(line, "closefrom", 9))
		answer_closefrom(number);
	else if (!strncmp(line, "mine", 4))
		answer_mine(number);
	else if (!strncmp(line, "threads", 7))
		printf("%d\n", threads());
	else if (!strncmp(line, "run", 3))
		system("echo $((`ls /proc/self/task | wc -l`))");
	else if (!strncmp(line, "preload", 7))
		answer_preload();
	else if (!strncmp(line, "own", 3))
		printf("%s\n", strstr(getenv("LD_PRELOAD"), "preload.so"));
	else if (!strncmp(line, "leave", 5))
		answer_leave();
	else if (!strncmp(line, "static", 6))
		answer_static(line + 7, false);
	else if (!strncmp(line, "search", 6))
		answer_static(line + 7, true);
	else if (!strncmp(line, "exec", 4))
		execv(argv[0], argv);
	else
		printf("?\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[64];

	(void)argc;
	signal(SIGCHLD, on_sigchld);
	pthread_create(&counting, NULL, counter, NULL);
	printf("count %p handler %p\n", (void *)&count, (void *)on_sigchld);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin))
		answer(line, argv);
	return 7;
}

/* SPDX-License-Identifier: Apache-2.0
 * The relay of standard input, without Slurm: this process writes as slurmstepd does and reads as
 * the task's program does. */
#include "config.h"

#include "spank/input.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fd_passing.h"
#include "common/base/input_relay.h"
#include "test/support/tap.h"

#define SIZE (1 << 20)

static char agent[PATH_MAX]; /* the relay lies beside it */
static char bytes[SIZE];

/* A task that waits: feed is slurmstepd's end of its standard input, input the task's. */
struct task {
	pid_t pid, relay;
	int feed, input;
	uint64_t inode;
};

static bool is_relay_of(const char *pid, pid_t task)
{
	char path[300], line[64] = "", want[64];
	size_t n = (size_t)snprintf(want, sizeof want, "gpuckpt-input%c%d", 0, (int)task) + 1;
	int fd;

	snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, line, sizeof line) < 0)
		*line = '\0';
	close(fd);
	return !memcmp(line, want, n);
}

static pid_t find_relay(pid_t task)
{
	DIR *d = opendir("/proc");
	const struct dirent *e;
	pid_t found = 0;

	while (d && !found && (e = readdir(d)))
		if (is_relay_of(e->d_name, task))
			found = (pid_t)atoi(e->d_name);
	if (d)
		closedir(d);
	return found;
}

static _Noreturn void be_task(int source, int tell)
{
	struct gck_error err = {0};
	int fd = 0;

	dup2(source, 0);
	close(source);
	if (gck_input_relay(agent, &err))
		printf("# %s\n", err.text);
	gck_fd_send(tell, "", 1, &fd, 1, 0);
	close(0);
	close(tell);
	for (;;)
		pause();
}

static struct task start(void)
{
	struct task t;
	int source[2], tell[2];
	char byte;
	size_t n = 1;
	struct stat st;

	must(pipe2(source, O_CLOEXEC));
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, tell));
	t.pid = fork();
	if (t.pid == 0) {
		close(source[1]);
		close(tell[0]);
		be_task(source[0], tell[1]);
	}
	close(source[0]);
	close(tell[1]);
	must(gck_fd_receive(tell[0], &byte, 1, &t.input, &n, 0));
	must((int)n - 1);
	close(tell[0]);
	must(fstat(t.input, &st));
	t.inode = st.st_ino;
	t.feed = source[1];
	t.relay = find_relay(t.pid);
	return t;
}

static void stop(struct task *t)
{
	if (t->feed >= 0)
		close(t->feed);
	if (t->input >= 0)
		close(t->input);
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
}

/* A relay that has ended may still have its entry in /proc. */
static bool relay_ends(const struct task *t)
{
	struct gck_input_message m = {.op = GCK_INPUT_COUNT};

	for (int i = 0; i < 3000 && !gck_input_ask(t->inode, &m); i++)
		usleep(10000);
	return gck_input_ask(t->inode, &m) && errno == ECONNREFUSED;
}

static uint64_t taken(const struct task *t)
{
	struct gck_input_message m = {.op = GCK_INPUT_COUNT};

	return gck_input_ask(t->inode, &m) ? UINT64_MAX : m.bytes;
}

/* Read until this many bytes have come, or the end. */
static size_t take(int fd, char *to, size_t size)
{
	size_t n = 0;
	ssize_t got = 1;

	while (n < size && (got = read(fd, to + n, size - n)) > 0)
		n += (size_t)got;
	return n;
}

static void test_bytes(void)
{
	struct task t = start();
	char got[64] = "";

	ok(t.relay > 0, "a task whose standard input is a pipe gets a relay");
	must(write(t.feed, "some lines\n", 11));
	is_int((long long)take(t.input, got, 11), 11, "its input arrives");
	is_str(got, "some lines\n", "as it was written");
	is_int((long long)taken(&t), 11, "and is counted");
	for (int s = 1; s < NSIG; s++)
		if (s != SIGKILL && s != SIGSTOP && (s < 32 || s >= SIGRTMIN))
			kill(t.relay, s);
	must(write(t.feed, "more\n", 5));
	is_int((long long)take(t.input, got, 5), 5, "signals to the whole step do not end it");
	close(t.feed);
	t.feed = -1;
	is_int(read(t.input, got, 1), 0, "the end of the input arrives");
	is_int((long long)taken(&t), 16, "the count can be asked for afterwards");
	stop(&t);
	ok(relay_ends(&t), "the relay ends with the task");
}

static void test_nothing(void)
{
	struct task t = start();
	char byte;

	close(t.feed);
	t.feed = -1;
	is_int(read(t.input, &byte, 1), 0, "an input without a byte ends");
	ok(relay_ends(&t), "and its relay is not needed any more");
	stop(&t);
}

static void test_closed(void)
{
	struct task t = start();
	struct pollfd p = {.fd = t.feed};

	close(t.input);
	t.input = -1;
	poll(&p, 1, 60000);
	ok(p.revents & POLLERR, "slurmstepd sees that the task has closed its input");
	is_int(write(t.feed, "x", 1), -1, "writing fails");
	is_int(errno, EPIPE, "as on the task's own pipe");
	ok(relay_ends(&t), "the relay has ended");
	stop(&t);
}

static uint64_t cpu_ns(pid_t pid)
{
	char path[64];
	uint64_t ns = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/schedstat", (int)pid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%lu", &ns) != 1)
		ns = 0;
	if (f)
		fclose(f);
	return ns;
}

/* A relay that polls in vain uses its CPU all the time. */
static bool rests(pid_t relay)
{
	uint64_t before = 0, now = cpu_ns(relay);

	for (int i = 0; i < 500 && before != now; i++) {
		usleep(20000);
		before = now;
		now = cpu_ns(relay);
	}
	return before == now;
}

static size_t fill(const struct task *t)
{
	struct pollfd p = {.fd = t->feed, .events = POLLOUT};
	size_t n = 0;
	ssize_t put;

	fcntl(t->feed, F_SETFL, O_NONBLOCK);
	while (n < SIZE && poll(&p, 1, 500) == 1 && (put = write(t->feed, bytes + n, 4096)) > 0)
		n += (size_t)put;
	return n;
}

/* Nobody reads: the relay fills the task's pipe, and then slurmstepd's is full. */
static void test_full(void)
{
	struct task t = start();
	static char got[SIZE];
	size_t n = fill(&t);
	int waiting = 0;

	ok(all_of(n >= 65536, n <= 2 * 65536), "it reads one pipe ahead at most: %zu bytes", n);
	must(ioctl(t.input, FIONREAD, &waiting));
	is_int((long long)taken(&t), waiting, "what lies in the task's pipe is counted");
	ok(rests(t.relay), "it sleeps while the pipe is full");
	close(t.feed);
	t.feed = -1;
	ok(rests(t.relay), "also when the writer has gone");
	ok(all_of(take(t.input, got, SIZE) == n, !memcmp(got, bytes, n)),
	   "a reader gets all of it, to its end");
	stop(&t);
}

static void test_skip(void)
{
	struct task t = start();
	struct gck_input_message m = {.op = GCK_INPUT_SKIP, .bytes = 70000};
	static char got[SIZE];

	must(write(t.feed, bytes, 100));
	while (taken(&t) < 100)
		;
	is_int(gck_input_ask(t.inode, &m), 0, "it is asked to skip");
	is_int((long long)m.bytes, 100, "it tells what it has handed on by then");
	take(t.input, got, 100);
	if (fork() == 0) {
		close(t.input);
		_exit(write(t.feed, bytes + 100, 80000) != 80000);
	}
	close(t.feed);
	t.feed = -1;
	is_int((long long)take(t.input, got, SIZE), 10100, "the rest after the skipped part comes");
	ok(!memcmp(got, bytes + 70000, 10100), "and begins at that byte");
	is_int((long long)taken(&t), 80100, "what it discarded is counted");
	stop(&t);
}

static void test_shorter(void)
{
	struct task t = start();
	struct gck_input_message m = {.op = GCK_INPUT_SKIP, .bytes = 70000};
	int status = 0;

	is_int(gck_input_ask(t.inode, &m), 0, "it is asked to skip more than comes");
	must(write(t.feed, bytes, 100));
	close(t.feed);
	t.feed = -1;
	must(waitpid(t.pid, &status, 0));
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	   "a task whose input is shorter than before is killed");
	stop(&t);
}

static void test_strangers(void)
{
	struct gck_input_message m = {.op = GCK_INPUT_COUNT};
	struct task t = start();
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (setuid(65534))
			_exit(2);
		_exit(gck_input_ask(t.inode, &m) && errno == EPERM ? 0 : 1);
	}
	must(waitpid(pid, &status, 0));
	is_int(WEXITSTATUS(status), 0, "another user does not believe it");
	stop(&t);
}

/* Standard input stays what it is. */
static void test_left_alone(const char *path, const char *what)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		struct gck_error err = {0};
		struct stat before = {0}, after = {0};

		close(0);
		if (*path && open(path, O_RDONLY) != 0)
			_exit(2);
		fstat(0, &before);
		if (gck_input_relay(agent, &err))
			_exit(3);
		fstat(0, &after);
		_exit(before.st_ino != after.st_ino || before.st_dev != after.st_dev);
	}
	must(waitpid(pid, &status, 0));
	is_int(status, 0, what);
}

static void test_missing(void)
{
	struct gck_error err = {0};
	struct stat before, after;
	int end[2], saved = dup(0);

	must(pipe(end));
	must(dup2(end[0], 0));
	must(fstat(0, &before));
	is_int(gck_input_relay("/nowhere/gpuckpt-agent", &err), -1, "without the program it fails");
	ok(strstr(err.text, "/nowhere/gpuckpt-input: No such file"), "and says why: %s", err.text);
	must(fstat(0, &after));
	ok(before.st_ino == after.st_ino, "standard input is as it was");
	must(dup2(saved, 0));
	close(saved);
	close(end[0]);
	close(end[1]);
}

int main(int argc, char *argv[])
{
	(void)argc;
	(void)argv;
	alarm(300);
	signal(SIGPIPE, SIG_IGN);
	if (!realpath("gpuckpt-input", agent))
		return 1;
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (char)(i * 7 + i / 256);
	test_bytes();
	test_nothing();
	test_closed();
	test_full();
	test_skip();
	test_shorter();
	if (geteuid() == 0)
		test_strangers();
	test_left_alone("/dev/null", "/dev/null is left alone");
	test_left_alone("/proc/self/exe", "a file is left alone");
	test_left_alone("/dev/ptmx", "a terminal is left alone");
	test_left_alone("", "a closed standard input stays closed");
	test_missing();
	return tap_done();
}

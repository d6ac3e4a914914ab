/* SPDX-License-Identifier: Apache-2.0
 * Virtual PIDs and TIDs. The test's second process is a rank under the preload that changes itself
 * as a restart does: the state and libc's cached TIDs differ from the kernel's numbers. Two of its
 * threads even have each other's numbers, so that any confusion is found. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/support/shim_agent.h"
#include "test/support/tap.h"

#define VPID 4000000
#define NOBODY 4000001
#define KERNEL_MAX_PID (1 << 22)

struct worker {
	pthread_t thread;
	pid_t tid;             /* the kernel's */
	sem_t ready, go;
	int wait_fd;           /* read()s here until it must act */
	volatile int usr1, queued, timer;
	pid_t gettid, sys_gettid;
};

static struct gck_shim_state *state;
static struct worker a, b;
static __thread struct worker *self;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (!self)
		return;
	if (sig == SIGUSR1 && info->si_code == SI_QUEUE)
		self->queued += info->si_value.sival_int;
	else if (sig == SIGUSR1)
		self->usr1++;
	else
		self->timer++;
}

static void *work(void *arg)
{
	char byte;

	self = arg;
	sem_post(&self->ready);
	while (sem_wait(&self->go))
		;
	self->gettid = gettid();
	self->sys_gettid = syscall(SYS_gettid);
	sem_post(&self->ready);
	while (read(self->wait_fd, &byte, 1) < 0)
		;
	return NULL;
}

static int32_t *cached_tid(pthread_t t)
{
	return (int32_t *)(t + state->tid_offset);
}

static void start_worker(struct worker *w)
{
	static int never[2] = { -1, -1 };

	if (never[0] < 0 && pipe(never))
		exit(99);
	w->wait_fd = never[0];
	sem_init(&w->ready, 0, 0);
	sem_init(&w->go, 0, 0);
	pthread_create(&w->thread, NULL, work, w);
	sem_wait(&w->ready);
	w->tid = *cached_tid(w->thread);
}

static void entry(int i, int32_t vtid, int32_t rtid)
{
	state->tids[i] = (struct gck_shim_tid){ vtid, rtid };
}

/* Do what a restart does: a and b get each other's old TID. */
static void restart(void)
{
	entry(0, VPID, getpid());
	entry(1, b.tid, a.tid);
	entry(2, a.tid, b.tid);
	*cached_tid(pthread_self()) = VPID;
	*cached_tid(a.thread) = b.tid;
	*cached_tid(b.thread) = a.tid;
	state->ntids = 3;
	state->vpid = VPID;
	state->restarts = 1;
}

static bool until(volatile int *value, int want)
{
	for (int i = 0; i < 500 && *value != want; i++)
		pause_ms(10);
	return *value == want;
}

/* ---- the process --------------------------------------------------------------------------- */

static void test_pid(pid_t real)
{
	struct rlimit limit;
	char from = 'x', to = 0;
	struct iovec local = { &to, 1 }, remote = { &from, 1 };
	clockid_t clock;
	int fd;

	is_int(getpid(), VPID, "getpid");
	is_int(syscall(SYS_getpid), VPID, "syscall(SYS_getpid)");
	is_int(gettid(), VPID, "gettid of the main thread");
	ok(getpgid(getpid()) == getpgrp(), "getpgid");
	ok(getsid(getpid()) == getsid(0), "getsid");
	ok(kill(getpid(), 0) == 0 && kill(VPID + 1, 0) < 0 && errno == ESRCH, "kill");
	ok(prlimit(getpid(), RLIMIT_CORE, NULL, &limit) == 0, "prlimit");
	ok(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 && to == 'x',
	   "process_vm_readv");
	fd = pidfd_open(getpid(), 0);
	ok(fd >= 0, "pidfd_open");
	close(fd);
	ok(clock_getcpuclockid(getpid(), &clock) == 0, "clock_getcpuclockid");
	errno = 0;
	ok(getpriority(PRIO_PROCESS, getpid()) >= -20 && errno == 0, "getpriority");
	ok(sched_getscheduler(getpid()) == SCHED_OTHER, "sched_getscheduler");
	ok(syscall(SYS_tgkill, getpid(), gettid(), 0) == 0, "syscall(SYS_tgkill)");
	ok(kill(real, 0) == 0, "the kernel's PID is still valid");
}

static void test_group(pid_t real)
{
	ok(setpgid(getpid(), getpid()) == 0 && getpgrp() == VPID,
	   "setpgid and getpgrp with the virtual PID");
	ok(getpgid(0) == VPID && getpgid(real) == VPID, "getpgid gives it, too");
	ok(kill(-VPID, 0) == 0 && killpg(VPID, 0) == 0, "kill and killpg find it");
}

static void test_owner(pid_t real)
{
	int fds[2];
	struct f_owner_ex o = { F_OWNER_TID, b.tid };

	if (pipe(fds))
		return;
	ok(fcntl(fds[0], F_SETOWN, getpid()) == 0, "F_SETOWN");
	is_int(fcntl(fds[0], F_GETOWN), VPID, "F_GETOWN");
	is_int(fcntl(fds[0], F_SETOWN, -getpgrp()), 0, "F_SETOWN of a group");
	is_int(fcntl(fds[0], F_GETOWN), -VPID, "F_GETOWN of a group");
	ok(fcntl(fds[0], F_SETOWN_EX, &o) == 0, "F_SETOWN_EX");
	o.pid = 0;
	ok(fcntl(fds[0], F_GETOWN_EX, &o) == 0 && o.pid == b.tid, "F_GETOWN_EX");
	state->restarts = 0;
	ok(fcntl(fds[0], F_GETOWN_EX, &o) == 0 && o.pid == a.tid,
	   "the kernel has the kernel's number");
	fcntl(fds[0], F_SETOWN, real);
	state->restarts = 1;
	is_int(fcntl(fds[0], F_GETOWN), VPID, "the kernel's number is translated");
	is_int(syscall(SYS_fcntl, fds[0], F_GETOWN), VPID, "by syscall, too");
	is_int(fcntl(99999, F_GETOWN), -1, "and errors are errors");
	close(fds[0]);
	close(fds[1]);
}

static bool is_fault(long r)
{
	return r == -1 && errno == EFAULT;
}

/* Which only sockets have. */
static void test_owner_by_ioctl(pid_t real)
{
	int fds[2], id = VPID, got = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		return;
	ok(ioctl(fds[0], FIOSETOWN, &id) == 0 && ioctl(fds[0], SIOCGPGRP, &got) == 0 &&
	   got == VPID, "FIOSETOWN and SIOCGPGRP");
	id = -VPID;
	ok(ioctl(fds[0], SIOCSPGRP, &id) == 0 && ioctl(fds[0], FIOGETOWN, &got) == 0 &&
	   got == -VPID, "SIOCSPGRP and FIOGETOWN, of a group");
	state->restarts = 0;
	ok(ioctl(fds[0], FIOGETOWN, &got) == 0 && got == -real,
	   "the kernel has the kernel's number");
	state->restarts = 1;
	ok(is_fault(ioctl(fds[0], FIOSETOWN, NULL)), "of no memory: EFAULT");
	ok(ioctl(fds[0], FIONREAD, &got) == 0 && got == 0, "other commands are as they were");
	close(fds[0]);
	close(fds[1]);
}

/* ---- sockets ------------------------------------------------------------------------------- */

union control {
	struct cmsghdr head;
	char space[CMSG_SPACE(sizeof(struct ucred))];
};

static struct msghdr message(union control *control, struct iovec *part)
{
	return (struct msghdr){.msg_iov = part, .msg_iovlen = 1, .msg_control = control,
			       .msg_controllen = sizeof *control};
}

static void set_pid(union control *control, pid_t pid)
{
	struct ucred c = {.pid = pid, .uid = getuid(), .gid = getgid()};

	control->head = (struct cmsghdr){CMSG_LEN(sizeof c), SOL_SOCKET, SCM_CREDENTIALS};
	memcpy(CMSG_DATA(&control->head), &c, sizeof c);
}

static pid_t pid_in(const union control *control)
{
	struct ucred c = {0};

	memcpy(&c, CMSG_DATA(&control->head), sizeof c);
	return c.pid;
}

static void test_credentials(pid_t real)
{
	int pair[2], on = 1;
	struct ucred peer = {0};
	socklen_t n = sizeof peer;
	char byte = 'x';
	struct iovec part = {&byte, 1};
	union control control[2];
	struct msghdr m[2] = {message(&control[0], &part), message(&control[1], &part)};
	struct mmsghdr v[2] = {{.msg_hdr = m[0]}, {.msg_hdr = m[1]}};

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) ||
	    setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on))
		return;
	ok(!getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &n) && peer.pid == VPID,
	   "SO_PEERCRED");
	peer.pid = 0;
	ok(!syscall(SYS_getsockopt, pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &n) &&
	   peer.pid == VPID, "… by syscall");
	send(pair[0], "x", 1, 0);
	ok(recvmsg(pair[1], &m[0], 0) == 1 && pid_in(&control[0]) == VPID,
	   "credentials that the kernel adds");
	set_pid(&control[0], VPID);
	m[0].msg_controllen = sizeof control[0];
	ok(sendmsg(pair[0], &m[0], 0) == 1 && pid_in(&control[0]) == VPID,
	   "credentials that the program sends");
	set_pid(&control[0], 0);
	ok(syscall(SYS_recvmsg, pair[1], &m[0], 0) == 1 && pid_in(&control[0]) == VPID,
	   "… arrive");
	set_pid(&control[0], NOBODY);
	ok(sendmsg(pair[0], &m[0], 0) < 0 && errno, "nobody's are refused");
	set_pid(&control[0], VPID);
	set_pid(&control[1], VPID);
	ok(sendmmsg(pair[0], v, 2, 0) == 2 && v[1].msg_len == 1 && pid_in(&control[1]) == VPID,
	   "sendmmsg");
	set_pid(&control[1], 0);
	ok(recvmmsg(pair[1], v, 2, 0, NULL) == 2 && pid_in(&control[0]) == VPID &&
	   pid_in(&control[1]) == VPID, "recvmmsg");
	state->restarts = 0;
	set_pid(&control[0], real);
	ok(sendmsg(pair[0], &m[0], 0) == 1 && recvmsg(pair[1], &m[0], 0) == 1 &&
	   pid_in(&control[0]) == real, "before a restart they are the kernel's");
	state->restarts = 1;
	close(pair[0]);
	close(pair[1]);
}

/* ---- pointers that are no memory ----------------------------------------------------------- */

static void test_bad_messages(int fd, void *none, const char *when)
{
	char byte = 'x';
	struct iovec part = {&byte, 1};
	union control control;
	struct msghdr m = message(&control, &part), bad = message(none, &part);
	struct mmsghdr v[2] = {{.msg_hdr = m}, {.msg_hdr = bad}};

	set_pid(&control, getpid());
	ok(is_fault(sendmsg(fd, none, 0)) && is_fault(sendmsg(fd, &bad, 0)) &&
	   is_fault(syscall(SYS_sendmsg, fd, none, 0)) &&
	   is_fault(syscall(SYS_sendmsg, fd, &bad, 0)), "%s: sendmsg", when);
	ok(is_fault(sendmmsg(fd, none, 1, 0)) && is_fault(sendmmsg(fd, &v[1], 1, 0)) &&
	   sendmmsg(fd, v, 2, 0) == 1 && v[0].msg_len == 1, "%s: sendmmsg", when);
	ok(is_fault(recvmsg(fd, none, 0)) && is_fault(recvmmsg(fd, none, 1, 0, NULL)) &&
	   recvmsg(fd, &bad, 0) == 1 && !bad.msg_controllen, "%s: recvmsg, recvmmsg", when);
}

static void test_bad_calls(int fd, void *none, const char *when)
{
	char *end = (char *)none - sizeof "/a" + 1;
	struct stat st;

	test_bad_messages(fd, none, when);
	ok(is_fault(open(none, O_RDONLY)) && is_fault(stat(none, &st)) &&
	   is_fault(syscall(SYS_openat, AT_FDCWD, none, O_RDONLY)) &&
	   is_fault(syscall(SYS_readlinkat, AT_FDCWD, none, end - 8, 8)), "%s: paths", when);
	strcpy(end, "/");
	ok(stat(end, &st) == 0 && S_ISDIR(st.st_mode), "%s: one at the end of memory",
	   when);
	ok(is_fault(fcntl(fd, F_SETOWN_EX, none)) && is_fault(fcntl(fd, F_GETOWN_EX, none)) &&
	   is_fault(fcntl(fd, F_GETLK, none)), "%s: fcntl", when);
}

static void test_bad_pointers(void)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *tail = page + 4096 - offsetof(struct msghdr, msg_control);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0), on = 1;
	struct sockaddr_un own = {.sun_family = AF_UNIX};
	socklen_t n = sizeof own;

	mprotect(page + 4096, 4096, PROT_NONE);
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) ||
	    bind(fd, (struct sockaddr *)&own, sizeof own.sun_family) ||
	    getsockname(fd, (struct sockaddr *)&own, &n) ||
	    connect(fd, (struct sockaddr *)&own, n))
		exit(99);
	test_bad_calls(fd, page + 4096, "a pointer that is no memory");
	ok(is_fault(sendmsg(fd, tail, 0)), "a message whose end is no memory");
	state->restarts = 0;
	test_bad_calls(fd, page + 4096, "… before a restart");
	state->restarts = 1;
	close(fd);
	munmap(page, 8192);
}

/* ---- waiting for signals --------------------------------------------------------------------- */

/* They are this thread's: other threads do not block them. */
static void test_senders(pid_t real)
{
	const struct timespec moment = {.tv_sec = 10};
	siginfo_t x = {0};
	sigset_t set, before;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, &before);
	raise(SIGUSR2);
	ok(sigwaitinfo(&set, &x) == SIGUSR2 && x.si_pid == VPID, "sigwaitinfo: the sender");
	pthread_sigqueue(pthread_self(), SIGUSR2, (union sigval){.sival_int = 5});
	ok(sigtimedwait(&set, &x, &moment) == SIGUSR2 && x.si_pid == VPID &&
	   x.si_value.sival_int == 5, "sigtimedwait");
	raise(SIGUSR2);
	ok(syscall(SYS_rt_sigtimedwait, &set, &x, &moment, 8) == SIGUSR2 && x.si_pid == VPID,
	   "… by syscall");
	raise(SIGUSR2);
	ok(sigtimedwait(&set, NULL, &moment) == SIGUSR2, "who does not ask");
	ok(sigtimedwait(&set, &x, &(struct timespec){0}) == -1 && errno == EAGAIN, "none");
	state->restarts = 0;
	raise(SIGUSR2);
	ok(sigwaitinfo(&set, &x) == SIGUSR2 && x.si_pid == real, "before a restart: the kernel's");
	state->restarts = 1;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

ssize_t __read_chk(int fd, void *to, size_t size, size_t space);

size_t __fread_chk(void *to, size_t space, size_t size, size_t n, FILE *f);
size_t __fread_unlocked_chk(void *to, size_t space, size_t size, size_t n, FILE *f);

static size_t read_stream(struct signalfd_siginfo *x, int how, FILE *f)
{
	switch (how) {
	case 0:
		return fread(x, sizeof *x, 1, f);
	case 1:
		return fread_unlocked(x, sizeof *x, 1, f);
	case 2:
		return __fread_chk(x, sizeof *x, sizeof *x, 1, f);
	default:
		return __fread_unlocked_chk(x, sizeof *x, sizeof *x, 1, f);
	}
}

/* Two signals are in the stream's buffer at once. */
static void test_stream(int fd)
{
	static const char *const names[] = { "fread", "fread_unlocked", "fread, fortified",
					     "fread_unlocked, fortified" };
	FILE *f = fdopen(dup(fd), "r");
	struct signalfd_siginfo x[2];

	for (int how = 0; f && how < 4; how++) {
		memset(x, 0, sizeof x);
		raise(SIGUSR2);
		pthread_sigqueue(pthread_self(), SIGRTMIN, (union sigval){ .sival_int = 5 });
		errno = 0;
		ok(read_stream(&x[0], how, f) == 1 && read_stream(&x[1], how, f) == 1 && !errno &&
		   x[0].ssi_pid == VPID && x[1].ssi_pid == VPID && x[1].ssi_int == 5,
		   "… by %s", names[how]);
	}
	if (f)
		fclose(f);
}

/* A file whose bytes are a signal's is left as it is. */
static void test_signalfd(pid_t real)
{
	struct signalfd_siginfo x[3], file;
	const struct iovec parts[] = {
		{ x, 13 }, { NULL, 0 }, { (char *)x + 13, 150 }, { (char *)x + 163, 200 },
	};
	sigset_t set, before;
	int fd, end[2];
	ssize_t n;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &set, &before);
	fd = signalfd(-1, &set, 0);
	raise(SIGUSR2);
	pthread_sigqueue(pthread_self(), SIGRTMIN, (union sigval){ .sival_int = 5 });
	ok(read(fd, x, sizeof x) == 2 * sizeof *x && x[0].ssi_pid == VPID &&
	   x[1].ssi_pid == VPID && x[1].ssi_int == 5, "a signalfd: the senders");
	raise(SIGUSR2);
	ok(__read_chk(fd, x, sizeof x, sizeof x) == sizeof *x && x->ssi_pid == VPID,
	   "… with _FORTIFY_SOURCE");
	for (int i = 0; i < 4; i++) {
		raise(SIGUSR2);
		pthread_sigqueue(pthread_self(), SIGRTMIN, (union sigval){ .sival_int = 5 });
		memset(x, 0, sizeof x);
		n = i == 0   ? readv(fd, parts, 4)
		    : i == 3 ? preadv2(fd, parts, 4, -1, 0)
		    : i == 1 ? syscall(SYS_readv, fd, parts, 4)
			     : syscall(SYS_read, fd, x, sizeof x);
		ok(n == 2 * sizeof *x && x[0].ssi_pid == VPID && x[1].ssi_pid == VPID &&
		   x[1].ssi_int == 5 && x[1].ssi_signo == (uint32_t)SIGRTMIN,
		   "… by %s", i == 0 ? "readv(), in parts" : i == 1 ? "SYS_readv"
			      : i == 3 ? "preadv2()" : "SYS_read");
	}
	test_stream(fd);
	file = *x;
	file.ssi_pid = (uint32_t)real;
	ok(!pipe(end) && write(end[1], &file, sizeof file) == sizeof file &&
	   read(end[0], x, sizeof x) == sizeof *x && x->ssi_pid == (uint32_t)real,
	   "a pipe's bytes are no signals");
	state->restarts = 0;
	raise(SIGUSR2);
	ok(read(fd, x, sizeof x) == sizeof *x && x->ssi_pid == (uint32_t)real,
	   "before a restart: the kernel's");
	state->restarts = 1;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(fd);
	close(end[0]);
	close(end[1]);
}

/* ---- handlers -------------------------------------------------------------------------------- */

static pid_t told;

static void be_told(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	told = info->si_pid;
}

static void be_told_otherwise(int sig, siginfo_t *info, void *context)
{
	be_told(sig, info, context);
	told = -told;
}

/* The handler that the kernel calls. */
static uint64_t kernels_handler(int sig)
{
	uint64_t act[4] = {0};

	syscall(SYS_rt_sigaction, sig, NULL, act, 8);
	return act[0];
}

/* The restorer puts a handler from before into the table. */
static void test_handlers(pid_t real)
{
	struct sigaction act = {.sa_sigaction = be_told, .sa_flags = SA_SIGINFO}, old;

	state->restarts = 0;
	sigaction(SIGURG, &act, NULL);
	ok(kernels_handler(SIGURG) == (uint64_t)be_told, "before a restart: the program's own");
	state->restarts = 1;
	raise(SIGURG);
	is_int(told, real, "the kernel's number, without it");
	ok(!sigaction(SIGURG, &act, &old) && old.sa_sigaction == be_told, "the one of before");
	raise(SIGURG);
	is_int(told, VPID, "a handler is told the sender");
	act.sa_sigaction = be_told_otherwise;
	ok(!sigaction(SIGURG, NULL, &old) && old.sa_sigaction == be_told &&
	   !sigaction(SIGURG, &act, &old) && old.sa_sigaction == be_told &&
	   old.sa_flags & SA_SIGINFO, "and is the program's own for those who ask");
	raise(SIGURG);
	is_int(told, -VPID, "another one");
	ok(sigaction(SIGKILL, &act, NULL) == -1 && errno == EINVAL && !state->handlers[SIGKILL] &&
	   sigaction(65, &act, NULL) == -1 && errno == EINVAL, "none of SIGKILL, none of 65");
	ok(signal(SIGURG, SIG_IGN) == (sighandler_t)(uintptr_t)be_told_otherwise &&
	   kernels_handler(SIGURG) == (uint64_t)SIG_IGN, "signal");
	sigaction(SIGURG, &act, NULL);
	ok(sysv_signal(SIGURG, SIG_DFL) == (sighandler_t)(uintptr_t)be_told_otherwise &&
	   !sigaction(SIGURG, NULL, &old) && old.sa_handler == SIG_DFL, "sysv_signal");
}

/* ---- children ------------------------------------------------------------------------------ */

static void test_children(pid_t real)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit((getpid() == VPID) | (getpid() == real) << 1 | (getppid() != VPID) << 2 |
		      (kill(getppid(), 0) != 0) << 3 | (gettid() != getpid()) << 4 |
		      (syscall(SYS_getpid) != getpid()) << 5 |
		      (pthread_kill(pthread_self(), 0) != 0) << 6);
	waitpid(pid, &status, 0);
	is_int(WEXITSTATUS(status), 0,
	       "a child has its own PID, and the virtual PID as its parent's");
	pid = vfork();
	if (pid == 0)
		_exit(getpid() == VPID || getpid() == real || getppid() != VPID);
	waitpid(pid, &status, 0);
	is_int(WEXITSTATUS(status), 0, "so has a vfork child");
}

/* ---- waiting ------------------------------------------------------------------------------- */

#define VCHILD 4000002

/* A child that has ended, and that the program knows as VCHILD. leads: a process group. */
static pid_t ended_child(int status, bool leads)
{
	siginfo_t x;
	pid_t pid = fork();

	if (pid == 0)
		_exit(leads && setpgid(0, 0) ? 99 : status);
	waitid(P_PID, pid, &x, WEXITED | WNOWAIT);
	entry(3, VCHILD, pid);
	state->ntids = 4;
	return pid;
}

static bool is_known(void)
{
	return state->tids[3].vtid == VCHILD;
}

static void test_waits(void)
{
	struct rusage usage = { .ru_maxrss = 0 };
	siginfo_t x;
	int status = 0;
	FILE *f;

	ended_child(5, false);
	ok(!kill(VCHILD, 0) && getpgid(VCHILD) == getpgrp(), "a child has its first number");
	ok(!waitid(P_PID, VCHILD, &x, WEXITED | WNOWAIT) && x.si_pid == VCHILD &&
	   x.si_status == 5 && is_known(), "waitid that leaves it");
	ok(wait(&status) == VCHILD && WEXITSTATUS(status) == 5 && !is_known(),
	   "wait, which gives the number back");
	ok(waitpid(VCHILD, NULL, 0) < 0 && errno == ECHILD, "there is no such child after it");
	ended_child(6, true);
	ok(waitpid(-VCHILD, &status, WNOHANG) == VCHILD && WEXITSTATUS(status) == 6 && !is_known(),
	   "waitpid for a group");
	ended_child(7, false);
	ok(wait4(0, &status, WUNTRACED, &usage) == VCHILD && WEXITSTATUS(status) == 7 &&
	   usage.ru_maxrss, "wait4 for the own group, with the usage");
	ended_child(8, false);
	ok(!waitid(P_ALL, 0, &x, WEXITED) && x.si_pid == VCHILD && !is_known(), "waitid for all");
	ended_child(9, false);
	ok(syscall(SYS_wait4, VCHILD, &status, 0, 0) == VCHILD && WEXITSTATUS(status) == 9,
	   "syscall(SYS_wait4)");
	ended_child(10, false);
	ok(syscall(SYS_waitid, P_PID, VCHILD, &x, WEXITED, 0) == 0 && x.si_pid == VCHILD,
	   "syscall(SYS_waitid)");
	ok(wait3(&status, WNOHANG, NULL) < 0 && errno == ECHILD, "no child, no number");
	ok(waitpid(-1, NULL, 0x4000) < 0 && errno == EINVAL, "an unknown option");
	f = popen("exit 11", "r");
	ok(f && getc(f) == EOF && !waitid(P_ALL, 0, &x, WEXITED | WNOWAIT), "popen");
	entry(3, VCHILD, x.si_pid);
	*(int32_t *)(void *)((char *)(f + 1) + sizeof(void *)) = VCHILD;
	status = pclose(f);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 11 && !is_known(), "pclose");
	ok(system("exit 3") == 3 << 8 && system("kill -9 $$") == SIGKILL && system(NULL) == 1,
	   "system");
	state->ntids = 3;
}

static void test_running(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	entry(3, VCHILD, pid);
	state->ntids = 4;
	ok(waitpid(VCHILD, &status, WNOHANG) == 0, "a child that runs is not waited for");
	kill(VCHILD, SIGSTOP);
	ok(waitpid(-1, &status, WUNTRACED) == VCHILD && WIFSTOPPED(status) &&
	   WSTOPSIG(status) == SIGSTOP && is_known(), "it stops");
	kill(VCHILD, SIGCONT);
	ok(waitpid(VCHILD, &status, WCONTINUED) == VCHILD && WIFCONTINUED(status) && is_known(),
	   "it goes on");
	kill(VCHILD, SIGKILL);
	ok(waitpid(VCHILD, &status, 0) == VCHILD && WIFSIGNALED(status) &&
	   WTERMSIG(status) == SIGKILL && !is_known(), "it ends by a signal");
	state->ntids = 3;
}

static int32_t kernel_number(int32_t vpid)
{
	for (uint32_t i = 0; i < state->ntids; i++)
		if (state->tids[i].vtid == vpid)
			return state->tids[i].rtid;
	return 0;
}

/* The kernel gives a new child a number that is another child's. */
static void test_used_number(pid_t real)
{
	int status;
	pid_t pid = fork(), again;

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 2000; i++)
		entry(3 + i, pid + 1 + i, real);
	state->ntids = 2003;
	again = fork();
	if (again == 0)
		_exit(12);
	ok(again >= KERNEL_MAX_PID, "a new child with a used number gets another");
	is_int(kernel_number(again), again % KERNEL_MAX_PID,
	       "made of the kernel's, so that no other process gives it");
	ok(waitpid(again, &status, 0) == again && WEXITSTATUS(status) == 12,
	   "and can be waited for");
	state->ntids = 3;
}

/* ---- /proc --------------------------------------------------------------------------------- */

/* Whether what the call found is the directory with this kernel's number. */
static bool is_of(int number, const struct stat *found, const char *directory)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof path, "%s/%d", directory, number);
	state->restarts = 0;
	if (stat(path, &st))
		st.st_ino = 0;
	state->restarts = 1;
	return st.st_ino && st.st_ino == found->st_ino;
}

static bool link_says(const char *path, int number, int thread)
{
	char want[64], target[64];
	ssize_t n;

	memset(target, '#', sizeof target);
	n = readlink(path, target, sizeof target);

	if (thread)
		snprintf(want, sizeof want, "%d/task/%d", number, thread);
	else
		snprintf(want, sizeof want, "%d", number);
	return n == (ssize_t)strlen(want) && !memcmp(target, want, (size_t)n) && target[n] == '#';
}

static bool lists(const char *path, int number)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int found = 0;

	while (d && (e = readdir(d)))
		found += atoi(e->d_name) == number;
	if (d)
		closedir(d);
	return found == 1;
}

static void test_proc(pid_t real)
{
	char path[64], task[64], text[64] = "";
	struct statx x;
	struct stat st;
	int fd;

	snprintf(path, sizeof path, "/proc/%d", VPID);
	ok(!stat(path, &st) && is_of(real, &st, "/proc"), "stat of /proc/PID");
	ok(!lstat(path, &st) && is_of(real, &st, "/proc"), "lstat");
	ok(!fstatat(AT_FDCWD, path, &st, 0) && is_of(real, &st, "/proc"), "fstatat");
	ok(!statx(AT_FDCWD, path, 0, STATX_INO, &x) && x.stx_ino == st.st_ino, "statx");
	ok(!syscall(SYS_stat, path, &st) && is_of(real, &st, "/proc"), "syscall(SYS_stat)");
	ok(!access(path, F_OK) && !faccessat(AT_FDCWD, path, F_OK, 0), "access and faccessat");
	snprintf(path, sizeof path, "/proc/%d", NOBODY);
	ok(access(path, F_OK) && errno == ENOENT, "a number that no process has");
	fd = open("/proc/4000000/stat", O_RDONLY | O_CLOEXEC);
	ok(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && atoi(text) == real, "open");
	close(fd);
	fd = openat(99, "/proc/4000000/", O_RDONLY | O_CLOEXEC);
	ok(fd >= 0 && !fstat(fd, &st) && is_of(real, &st, "/proc"), "openat");
	close(fd);
	snprintf(task, sizeof task, "/proc/%d/task/%d", VPID, b.tid);
	ok(!stat(task, &st) && is_of(a.tid, &st, "/proc/self/task"), "/proc/PID/task/TID");
	ok(link_says("/proc/self", VPID, 0), "readlink of /proc/self");
	ok(link_says("/proc/thread-self", VPID, VPID), "… of /proc/thread-self");
	ok(readlink("/proc/4000000/exe", text, sizeof text) > 1, "… of a link of the process");
	ok(lists("/proc", VPID), "readdir of /proc");
	ok(lists("/proc/self/task", VPID) && lists("/proc/4000000/task", b.tid), "… of threads");
}

/* ---- exec ---------------------------------------------------------------------------------- */

enum way { EXECVE, EXECVP, EXECLE, SPAWN, SYSCALL, VFORK, WAYS };

/* The program compares its numbers with the arguments: its own, its parent's and another's. */
static void execute(enum way way, char *const argv[])
{
	pid_t pid;
	int status = 99;

	switch (way) {
	case EXECVE:
		execve(argv[0], argv, environ);
		break;
	case EXECVP:
		execvp(argv[0], argv);
		break;
	case EXECLE:
		execle(argv[0], argv[0], argv[1], argv[2], argv[3], argv[4], NULL, environ);
		break;
	case SYSCALL:
		syscall(SYS_execve, argv[0], argv, environ);
		break;
	case VFORK:
		pid = vfork();
		if (pid == 0) {
			execv(argv[0], argv);
			_exit(98);
		}
		waitpid(pid, &status, 0);
		_exit(WEXITSTATUS(status));
	default:
		if (!posix_spawn(&pid, argv[0], NULL, NULL, argv, environ))
			waitpid(pid, &status, 0);
		_exit(WEXITSTATUS(status));
	}
	_exit(97);
}

static int executed(char **argv)
{
	pid_t other = atoi(argv[4]);

	return (atoi(argv[2]) && getpid() != atoi(argv[2])) | (getppid() != atoi(argv[3])) << 1 |
	       (kill(other, 0) != 0) << 2 | (gettid() != getpid()) << 3 |
	       (!link_says("/proc/self", getpid(), 0)) << 4;
}

static void test_exec(void)
{
	static const char *const names[] = {
		"a program that execve() executes knows the numbers", "… execvp()", "… execle()",
		"… posix_spawn()", "… syscall(SYS_execve)", "… execv() after vfork()" };
	pid_t other = fork();

	if (other == 0)
		for (;;)
			pause();
	for (enum way way = 0; way < WAYS; way++) {
		bool below = way == SPAWN || way == VFORK;
		char own[16], parent[16], number[16];
		char *argv[] = { (char *)"/proc/self/exe", (char *)"executed", own, parent, number,
				 NULL };
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			/* as after a restart: two processes with other numbers */
			entry(3, VCHILD, getpid());
			entry(4, VCHILD + 1, other);
			state->ntids = 5;
			state->vpid = VCHILD;
			snprintf(own, sizeof own, "%d", below ? 0 : VCHILD);
			snprintf(parent, sizeof parent, "%d", below ? VCHILD : VPID);
			snprintf(number, sizeof number, "%d", VCHILD + 1);
			execute(way, argv);
		}
		waitpid(pid, &status, 0);
		is_int(status, 0, names[way]);
	}
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void test_signals(void)
{
	union sigval seven = { .sival_int = 7 };

	is_int(pthread_kill(a.thread, SIGUSR1), 0, "pthread_kill");
	ok(until(&a.usr1, 1), "pthread_kill: the signal arrives");
	is_int(pthread_sigqueue(a.thread, SIGUSR1, seven), 0, "pthread_sigqueue");
	ok(until(&a.queued, 7), "pthread_sigqueue: it arrives with its value");
	is_int(tgkill(getpid(), b.tid, SIGUSR1), 0, "tgkill");
	ok(until(&a.usr1, 2), "tgkill: it arrives");
	is_int(syscall(SYS_tkill, b.tid, SIGUSR1), 0, "syscall(SYS_tkill)");
	ok(until(&a.usr1, 3), "syscall(SYS_tkill): it arrives");
	ok(b.usr1 == 0 && b.queued == 0, "nothing arrives at the other thread");
	is_int(pthread_kill(a.thread, 32), EINVAL, "libc's own signals cannot be sent");
	is_int(pthread_kill(a.thread, 0), 0, "signal 0");
	is_int(pthread_kill(a.thread, 1000), EINVAL, "an invalid signal");
}

static void test_gettid(void)
{
	sem_post(&a.go);
	sem_wait(&a.ready);
	is_int(a.gettid, b.tid, "gettid in a thread");
	is_int(a.sys_gettid, b.tid, "syscall(SYS_gettid) in a thread");
	sem_post(&b.go);
	sem_wait(&b.ready);
	is_int(b.gettid, a.tid, "gettid in the other thread");
}

static void test_names(void)
{
	char path[64], name[16] = "";
	FILE *f;

	is_int(pthread_setname_np(a.thread, "alpha"), 0, "pthread_setname_np");
	is_int(pthread_setname_np(a.thread, "sixteen-or-more-"), ERANGE, "… too long");
	ok(pthread_getname_np(a.thread, name, sizeof name) == 0 && !strcmp(name, "alpha"),
	   "pthread_getname_np");
	is_int(pthread_getname_np(a.thread, name, 5), ERANGE, "… too small");
	snprintf(path, sizeof path, "/proc/self/task/%d/comm", b.tid); /* a's number */
	f = fopen(path, "re");
	ok(f && fgets(name, sizeof name, f) && !strcmp(name, "alpha\n"),
	   "the name is that thread's");
	if (f)
		fclose(f);
}

static void test_scheduling(void)
{
	struct sched_param param = { 0 };
	cpu_set_t all, one, got;
	int policy, before, first = 0;

	is_int(pthread_getaffinity_np(a.thread, sizeof all, &all), 0, "pthread_getaffinity_np");
	while (!CPU_ISSET(first, &all))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	is_int(pthread_setaffinity_np(a.thread, sizeof one, &one), 0, "pthread_setaffinity_np");
	ok(sched_getaffinity(b.tid, sizeof got, &got) == 0 && CPU_EQUAL(&got, &one),
	   "sched_getaffinity by TID finds the same thread");
	ok(sched_getaffinity(a.tid, sizeof got, &got) == 0 && CPU_EQUAL(&got, &all),
	   "the other thread's affinity is unchanged");
	is_int(pthread_setschedparam(a.thread, SCHED_BATCH, &param), 0, "pthread_setschedparam");
	ok(pthread_getschedparam(a.thread, &policy, &param) == 0 && policy == SCHED_BATCH,
	   "pthread_getschedparam");
	ok(sched_getscheduler(b.tid) == SCHED_BATCH && sched_getscheduler(a.tid) == SCHED_OTHER,
	   "sched_getscheduler by TID");
	is_int(pthread_setschedprio(a.thread, 0), 0, "pthread_setschedprio");
	before = getpriority(PRIO_PROCESS, a.tid);
	ok(setpriority(PRIO_PROCESS, b.tid, 19) == 0 && getpriority(PRIO_PROCESS, b.tid) == 19 &&
	   getpriority(PRIO_PROCESS, a.tid) == before, "setpriority and getpriority by TID");
}

static void test_clocks(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2 };
	struct itimerspec soon = { .it_value = { 0, 1000000 } };
	struct timespec t;
	clockid_t clock;
	pthread_attr_t attr;
	void *stack = NULL;
	size_t size = 0;
	timer_t timer;

	ok(pthread_getcpuclockid(a.thread, &clock) == 0 && clock_gettime(clock, &t) == 0,
	   "pthread_getcpuclockid");
	event._sigev_un._tid = b.tid;
	ok(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
	   timer_settime(timer, 0, &soon, NULL) == 0, "timer_create for a thread");
	ok(until(&a.timer, 1) && b.timer == 0, "its signal arrives at the thread");
	timer_delete(timer);
	ok(pthread_getattr_np(a.thread, &attr) == 0 &&
	   pthread_attr_getstack(&attr, &stack, &size) == 0 && stack && size, "pthread_getattr_np");
	pthread_attr_destroy(&attr);
	entry(1, NOBODY, a.tid);
	*cached_tid(a.thread) = NOBODY;
	is_int(pthread_getattr_np(a.thread, &attr), 0, "pthread_getattr_np with an unused TID");
	pthread_attr_destroy(&attr);
	entry(1, b.tid, a.tid);
	*cached_tid(a.thread) = b.tid;
}

static void test_cancel(void)
{
	void *result = NULL;

	is_int(pthread_cancel(a.thread), 0, "pthread_cancel");
	pthread_join(a.thread, &result);
	ok(result == PTHREAD_CANCELED, "the thread leaves its read()");
	pause_ms(50);
	is_int(pthread_tryjoin_np(b.thread, NULL), EBUSY, "the other thread goes on");
	is_int(pthread_cancel(b.thread), 0, "pthread_cancel of the other thread");
	pthread_join(b.thread, &result);
	ok(result == PTHREAD_CANCELED, "it ends, too");
}

static void *new_thread(void *arg)
{
	pthread_mutexattr_t errorcheck;
	pthread_mutex_t m;
	bool *good = arg;

	pthread_mutexattr_init(&errorcheck);
	pthread_mutexattr_settype(&errorcheck, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&m, &errorcheck);
	*good = gettid() >= KERNEL_MAX_PID && syscall(SYS_gettid) == gettid() &&
		*cached_tid(pthread_self()) == gettid() && pthread_mutex_lock(&m) == 0 &&
		pthread_mutex_lock(&m) == EDEADLK && pthread_mutex_unlock(&m) == 0;
	pause_ms(20);
	return NULL;
}

/* The kernel gives a new thread a number that is another thread's virtual TID. */
static void test_collision(pid_t real)
{
	bool good = false, good2 = false;
	pthread_t t, t2;
	cpu_set_t set;
	int32_t next;

	pthread_create(&t, NULL, work, &a);
	next = *cached_tid(t);
	pthread_cancel(t);
	pthread_join(t, NULL);
	for (int i = 0; i < 2000; i++)
		entry(3 + i, next + i, real);
	state->ntids = 2003;
	pthread_create(&t, NULL, new_thread, &good);
	ok(pthread_getaffinity_np(t, sizeof set, &set) == 0 && pthread_kill(t, 0) == 0,
	   "a new thread with a used number can be named at once");
	pthread_create(&t2, NULL, new_thread, &good2);
	pthread_join(t, NULL);
	pthread_join(t2, NULL);
	ok(good && good2, "it has a number of its own everywhere, also in locks");
	is_int(pthread_create(&t, NULL, new_thread, &good), 0, "so has the next");
	pthread_join(t, NULL);
	ok(state->ntids < 2006 && !state->overflow, "entries of threads that ended are reused");
	state->ntids = 3;
}

/* ---- alternate stacks ---------------------------------------------------------------------- */

static struct gck_shim_altstack *altstack_of(pthread_t t)
{
	for (uint32_t i = 0; i < state->naltstacks; i++) {
		if (state->altstacks[i].fs_base == t)
			return &state->altstacks[i];
	}
	return NULL;
}

static void *with_altstack(void *arg)
{
	stack_t ss = { .ss_sp = malloc(65536), .ss_size = 65536 };
	stack_t small = { .ss_sp = ss.ss_sp, .ss_size = 1 };
	const struct gck_shim_altstack *entry_;

	sigaltstack(&ss, NULL);
	entry_ = altstack_of(pthread_self());
	ok(entry_ && entry_->sp == (uint64_t)ss.ss_sp && entry_->size == 65536 &&
	   entry_->flags == 0, "sigaltstack is recorded");
	ok(sigaltstack(&small, NULL) < 0 && errno == ENOMEM && entry_ && entry_->size == 65536,
	   "a failing one is not");
	if (arg)
		pause();
	pthread_exit(NULL);
}

static void test_altstack(void)
{
	pthread_t t;

	pthread_create(&t, NULL, with_altstack, NULL);
	pthread_join(t, NULL);
	ok(!altstack_of(t), "the entry is freed by pthread_exit");
	pthread_create(&t, NULL, with_altstack, state);
	pause_ms(50);
	pthread_cancel(t);
	pthread_join(t, NULL);
	ok(!altstack_of(t) && state->naltstacks == 1, "and by pthread_cancel");
}

/* ---- System V objects ---------------------------------------------------------------------- */

static bool is_used(int kind, int vid)
{
	bool used = false;

	for (size_t i = 0; i < GCK_SHIM_IPC; i++)
		used |= state->ipc_used[i] == GCK_SHIM_IPC_USED(kind, vid);
	return used;
}

/* The queue's mode tells which it is. */
static int mode_of(int id, struct msqid_ds *ds)
{
	return msgctl(id, IPC_STAT, ds) ? -1 : (int)(ds->msg_perm.mode & 0777u);
}

/* After a restart the program's queue has the number, and the key, that another's has here. */
static void test_ipc(void)
{
	key_t key = 0x66000000 | (gettid() & 0xffffff);
	long ours = syscall(SYS_msgget, IPC_PRIVATE, 0600), others;
	struct { long type; char byte; } letter = { 1, 'x' };
	struct msqid_ds ds;
	int known, segment, set;

	others = syscall(SYS_msgget, key, IPC_CREAT | 0640);
	known = (int)others;
	state->ipc[0] = (struct gck_shim_ipc){ GCK_IPC_MESSAGES, known, (int)ours, key };
	state->ipc[1] = (struct gck_shim_ipc){ GCK_IPC_MEMORY, (int)ours, (int)others, 0 };
	state->nipc = 2;
	ok(mode_of(known, &ds) == 0600 && ds.msg_perm.__key == key,
	   "its number and key are those of before");
	ok(msgget(key, 0) == known && msgget(key, IPC_CREAT) == known, "it is found by its key");
	ok(msgget(key, IPC_CREAT | IPC_EXCL | 0600) < 0 && errno == EEXIST, "which is in use");
	ok(!msgsnd(known, &letter, 1, 0) && mode_of(known, &ds) == 0600 && ds.msg_qnum == 1 &&
	   ds.msg_lspid == VPID, "what is sent comes there, from the program's PID");
	ok(msgrcv(known, &letter, 1, 0, IPC_NOWAIT) == 1, "and can be received");
	ok(syscall(SYS_msgctl, known, IPC_STAT, &ds) == 0 && ds.msg_perm.__key == key,
	   "syscall() knows the number, too");
	ok(is_used(GCK_IPC_MESSAGES, known) && !is_used(GCK_IPC_MEMORY, known),
	   "the record has the program's number");
	ok(!msgctl(known, IPC_RMID, NULL) && !is_used(GCK_IPC_MESSAGES, known),
	   "until it is removed");
	ok(msgget(key, 0) == known + (1 << 28) && mode_of(known + (1 << 28), &ds) == 0640,
	   "the other's has a number apart");
	ok(!msgctl(known + (1 << 28), IPC_RMID, NULL) && msgget(key, 0) < 0,
	   "and is removed by it");
	segment = shmget(IPC_PRIVATE, 4096, 0600);
	ok(segment >= 0 && !shmctl(segment, IPC_STAT, &(struct shmid_ds){ .shm_nattch = 0 }) &&
	   !shmctl(segment, IPC_RMID, NULL), "a segment that is made now");
	set = semget(IPC_PRIVATE, 1, 0600);
	ok(set >= 0 && !semop(set, &(struct sembuf){ 0, 1, 0 }, 1) &&
	   semctl(set, 0, GETPID) == VPID && semctl(set, 0, GETVAL) == 1 &&
	   !semctl(set, 0, IPC_RMID), "semaphores tell the program's PID");
	state->nipc = 0;
}

/* ---- the rank ------------------------------------------------------------------------------ */

static int rank(void)
{
	struct sigaction act = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	pid_t real = getpid();
	unsigned long long address = 0;

	if (scanf("%llx", &address) != 1)
		return 99;
	state = (struct gck_shim_state *)address;
	alarm(300);
	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGUSR2, &act, NULL);
	test_altstack();
	start_worker(&a);
	start_worker(&b);
	restart();
	test_pid(real);
	test_group(real);
	test_owner(real);
	test_owner_by_ioctl(real);
	test_credentials(real);
	test_bad_pointers();
	test_senders(real);
	test_signalfd(real);
	test_handlers(real);
	test_children(real);
	test_waits();
	test_running();
	test_used_number(real);
	test_proc(real);
	test_exec();
	test_ipc();
	test_signals();
	test_gettid();
	test_names();
	test_scheduling();
	test_clocks();
	test_cancel();
	test_collision(real);
	return tap_done();
}

int main(int argc, char **argv)
{
	char *again[] = { argv[0], (char *)"rank", NULL };
	struct agent agent = { .name = "" };
	struct gck_link_hello h;
	struct rank r;
	int in[2];

	if (argc == 5)
		return executed(argv);
	if (argc > 1)
		return rank();
	if (pipe(in))
		return 99;
	agent_listen(&agent);
	dup2(in[0], 0);
	r = agent_run(&agent, NULL, again, false);
	if (agent_admit(&agent, &h) < 0)
		return 99;
	dprintf(in[1], "%llx\n", (unsigned long long)h.state);
	waitpid(r.pid, &in[0], 0);
	return WIFEXITED(in[0]) ? WEXITSTATUS(in[0]) : 98;
}

/* SPDX-License-Identifier: Apache-2.0
 * Programs for the restore tests: `restore_program NAME ROUNDS DIRECTORY`. Each works for ROUNDS
 * rounds of about a millisecond, checks all the time that its state is as it left it, and prints
 * one line at its end that is the same however often it was restored. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <alloca.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define CHECK(c) \
	do { \
		if (!(c)) { \
			printf("broken at line %d: %s (%s)\n", __LINE__, #c, strerror(errno)); \
			fflush(stdout); \
			_exit(3); \
		} \
	} while (0)

static long rounds;
static const char *directory, *program_path;

static void pause_us(long us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 29;
	return x;
}

/* ---- threads: mutexes of every kind, condition variables, thread-local data ---------------- */

#define THREADS 64

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, recursive, checking;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static long turn;
static uint64_t under_recursive, under_checking;
static __thread uint64_t own;

static void take_turn(long me)
{
	CHECK(!pthread_mutex_lock(&plain));
	while (turn % THREADS != me)
		CHECK(!pthread_cond_wait(&turn_changed, &plain));
	turn++;
	CHECK(!pthread_cond_broadcast(&turn_changed));
	CHECK(!pthread_mutex_unlock(&plain));
}

static void *thread(void *arg)
{
	long me = (long)arg;
	double sum = 0;
	char name[16];

	own = (uint64_t)me + 1;
	for (long i = 0; i < rounds / 16; i++) {
		CHECK(!pthread_mutex_lock(&recursive));
		CHECK(!pthread_mutex_lock(&recursive));
		under_recursive += own & 0xff;
		if (i % 16 == me % 16)
			pause_us(20);
		CHECK(!pthread_mutex_unlock(&recursive));
		CHECK(!pthread_mutex_unlock(&recursive));
		CHECK(!pthread_mutex_lock(&checking));
		CHECK(pthread_mutex_lock(&checking) == EDEADLK);
		under_checking += own >> 56;
		CHECK(!pthread_mutex_unlock(&checking));
		own = mix(own);
		sum += (double)(own >> 40) / 3.0;
		take_turn(me);
	}
	snprintf(name, sizeof name, "%.0f", sum);
	return (void *)(uintptr_t)(own ^ (uint64_t)strtoull(name, NULL, 10));
}

static void run_threads(void)
{
	pthread_mutexattr_t a;
	pthread_t t[THREADS];
	uint64_t all = 0;
	void *result;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&recursive, &a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&checking, &a);
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&t[i], NULL, thread, (void *)i));
	for (long i = 0; i < THREADS; i++) {
		CHECK(!pthread_join(t[i], &result));
		all ^= (uint64_t)(uintptr_t)result;
	}
	printf("threads %ld %llx %llx %llx\n", turn, (unsigned long long)all,
	       (unsigned long long)under_recursive, (unsigned long long)under_checking);
}

/* ---- kernel: everything a descriptor can be ------------------------------------------------ */

#define BACKLOG 100

static int made_file(const char *name, int flags)
{
	char path[512];
	int fd;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	fd = open(path, flags | O_CREAT | O_TRUNC, 0640);
	CHECK(fd >= 0);
	return fd;
}

/* A queue that always holds BACKLOG numbers. */
static void pass(int in, int out, long i)
{
	uint32_t n = (uint32_t)i;

	CHECK(write(in, &n, sizeof n) == sizeof n);
	if (i < BACKLOG)
		return;
	CHECK(read(out, &n, sizeof n) == sizeof n);
	CHECK(n == (uint32_t)(i - BACKLOG));
}

struct kernel {
	int pipe[2], stream[2], event, semaphore, epoll, timer, signal, memory, appended, same;
	int rewritten, unlinked, again, nameless, path, null, dir, listener;
	struct sockaddr_un name; /* the listener's */
	socklen_t name_size;
	long ticks;
};

static void watch(struct kernel *k, int fd, uint64_t data)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = data};

	CHECK(!epoll_ctl(k->epoll, EPOLL_CTL_ADD, fd, &e));
}

static void open_kernel(struct kernel *k)
{
	struct itimerspec every = {{0, 700000}, {0, 500000}};
	sigset_t usr1;
	char path[512];

	CHECK(!pipe2(k->pipe, O_CLOEXEC));
	CHECK(fcntl(k->pipe[1], F_SETPIPE_SZ, 16384) == 16384);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, k->stream));
	CHECK((k->event = eventfd(3, EFD_NONBLOCK)) >= 0);
	CHECK((k->semaphore = eventfd(7, EFD_SEMAPHORE)) >= 0);
	CHECK((k->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)) >= 0);
	CHECK(!timerfd_settime(k->timer, 0, &every, NULL));
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK(!sigprocmask(SIG_BLOCK, &usr1, NULL));
	CHECK((k->signal = signalfd(-1, &usr1, SFD_CLOEXEC | SFD_NONBLOCK)) >= 0);
	CHECK((k->memory = memfd_create("program", 0)) >= 0);
	k->appended = made_file("appended", O_RDWR | O_APPEND);
	CHECK((k->same = fcntl(k->appended, F_DUPFD_CLOEXEC, 200)) == 200);
	k->rewritten = made_file("rewritten", O_RDWR);
	k->unlinked = made_file("unlinked", O_RDWR);
	snprintf(path, sizeof path, "%s/unlinked", directory);
	CHECK((k->again = open(path, O_RDONLY)) >= 0);
	CHECK(!unlink(path));
	CHECK((k->nameless = open(directory, O_TMPFILE | O_RDWR, 0600)) >= 0);
	CHECK((k->path = open(directory, O_PATH)) >= 0);
	CHECK((k->null = open("/dev/null", O_WRONLY)) >= 0);
	CHECK((k->dir = open(directory, O_RDONLY | O_DIRECTORY)) >= 0);
	CHECK((k->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
	k->name.sun_family = AF_UNIX;
	k->name_size = offsetof(struct sockaddr_un, sun_path) + 20; /* zeros at its end */
	snprintf(k->name.sun_path + 1, 18, "program-%d", getpid());
	CHECK(!bind(k->listener, (struct sockaddr *)&k->name, k->name_size));
	CHECK(!listen(k->listener, 2));
	CHECK((k->epoll = epoll_create1(EPOLL_CLOEXEC)) >= 0);
	watch(k, k->listener, 0x3333333300000003ull);
	watch(k, k->timer, 0x1111111100000001ull);
	watch(k, k->signal, 0x2222222200000002ull);
}

static void look(struct kernel *k, bool signal)
{
	struct epoll_event e[4];
	int n = epoll_wait(k->epoll, e, 4, 20);
	struct signalfd_siginfo info;
	uint64_t ticks;
	bool seen = false;

	CHECK(n >= 0 || errno == EINTR);
	for (int i = 0; i < n; i++) {
		if (e[i].data.u64 == 0x1111111100000001ull) {
			if (read(k->timer, &ticks, sizeof ticks) == sizeof ticks)
				k->ticks += (long)ticks;
			continue;
		}
		CHECK(e[i].data.u64 == 0x2222222200000002ull);
		CHECK(read(k->signal, &info, sizeof info) == sizeof info);
		CHECK(info.ssi_signo == SIGUSR1 && info.ssi_pid == (uint32_t)getpid());
		seen = true;
	}
	CHECK(!signal || seen);
}

static void one_round(struct kernel *k, long i)
{
	uint64_t v = 1;
	char line[32], back[32] = "";

	pass(k->pipe[1], k->pipe[0], i);
	pass(k->stream[0], k->stream[1], i);
	CHECK(write(k->event, &v, sizeof v) == sizeof v);
	if (i % 10 == 9) {
		CHECK(read(k->event, &v, sizeof v) == sizeof v);
		CHECK(v == (i == 9 ? 13 : 10));
	}
	if (i < 7) {
		CHECK(read(k->semaphore, &v, sizeof v) == sizeof v);
		CHECK(v == 1);
	}
	snprintf(line, sizeof line, "%08ld\n", i);
	CHECK(write(i % 2 ? k->appended : k->same, line, 9) == 9);
	CHECK(pwrite(k->rewritten, line, 9, i % 1000 * 9) == 9);
	CHECK(pwrite(k->unlinked, line, 9, 0) == 9);
	CHECK(write(k->nameless, line, 9) == 9 && lseek(k->nameless, 0, SEEK_CUR) == 9 * (i + 1));
	CHECK(pwrite(k->memory, line, 9, i % 5000) == 9);
	CHECK(write(k->null, line, 9) == 9);
	pause_us(300);
	CHECK(pread(k->again, back, 9, 0) == 9 && !memcmp(line, back, 9));
	CHECK(pread(k->rewritten, back, 9, i % 1000 * 9) == 9 && !memcmp(line, back, 9));
	CHECK(pread(k->memory, back, 9, i % 5000) == 9 && !memcmp(line, back, 9));
	CHECK(lseek(k->appended, 0, SEEK_CUR) == (i + 1) * 9);
	if (i % 50 == 0)
		CHECK(!raise(SIGUSR1));
	look(k, i % 50 == 0);
}

/* The name leads to the socket; one connection more than the backlog waits, and no more. */
static void connect_all(const struct kernel *k)
{
	const struct sockaddr *name = (const struct sockaddr *)&k->name;
	struct epoll_event e[4];
	bool seen = false;

	CHECK(accept(k->listener, NULL, NULL) == -1 && errno == EAGAIN);
	for (int i = 0; i < 4; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

		CHECK((connect(fd, name, k->name_size) == 0) == (i < 3));
	}
	for (int i = epoll_wait(k->epoll, e, 4, 0); i-- > 0;)
		seen |= e[i].data.u64 == 0x3333333300000003ull;
	CHECK(seen && accept(k->listener, NULL, NULL) >= 0);
}

static void run_kernel(void)
{
	struct kernel k = {0};
	struct stat st;
	char line[10] = "";

	open_kernel(&k);
	for (long i = 0; i < rounds; i++)
		one_round(&k, i);
	CHECK(!fstat(k.appended, &st) && st.st_size == rounds * 9);
	for (long i = 0; i < rounds; i++) {
		CHECK(pread(k.appended, line, 9, i * 9) == 9);
		CHECK(atol(line) == i);
	}
	CHECK(fcntl(k.pipe[0], F_GETFD) == FD_CLOEXEC && fcntl(k.stream[0], F_GETFD) == 0);
	CHECK(fcntl(k.pipe[1], F_GETPIPE_SZ) == 16384);
	CHECK(fcntl(k.appended, F_GETFL) & O_APPEND);
	CHECK(!fstatat(k.path, "appended", &st, 0));
	CHECK(!fstat(k.rewritten, &st));
	connect_all(&k);
	printf("kernel %ld %ld %s\n", rounds, (long)st.st_size,
	       k.ticks > rounds / 3 ? "ticks" : "few");
}

/* ---- shared: memory that mappings have in common ------------------------------------------- */

static void run_shared(void)
{
	const size_t size = 1 << 20;
	int fd = memfd_create("both", MFD_ALLOW_SEALING), named = made_file("shared", O_RDWR);
	char *anonymous, *a, *b, *file;
	uint64_t sum = 0;

	CHECK(!ftruncate(fd, (off_t)size) && !ftruncate(named, (off_t)size));
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	anonymous = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	a = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	b = mmap(NULL, size / 2, PROT_READ, MAP_SHARED, fd, (off_t)size / 2);
	file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, named, 0);
	CHECK(anonymous != MAP_FAILED && a != MAP_FAILED && b != MAP_FAILED && file != MAP_FAILED);
	for (long i = 0; i < rounds; i++) {
		size_t at = (size_t)(mix((uint64_t)i) % (size / 2));

		a[size / 2 + at] = anonymous[at] = file[at] = (char)i;
		pause_us(500);
		CHECK(b[at] == (char)i && anonymous[at] == (char)i && file[at] == (char)i);
		if (i % 100 == 0)
			CHECK(!memcmp(anonymous, b, size / 2) && !memcmp(file, b, size / 2));
	}
	for (size_t i = 0; i < size / 2; i++)
		sum = mix(sum + (uint64_t)(unsigned char)b[i]);
	CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW));
	CHECK(ftruncate(fd, 0) && errno == EPERM);
	printf("shared %llx\n", (unsigned long long)sum);
}

/* ---- signals: handlers on an alternate stack, timers, what is pending ---------------------- */

static volatile long alarms, timers, senders, threaded;
static char altstack[65536];

static void on_signal(int signo, siginfo_t *info, void *context)
{
	char here;

	(void)context;
	if (signo == SIGALRM) {
		CHECK(&here >= altstack && &here < altstack + sizeof altstack);
		alarms++;
	} else if (signo == SIGRTMIN + 1) {
		CHECK(info->si_value.sival_int == 4711);
		timers++;
	} else if (signo == SIGURG) {
		CHECK(info->si_code == SI_USER && info->si_pid == getpid());
		senders++;
	} else {
		threaded++;
	}
}

static void handle(int signo, int flags)
{
	struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};

	sigaddset(&a.sa_mask, SIGHUP);
	CHECK(!sigaction(signo, &a, NULL));
}

static timer_t make_timer(int notify, int signo, long ns)
{
	struct sigevent e = {
		.sigev_notify = notify, .sigev_signo = signo, .sigev_value.sival_int = 4711};
	struct itimerspec every = {{0, ns}, {0, ns}};
	timer_t t;

	if (notify == SIGEV_THREAD_ID)
		e._sigev_un._tid = gettid();
	CHECK(!timer_create(CLOCK_MONOTONIC, &e, &t));
	CHECK(!timer_settime(t, 0, &every, NULL));
	return t;
}

static void queue_pending(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (int s = 5; s < 8; s++)
		sigaddset(&set, SIGRTMIN + s);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGTRAP);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	CHECK(!sigqueue(getpid(), SIGTRAP, (union sigval){.sival_int = 12}));
	CHECK(!pthread_sigqueue(pthread_self(), SIGTRAP, (union sigval){.sival_int = 11}));
	for (int i = 0; i < 3; i++)
		CHECK(!sigqueue(getpid(), SIGRTMIN + 5, (union sigval){.sival_int = 100 + i}));
	CHECK(!pthread_sigqueue(pthread_self(), SIGRTMIN + 6, (union sigval){.sival_int = 7}));
	CHECK(!pthread_kill(pthread_self(), SIGUSR2));
}

static void take_pending(void)
{
	struct timespec none = {0, 0};
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < 3; i++) {
		sigaddset(&set, SIGRTMIN + 5);
		CHECK(sigtimedwait(&set, &info, &none) == SIGRTMIN + 5);
		CHECK(info.si_value.sival_int == 100 + i && info.si_code == SI_QUEUE &&
		      info.si_pid == getpid());
	}
	CHECK(sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN);
	sigaddset(&set, SIGRTMIN + 6);
	CHECK(sigtimedwait(&set, &info, &none) == SIGRTMIN + 6 && info.si_value.sival_int == 7);
	sigaddset(&set, SIGUSR2);
	CHECK(sigtimedwait(&set, &info, &none) == SIGUSR2);
	for (int i = 11; i <= 12; i++) {
		sigemptyset(&set);
		sigaddset(&set, SIGTRAP);
		CHECK(sigtimedwait(&set, &info, &none) == SIGTRAP && info.si_value.sival_int == i);
	}
	CHECK(!sigprocmask(SIG_UNBLOCK, &set, NULL));
	CHECK(!raise(SIGTRAP));
}

static void run_signals(void)
{
	stack_t alt = {.ss_sp = altstack, .ss_size = sizeof altstack}, now;
	struct itimerval every = {{0, 5000}, {0, 5000}}, left;
	timer_t extra = make_timer(SIGEV_NONE, 0, 1000000), first, second;
	struct sigaction told;
	sigset_t blocked;

	CHECK(!sigaltstack(&alt, NULL));
	handle(SIGALRM, SA_ONSTACK | SA_RESTART);
	handle(SIGRTMIN + 1, 0);
	handle(SIGRTMIN + 2, SA_NODEFER);
	handle(SIGURG, 0);
	CHECK(signal(SIGTRAP, SIG_IGN) != SIG_ERR);
	queue_pending();
	CHECK(!setitimer(ITIMER_REAL, &every, NULL));
	first = make_timer(SIGEV_SIGNAL, SIGRTMIN + 1, 3000000);
	CHECK(!timer_delete(extra));
	second = make_timer(SIGEV_THREAD_ID, SIGRTMIN + 2, 7000000);
	for (long i = 0; i < rounds; i++) {
		pause_us(1000);
		CHECK(!getitimer(ITIMER_REAL, &left) && left.it_interval.tv_usec == 5000);
		CHECK(!kill(getpid(), SIGURG));
	}
	CHECK(!sigaction(SIGURG, NULL, &told) && told.sa_sigaction == on_signal);
	CHECK(signal(SIGURG, SIG_IGN) == (sighandler_t)(uintptr_t)on_signal);
	CHECK(senders == rounds);
	CHECK(alarms > rounds / 20);
	CHECK(timers > rounds / 12);
	CHECK(threaded > rounds / 28);
	CHECK(!timer_delete(first) && !timer_delete(second));
	CHECK(!sigaltstack(NULL, &now) && now.ss_sp == altstack && now.ss_size == sizeof altstack);
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &blocked) && sigismember(&blocked, SIGRTMIN + 7));
	take_pending();
	printf("signals %ld\n", rounds);
}

/* ---- process: what belongs to it as a whole ------------------------------------------------ */

static void run_process(void)
{
	uint64_t sum = 0;
	char *stack_hint = alloca(300000), cwd[512], *more = NULL;
	pid_t pid = getpid(), tid = gettid();
	void *start = sbrk(0);
	int priority;

	memset(stack_hint, 5, 300000);
	CHECK(!chdir(directory));
	umask(0137);
	priority = nice(3);
	for (long i = 0; i < rounds; i++) {
		CHECK(getpid() == pid && gettid() == tid);
		CHECK(sbrk(0) >= start);
		more = realloc(more, (size_t)(i + 1) * 100);
		memset(more + i * 100, (int)i, 100);
		pause_us(500);
		for (long k = 0; k <= i; k += 17)
			CHECK(more[k * 100] == (char)k);
	}
	CHECK(umask(0) == 0137);
	CHECK(getcwd(cwd, sizeof cwd) && !strcmp(cwd, directory));
	for (size_t i = 0; i < 300000; i++)
		sum += (uint64_t)stack_hint[i];
	CHECK(getpriority(PRIO_PROCESS, 0) == priority);
	printf("process %ld %llu\n", rounds, (unsigned long long)sum);
}

/* ---- numbers: PIDs and TIDs that are used all the time ------------------------------------- */

static volatile bool enough;

static void *ask_own(void *arg)
{
	pid_t pid = getpid(), tid = gettid(), group = getpgid(0), session = getsid(0);

	while (!enough) {
		CHECK(getpid() == pid && gettid() == tid);
		CHECK(getpgid(pid) == group && getsid(pid) == session);
	}
	return arg;
}

static void *use_own(void *arg)
{
	pid_t pid = getpid(), tid = gettid();
	cpu_set_t set;

	while (!enough) {
		CHECK(!kill(pid, 0) && !tgkill(pid, tid, 0));
		CHECK(!pthread_kill(pthread_self(), 0));
		CHECK(!sched_getaffinity(tid, sizeof set, &set));
		CHECK(!pthread_getaffinity_np(pthread_self(), sizeof set, &set));
	}
	return arg;
}

static void *make_and_wait(void *arg)
{
	while (!enough) {
		int status;
		pid_t pid = fork();

		if (!pid)
			_exit(3);
		CHECK(pid > 0 && !kill(pid, 0));
		CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
	}
	return arg;
}

static void *own_number(void *arg)
{
	*(pid_t *)arg = gettid();
	CHECK(!tgkill(getpid(), gettid(), 0));
	return arg;
}

static void *make_and_join(void *arg)
{
	while (!enough) {
		pthread_t thread;
		pid_t tid = 0;

		CHECK(!pthread_create(&thread, NULL, own_number, &tid));
		CHECK(!pthread_join(thread, NULL) && tid);
	}
	return arg;
}

static void run_numbers(void)
{
	void *(*const work[])(void *) = {ask_own, use_own, make_and_wait, make_and_join};
	pthread_t threads[4];

	for (size_t i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, work[i], NULL));
	for (long i = 0; i < rounds; i++)
		pause_us(1000);
	enough = true;
	for (size_t i = 0; i < 4; i++)
		CHECK(!pthread_join(threads[i], NULL));
	printf("numbers %ld\n", rounds);
}

/* ---- names: libc's functions that take or return a number, at whatever moment ---------------- */

#define NAMERS 24

static void *name_own(void *arg)
{
	char path[40], tasks[40], said[16] = "";
	struct ucred peer;
	socklen_t n;
	clockid_t clock;
	int fds[2];
	DIR *d;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/comm", getpid());
	snprintf(tasks, sizeof tasks, "/proc/%d/task", getpid());
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	while (!enough) {
		CHECK((f = fopen(path, "r")) && !fclose(f));
		CHECK((d = opendir(tasks)) && !closedir(d));
		CHECK(!access(path, F_OK));
		CHECK(readlink("/proc/self", said, sizeof said - 1) > 0 && atoi(said) == getpid());
		n = sizeof peer;
		CHECK(!getsockopt(fds[0], SOL_SOCKET, SO_PEERCRED, &peer, &n));
		CHECK(peer.pid == getpid());
		CHECK(!clock_getcpuclockid(peer.pid, &clock));
	}
	return arg;
}

static void run_names(void)
{
	pthread_t threads[NAMERS];

	for (size_t i = 0; i < NAMERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, name_own, NULL));
	for (long i = 0; i < rounds; i++)
		pause_us(1000);
	enough = true;
	for (size_t i = 0; i < NAMERS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	printf("names %ld\n", rounds);
}

/* ---- areas: mappings of every kind --------------------------------------------------------- */

#define SMALL 20000 /* mappings of a page each */
#define PAGE 4096ul

static char *area(size_t size, int prot, int flags, int advice)
{
	char *at = mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	CHECK(at != MAP_FAILED);
	if (advice)
		CHECK(!madvise(at, size, advice));
	return at;
}

/* smaps' flags of the mapping at an address. */
static void flags_of(const void *address, char *flags, size_t size)
{
	unsigned long start, end;
	bool here = false;
	char line[300];
	FILE *f = fopen("/proc/self/smaps", "re");

	CHECK(f);
	flags[0] = '\0';
	while (!flags[0] && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start <= (unsigned long)address && (unsigned long)address < end;
		else if (here && !strncmp(line, "VmFlags:", 8))
			snprintf(flags, size, "%s", line + 8);
	}
	fclose(f);
}

static void has_flag(const void *address, const char *flag)
{
	char flags[300];

	flags_of(address, flags, sizeof flags);
	CHECK(strstr(flags, flag));
}

/* int f(void) { return 42; } */
static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3};

static void run_areas(void)
{
	int fd = made_file("mapped", O_RDWR);
	char *many = area(SMALL * PAGE, PROT_READ | PROT_WRITE, MAP_NORESERVE, 0);
	char *dontfork = area(PAGE, PROT_READ | PROT_WRITE, 0, MADV_DONTFORK);
	char *wiped = area(PAGE, PROT_READ | PROT_WRITE, 0, MADV_WIPEONFORK);
	char *huge = area(8 << 20, PROT_READ | PROT_WRITE, 0, MADV_HUGEPAGE);
	char *nohuge = area(4 << 20, PROT_READ | PROT_WRITE, 0, MADV_NOHUGEPAGE);
	char *locked = area(4 * PAGE, PROT_READ | PROT_WRITE, 0, 0);
	char *hidden = area(PAGE, PROT_READ | PROT_WRITE, 0, 0);
	char *jit = area(PAGE, PROT_READ | PROT_WRITE, 0, 0), *file, *tail;
	char *reserved = area(1ul << 36, PROT_NONE, MAP_NORESERVE, 0);
	int (*function)(void);

	for (int i = 0; i < 4 * (int)PAGE; i++)
		CHECK(write(fd, "abcdefg", 1 + i % 7) > 0);
	file = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	tail = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, PAGE);
	CHECK(file != MAP_FAILED && tail != MAP_FAILED);
	file[PAGE + 1] = 'X';
	dontfork[5] = wiped[6] = hidden[7] = 1;
	memset(huge, 3, 8 << 20);
	memset(nohuge, 4, PAGE);
	CHECK(!mlock(locked, 4 * PAGE));
	CHECK(!mprotect(hidden, PAGE, PROT_NONE));
	CHECK(!mprotect(reserved + (1ul << 35), PAGE, PROT_READ | PROT_WRITE));
	reserved[1ul << 35] = 9;
	memcpy(jit, code, sizeof code);
	CHECK(!mprotect(jit, PAGE, PROT_READ | PROT_EXEC));
	memcpy(&function, &jit, sizeof function);
	for (size_t i = 0; i < SMALL; i += 2) {
		many[i * PAGE] = (char)i;
		CHECK(!mprotect(many + i * PAGE, PAGE, PROT_READ));
	}
	for (long i = 0; i < rounds; i++) {
		pause_us(500);
		CHECK(dontfork[5] == 1 && wiped[6] == 1 && function() == 42);
		CHECK(reserved[1ul << 35] == 9 && file[PAGE + 1] == 'X' && tail[1] != 'X');
		for (size_t k = 0; k < SMALL; k += 2 * 97)
			CHECK(many[k * PAGE] == (char)k);
	}
	has_flag(dontfork, " dc");
	has_flag(wiped, " wf");
	has_flag(huge, " hg");
	has_flag(nohuge, " nh");
	has_flag(locked, " lo");
	CHECK(!mprotect(hidden, PAGE, PROT_READ) && hidden[7] == 1);
	for (size_t i = 0; i < SMALL; i++)
		CHECK(many[i * PAGE] == (i % 2 ? 0 : (char)i));
	for (size_t i = 0; i < 8 << 20; i += 512)
		CHECK(huge[i] == 3);
	CHECK(!memcmp(file + 2 * PAGE, tail + PAGE, PAGE));
	printf("areas %ld\n", rounds);
}

/* ---- clock: all the time in the vdso ------------------------------------------------------- */

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	CHECK(!clock_gettime(clock, &t));
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Spends most of its time in calls that do not check whether the clock can be read at all. */
static void look_at_coarse(void)
{
	struct timeval first, last;
	int64_t coarse;
	time_t seconds;

	for (int i = 0; i < 1000; i++) {
		CHECK(!gettimeofday(&first, NULL) && first.tv_sec > 1700000000);
		for (int k = 0; k < 30; k++) {
			coarse = clock_ns(CLOCK_REALTIME_COARSE) / 1000000000;
			seconds = time(NULL);
			/* a restart may happen between any two of these */
			CHECK(coarse >= first.tv_sec - 1 && seconds >= first.tv_sec - 1);
		}
		CHECK(!gettimeofday(&last, NULL) && sched_getcpu() >= 0);
		CHECK(coarse <= last.tv_sec && seconds <= last.tv_sec);
	}
}

/* The time of checkpoints and restarts is not counted: there may be any number of them. */
static void run_clock(void)
{
	const int64_t most = 20000000;
	int64_t now = clock_ns(CLOCK_MONOTONIC), before, turns = 0;

	for (int64_t ran = 0; ran < rounds * 1000000;
	     ran += now - before < most ? now - before : most) {
		before = now;
		now = clock_ns(CLOCK_MONOTONIC);
		CHECK(now >= before);
		look_at_coarse();
		turns++;
	}
	CHECK(turns > 10);
	printf("clock %ld\n", rounds);
}

/* ---- input: standard input goes on where it was -------------------------------------------- */

static void run_input(void)
{
	uint64_t x, sum = 0;

	for (long i = 0; i < rounds; i++) {
		CHECK(read(0, &x, sizeof x) == sizeof x && x == (uint64_t)i);
		sum += mix(x);
		pause_us(1000);
	}
	printf("input %llu\n", (unsigned long long)sum);
}

/* ---- exec: once DIRECTORY/go is there, goes on as another program -------------------------- */

static void run_exec(void)
{
	char *argv[] = {(char *)program_path, (char *)"process", (char *)"3000", (char *)directory,
			NULL};
	char path[512];

	snprintf(path, sizeof path, "%s/go", directory);
	while (access(path, F_OK))
		pause_us(1000);
	execv(program_path, argv);
	CHECK(!"execv");
}

/* ---- memory: much of it; ROUNDS is MiB; waits until DIRECTORY/go is there ------------------ */

static void run_memory(void)
{
	size_t n = (size_t)rounds << 20;
	uint64_t *m = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t sum = 0;
	char path[512];

	CHECK(m != MAP_FAILED);
	for (size_t i = 0; i < n / sizeof *m; i++)
		m[i] = mix(i + 1);
	snprintf(path, sizeof path, "%s/ready", directory);
	close(creat(path, 0600));
	snprintf(path, sizeof path, "%s/go", directory);
	while (access(path, F_OK))
		pause_us(1000);
	for (size_t i = 0; i < n / sizeof *m; i++)
		sum += m[i] != mix(i + 1);
	printf("memory %ld %llu\n", rounds, (unsigned long long)sum);
}

/* ---- children: those that have ended are waited for at the end ----------------------------- */

enum { EXITED, KILLED };
enum { IN_RANK, LEADS, FOLLOWS, SESSION }; /* FOLLOWS: in the group of the last that leads */

static struct {
	int how, number, group;
	int exit_signal; /* 0: SIGCHLD */
	pid_t pid;
} ended[] = {
	{EXITED, 0, IN_RANK, 0, 0},	  {EXITED, 42, IN_RANK, 0, 0},
	{EXITED, 255, LEADS, 0, 0},	  {EXITED, 7, FOLLOWS, 0, 0},
	{KILLED, SIGKILL, IN_RANK, 0, 0}, {KILLED, SIGTERM, SESSION, 0, 0},
	{KILLED, SIGSEGV, IN_RANK, 0, 0}, {KILLED, SIGTRAP, LEADS, 0, 0},
	{KILLED, 40, IN_RANK, 0, 0},	  {EXITED, 1, IN_RANK, SIGUSR2, 0},
};

#define ENDED (sizeof ended / sizeof ended[0])

static volatile sig_atomic_t told;

static void on_end(int signal)
{
	(void)signal;
	told++;
}

static _Noreturn void be_child(size_t i, pid_t leader)
{
	signal(ended[i].number, SIG_DFL);
	prctl(PR_SET_DUMPABLE, 0);
	if (ended[i].group == SESSION)
		setsid();
	else if (ended[i].group)
		setpgid(0, ended[i].group == LEADS ? 0 : leader);
	if (ended[i].how == KILLED)
		kill(getpid(), ended[i].number);
	_exit(ended[i].number);
}

static void is_as_it_ended(size_t i, const siginfo_t *x)
{
	CHECK(x->si_pid == ended[i].pid && x->si_status == ended[i].number);
	CHECK(x->si_code == (ended[i].how == EXITED ? CLD_EXITED : CLD_KILLED));
}

static void look_at(size_t i)
{
	siginfo_t x;

	CHECK(!waitid(P_PID, (id_t)ended[i].pid, &x, WEXITED | WNOWAIT | __WALL));
	is_as_it_ended(i, &x);
}

static void make_children(void)
{
	sigset_t end;
	pid_t leader = 0;

	sigemptyset(&end);
	sigaddset(&end, SIGCHLD);
	signal(SIGCHLD, on_end);
	signal(SIGUSR2, on_end);
	for (size_t i = 0; i < ENDED; i++) {
		int exit_signal = ended[i].exit_signal ? ended[i].exit_signal : SIGCHLD;

		if (i == 5) /* the rest, but the last, are one pending signal */
			CHECK(!sigprocmask(SIG_BLOCK, &end, NULL));
		ended[i].pid = (pid_t)syscall(SYS_clone, exit_signal, 0, 0, 0, 0);
		CHECK(ended[i].pid >= 0);
		if (!ended[i].pid)
			be_child(i, leader);
		look_at(i);
		if (ended[i].group == LEADS)
			leader = ended[i].pid;
	}
}

static void take_children(void)
{
	siginfo_t x;
	int status;

	CHECK(wait(&status) == ended[0].pid && WIFEXITED(status) && !WEXITSTATUS(status));
	CHECK(waitpid(ended[1].pid, &status, 0) == ended[1].pid && WEXITSTATUS(status) == 42);
	CHECK(waitpid(-ended[2].pid, &status, 0) == ended[2].pid && WEXITSTATUS(status) == 255);
	CHECK(!waitid(P_PGID, (id_t)ended[2].pid, &x, WEXITED));
	is_as_it_ended(3, &x);
	CHECK(wait4(-1, &status, WNOHANG, NULL) == ended[4].pid && status == SIGKILL);
	CHECK(getsid(ended[5].pid) == ended[5].pid && getpgid(ended[7].pid) == ended[7].pid);
	for (size_t i = 5; i < ENDED; i++) {
		CHECK(!waitid(P_PID, (id_t)ended[i].pid, &x, WEXITED | __WALL));
		is_as_it_ended(i, &x);
		CHECK(waitpid(ended[i].pid, NULL, __WALL) < 0 && errno == ECHILD);
	}
	CHECK(wait(NULL) < 0 && errno == ECHILD);
}

static void run_children(void)
{
	FILE *f = popen("exit 9", "r"), *reader = popen("wc -l >/dev/null; exit 10", "w");
	sigset_t waits;
	siginfo_t x;
	int status;

	CHECK(reader && f && getc(f) == EOF && !waitid(P_ALL, 0, &x, WEXITED | WNOWAIT));
	make_children();
	CHECK(told == 6);
	for (long i = 0; i < rounds; i++) {
		pause_us(500);
		CHECK(!sigpending(&waits) && sigismember(&waits, SIGCHLD));
		CHECK(!kill(ended[(size_t)i % ENDED].pid, 0));
		look_at((size_t)i % ENDED);
	}
	CHECK(told == 6);
	sigemptyset(&waits);
	CHECK(!sigprocmask(SIG_SETMASK, &waits, NULL) && told == 7);
	status = pclose(f);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
	CHECK(fputs("line\n", reader) > 0);
	status = pclose(reader);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 10);
	take_children();
	ended[0].pid = fork();
	if (!ended[0].pid)
		_exit(5);
	CHECK(waitpid(ended[0].pid, &status, 0) == ended[0].pid && WEXITSTATUS(status) == 5);
	printf("children %ld\n", rounds);
}

/* ---- tree: processes that exchange numbers, signals and the offset of a file ---------------- */

#define LEVELS 3

static volatile sig_atomic_t signalled;

static void on_turn(int signal)
{
	(void)signal;
	signalled++;
}

/* Answer each number with the sum that those below make of it, once a signal has come, too: one
 * that is lost would be waited for forever. */
static void serve_below(int in, int out, int level, int file);

struct below {
	int in, out; /* of the parent */
	pid_t pid;
};

static struct below start_below(int level, int file)
{
	int down[2], up[2];
	struct below b;

	CHECK(!pipe(down) && !pipe(up));
	b = (struct below){up[0], down[1], fork()};
	CHECK(b.pid >= 0);
	if (!b.pid) {
		close(down[1]);
		close(up[0]);
		serve_below(down[0], up[1], level, file);
		_exit(level);
	}
	close(down[0]);
	close(up[1]);
	return b;
}

static uint64_t ask_below(const struct below *b, uint64_t x)
{
	CHECK(!kill(b->pid, SIGUSR1));
	CHECK(write(b->out, &x, sizeof x) == sizeof x);
	CHECK(read(b->in, &x, sizeof x) == sizeof x);
	return x;
}

static void end_below(struct below *b, int level)
{
	int status;

	close(b->out);
	CHECK(waitpid(b->pid, &status, 0) == b->pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == level);
}

static void serve_below(int in, int out, int level, int file)
{
	pid_t self = getpid(), parent = getppid();
	struct below b = {0};
	sigset_t none, usr1;
	uint64_t x, from;

	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	if (level < LEVELS)
		b = start_below(level + 1, file);
	while (read(in, &x, sizeof x) == sizeof x) {
		CHECK(getpid() == self && getppid() == parent && gettid() == self);
		while (!signalled)
			sigsuspend(&none);
		signalled = 0;
		CHECK(read(file, &from, sizeof from) == sizeof from);
		x = mix(x + from);
		if (level < LEVELS)
			x = ask_below(&b, x);
		CHECK(write(out, &x, sizeof x) == sizeof x);
	}
	if (level < LEVELS)
		end_below(&b, level + 1);
}

#define WAITED 7
#define WAITER 8

/* A process that waits by number, all the time, for one that ends with the pipe. */
static struct below start_waiter(void)
{
	struct below b = {.in = -1};
	int ends[2], status;
	char byte;
	pid_t pid;

	CHECK(!pipe(ends));
	b.pid = fork();
	if (!b.pid) {
		close(ends[1]);
		pid = fork();
		if (!pid)
			_exit(read(ends[0], &byte, 1) ? 1 : WAITED);
		CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == WAITED);
		_exit(WAITER);
	}
	close(ends[0]);
	b.out = ends[1];
	return b;
}

/* One that waits in system(). */
static struct below start_system(void)
{
	struct below b = {.in = -1};
	int ends[2], status;

	CHECK(!pipe(ends));
	b.pid = fork();
	if (!b.pid) {
		close(ends[1]);
		CHECK(dup2(ends[0], 0) == 0);
		status = system("while read -r line; do :; done; exit 9");
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
		_exit(WAITER);
	}
	close(ends[0]);
	b.out = ends[1];
	return b;
}

static void serve_orphan(int in, int out, int file)
{
	pid_t self = getpid(), session = getsid(0), group = getpgrp();
	struct below b = start_below(LEVELS, file);
	sigset_t none;
	uint64_t x;

	sigemptyset(&none);
	CHECK(write(out, &self, sizeof self) == sizeof self);
	while (read(in, &x, sizeof x) == sizeof x) {
		CHECK(getpid() == self && getsid(0) == session && getpgrp() == group);
		while (!signalled)
			sigsuspend(&none);
		signalled = 0;
		x = mix(ask_below(&b, x));
		CHECK(write(out, &x, sizeof x) == sizeof x);
	}
	end_below(&b, LEVELS);
	_exit(0);
}

/* A process whose parent has ended: in the rank's session, in its own, or, like a daemon, in its
 * parent's. */
static struct below start_orphan(bool leads, bool parents, int file)
{
	int down[2], up[2];
	struct below b;
	pid_t parent;

	CHECK(!pipe(down) && !pipe(up));
	parent = fork();
	if (!parent) {
		CHECK(!parents || setsid() > 0);
		if (fork())
			_exit(0);
		CHECK(!leads || setsid() > 0);
		CHECK(!close(down[1]) && !close(up[0]));
		serve_orphan(down[0], up[1], file);
	}
	CHECK(waitpid(parent, NULL, 0) == parent && !close(down[0]) && !close(up[1]));
	b = (struct below){.in = up[0], .out = down[1]};
	CHECK(read(b.in, &b.pid, sizeof b.pid) == sizeof b.pid);
	return b;
}

static void end_orphan(struct below *b)
{
	uint64_t x;

	close(b->out);
	CHECK(read(b->in, &x, sizeof x) == 0);
}

/* ---- locks: of every kind, which another process looks at ------------------------------------ */

static const char *const lock_names[] = {"flock", "shared", "process", "file"};
#define LOCKS 4

static struct flock range(short type, off_t start, off_t length)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start,
			      .l_len = length};
}

static int open_lock(int i)
{
	char path[512];
	int fd;

	snprintf(path, sizeof path, "%s/%s", directory, lock_names[i]);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	return fd;
}

static int reopen(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	fd = open(path, flags);
	CHECK(fd >= 0);
	return fd;
}

/* Whether a lock that this process asks for meets one of the parent's; -1: of an open file. */
static void meets(int fd, struct flock asked, struct flock found, pid_t owner)
{
	CHECK(!fcntl(fd, F_GETLK, &asked));
	CHECK(asked.l_type == found.l_type && asked.l_start == found.l_start &&
	      asked.l_len == found.l_len && asked.l_pid == owner);
}

/* A lease for reading, and the signal that breaks it, with the descriptor that it is of. */
static volatile sig_atomic_t broken = -1;

static void breaks(int signo, siginfo_t *info, void *context)
{
	(void)context;
	broken = signo == SIGRTMIN + 3 ? info->si_fd : -2;
}

static int take_lease(void)
{
	struct sigaction action = {.sa_sigaction = breaks, .sa_flags = SA_SIGINFO | SA_RESTART};
	char path[512];
	int fd;

	snprintf(path, sizeof path, "%s/leased", directory);
	fd = open(path, O_RDONLY | O_CREAT, 0600);
	CHECK(fd >= 0 && !sigaction(SIGRTMIN + 3, &action, NULL));
	CHECK(!fcntl(fd, F_SETSIG, SIGRTMIN + 3) && !fcntl(fd, F_SETLEASE, F_RDLCK));
	return fd;
}

/* A lease for writing, which any other open of the file breaks. */
static int take_write_lease(void)
{
	char path[512];
	int fd;

	snprintf(path, sizeof path, "%s/write-leased", directory);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0 && write(fd, "0123456789", 10) == 10 && lseek(fd, 4, SEEK_SET) == 4);
	CHECK(!fcntl(fd, F_SETSIG, SIGRTMIN + 3) && !fcntl(fd, F_SETLEASE, F_WRLCK));
	return fd;
}

static void has_write_lease(int fd)
{
	char bytes[11] = "";

	CHECK(fcntl(fd, F_GETLEASE) == F_WRLCK && lseek(fd, 0, SEEK_CUR) == 4);
	CHECK(pread(fd, bytes, 11, 0) == 10 && !strcmp(bytes, "0123456789"));
}

static void break_write_lease(int fd)
{
	char path[512];

	snprintf(path, sizeof path, "%s/write-leased", directory);
	CHECK(open(path, O_RDONLY | O_NONBLOCK) < 0 && errno == EWOULDBLOCK);
	CHECK(broken == fd && !fcntl(fd, F_SETLEASE, F_UNLCK));
	broken = -1;
}

static void break_lease(void)
{
	char path[512];

	snprintf(path, sizeof path, "%s/leased", directory);
	CHECK(open(path, O_WRONLY | O_NONBLOCK) < 0 && errno == EWOULDBLOCK);
}

/* Of standard input, which a restart gives to all who have opened it: they cannot meet it. */
static bool is_flocked(int fd)
{
	char path[48], text[1024];
	ssize_t n;

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	fd = open(path, O_RDONLY);
	n = read(fd, text, sizeof text - 1);
	CHECK(n > 0 && !close(fd));
	text[n] = '\0';
	return strstr(text, "FLOCK") != NULL;
}

static void look_at_locks(int from)
{
	pid_t parent = getppid();
	int fds[LOCKS];
	char byte;

	for (int i = 0; i < LOCKS; i++)
		fds[i] = open_lock(i);
	do {
		CHECK(flock(fds[0], LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK);
		CHECK(flock(fds[1], LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK);
		CHECK(!flock(fds[1], LOCK_SH | LOCK_NB) && !flock(fds[1], LOCK_UN));
		meets(fds[2], range(F_RDLCK, 0, 0), range(F_WRLCK, 10, 5), parent);
		meets(fds[2], range(F_WRLCK, 15, 0), range(F_RDLCK, 20, 0), parent);
		meets(fds[3], range(F_WRLCK, 0, 9), range(F_RDLCK, 7, 1), -1);
	} while (read(from, &byte, 1) == 1);
	break_lease();
	_exit(0);
}

static void run_locks(void)
{
	struct flock some = range(F_WRLCK, 10, 5), rest = range(F_RDLCK, 20, 0),
		     one = range(F_RDLCK, 7, 1);
	int fds[LOCKS], input = reopen(0, O_RDONLY), to[2], status, leased, to_write;
	pid_t pid, waiter;

	for (int i = 0; i < LOCKS; i++)
		fds[i] = open_lock(i);
	CHECK(!flock(fds[0], LOCK_EX) && !flock(fds[1], LOCK_SH) && !pipe(to));
	CHECK(!fcntl(fds[2], F_SETLK, &some) && !fcntl(fds[2], F_SETLK, &rest));
	CHECK(!fcntl(fds[3], F_OFD_SETLK, &one) && !flock(input, LOCK_SH));
	pid = fork();
	if (!pid) {
		for (int i = 0; i < LOCKS; i++)
			close(fds[i]);
		close(to[1]);
		look_at_locks(to[0]);
	}
	waiter = fork();
	if (!waiter) { /* which has the open file with its flock, too */
		close(to[1]);
		CHECK(!fcntl(fds[2], F_SETLKW, &some));
		_exit(flock(open_lock(0), LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK ? 7 : 1);
	}
	leased = take_lease();
	to_write = take_write_lease();
	for (long i = 0; i < rounds; i++) {
		has_write_lease(to_write);
		CHECK(fcntl(leased, F_GETLEASE) == F_RDLCK && broken == -1 && is_flocked(input));
		CHECK(write(to[1], "", 1) == 1);
		pause_us(700);
	}
	break_write_lease(to_write);
	close(to[1]);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(broken == leased && fcntl(leased, F_GETLEASE) == F_UNLCK);
	CHECK(!fcntl(leased, F_SETLEASE, F_UNLCK) && !(fcntl(leased, F_GETFL) & O_ASYNC));
	CHECK(!waitpid(waiter, &status, WNOHANG));
	some.l_type = F_UNLCK;
	close(fds[0]);
	CHECK(!fcntl(fds[2], F_SETLK, &some));
	CHECK(waitpid(waiter, &status, 0) == waiter && WEXITSTATUS(status) == 7);
	printf("locks %ld\n", rounds);
}

/* ---- owners: who gets a file's signals ------------------------------------------------------- */

static volatile sig_atomic_t told_fd[2] = {-1, -1}, told_tid[2];
static int to_parent = -1;

static void tells(int signo, siginfo_t *info, void *context)
{
	int i = signo - (SIGRTMIN + 4);

	(void)context;
	told_tid[i] = (int)syscall(SYS_gettid);
	told_fd[i] = info->si_fd;
}

static void answers(int signo)
{
	CHECK(signo == SIGIO && write(to_parent, "", 1) == 1);
}

static void set_owner(int fd, int type, pid_t pid, int signo, bool async)
{
	struct f_owner_ex owner = {type, pid};

	CHECK(!fcntl(fd, F_SETSIG, signo) && !fcntl(fd, F_SETOWN_EX, &owner));
	CHECK(!async || !fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC));
}

static void check_owner(int fd, int type, pid_t pid, int signo, bool async)
{
	struct f_owner_ex owner;

	CHECK(!fcntl(fd, F_GETOWN_EX, &owner) && (int)owner.type == type && owner.pid == pid);
	CHECK(fcntl(fd, F_GETSIG) == signo && !(fcntl(fd, F_GETFL) & O_ASYNC) == !async);
}

/* The signal of this number comes, which names the descriptor; to the thread unless that is 0. */
static void is_told(int i, int fd, int from, pid_t tid)
{
	char byte;

	CHECK(write(from, "", 1) == 1);
	while (told_fd[i] == -1)
		pause_us(100);
	CHECK(told_fd[i] == fd && (!tid || told_tid[i] == tid));
	told_fd[i] = -1;
	CHECK(read(fd, &byte, 1) == 1);
}

static void *be_owner(void *tid)
{
	__atomic_store_n((pid_t *)tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	while (pause())
		;
	return NULL;
}

/* Files whose signals are for the process, a thread, a child (SIGIO), a group; its standard input;
 * and a lease whose signal is the child's. */
static void run_owners(void)
{
	struct sigaction action = {.sa_sigaction = tells, .sa_flags = SA_SIGINFO | SA_RESTART};
	int mine[2], thread[2], its[2], group[2], back[2], leased;
	pid_t child, tid = 0, me = getpid();
	pthread_t other;
	char byte;

	CHECK(!sigaction(SIGRTMIN + 4, &action, NULL) && !sigaction(SIGRTMIN + 5, &action, NULL));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, mine) && !pipe(thread) && !pipe(its) &&
	      !pipe(group) && !pipe(back));
	leased = take_lease();
	child = fork();
	if (!child) {
		to_parent = back[1];
		signal(SIGIO, answers);
		CHECK(write(to_parent, "", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(child > 0 && read(back[0], &byte, 1) == 1 && !setpgid(child, child));
	CHECK(!pthread_create(&other, NULL, be_owner, &tid));
	while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
		pause_us(100);
	set_owner(mine[0], F_OWNER_PID, me, SIGRTMIN + 4, true);
	set_owner(thread[0], F_OWNER_TID, tid, SIGRTMIN + 5, true);
	set_owner(its[0], F_OWNER_PID, child, 0, true);
	set_owner(group[0], F_OWNER_PGRP, child, SIGUSR1, false);
	set_owner(group[1], F_OWNER_PGRP, getpgrp(), 0, true);
	set_owner(0, F_OWNER_PID, me, SIGUSR2, false);
	set_owner(leased, F_OWNER_PID, child, 0, false);
	for (long i = 0; i < rounds; i++) {
		check_owner(mine[0], F_OWNER_PID, me, SIGRTMIN + 4, true);
		check_owner(thread[0], F_OWNER_TID, tid, SIGRTMIN + 5, true);
		check_owner(its[0], F_OWNER_PID, child, 0, true);
		check_owner(group[0], F_OWNER_PGRP, child, SIGUSR1, false);
		check_owner(group[1], F_OWNER_PGRP, getpgrp(), 0, true);
		check_owner(0, F_OWNER_PID, me, SIGUSR2, false);
		check_owner(leased, F_OWNER_PID, child, 0, true); /* the kernel sets O_ASYNC */
		is_told(0, mine[0], mine[1], 0);
		is_told(1, thread[0], thread[1], tid);
		CHECK(write(its[1], "", 1) == 1 && read(back[0], &byte, 1) == 1);
		CHECK(read(its[0], &byte, 1) == 1);
		pause_us(500);
	}
	break_lease();
	CHECK(read(back[0], &byte, 1) == 1 && !fcntl(leased, F_SETLEASE, F_UNLCK));
	CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
	printf("owners %ld\n", rounds);
}

/* ---- reopened: ends of a pipe that were opened again through /proc, as bash's <(...) does ---- */

#define WAITING 3 /* numbers in the pipe between two rounds */

/* Until there is more than one round needs, so that something is always left; or the end. */
static void await_more(int fd)
{
	struct pollfd p = {.fd = fd};
	int n = 0;

	while (!ioctl(fd, FIONREAD, &n) && n < 32 && poll(&p, 1, 0) >= 0 && !p.revents)
		pause_us(100);
}

static void echo(const int in[2], const int out[2])
{
	uint64_t x;

	CHECK(!(fcntl(in[0], F_GETFL) & O_NONBLOCK) && fcntl(in[1], F_GETFL) & O_NONBLOCK);
	for (long i = 0; await_more(in[0]), read(in[0], &x, sizeof x) == sizeof x; i++) {
		CHECK(x == mix((uint64_t)(2 * i)));
		while (read(in[1], &x, sizeof x) < 0)
			CHECK(errno == EAGAIN || errno == EINTR);
		CHECK(x == mix((uint64_t)(2 * i + 1)));
		CHECK(write(out[i % 2], &x, sizeof x) == sizeof x);
	}
	_exit(0);
}

static void send_two(const int out[2], long i)
{
	for (int k = 0; k < 2; k++) {
		uint64_t x = mix((uint64_t)(2 * i + k));

		CHECK(write(out[k], &x, sizeof x) == sizeof x);
	}
}

static void run_reopened(void)
{
	int down[2], up[2], in[2], out[2], to[2], status;
	uint64_t x;
	pid_t pid;

	CHECK(!pipe(down) && !pipe(up));
	in[0] = down[0];
	in[1] = reopen(down[0], O_RDONLY | O_NONBLOCK);
	to[0] = down[1];
	to[1] = reopen(down[1], O_WRONLY);
	out[0] = up[1];
	out[1] = reopen(up[1], O_WRONLY);
	pid = fork();
	if (!pid) {
		close(to[0]);
		close(to[1]);
		echo(in, out);
	}
	close(out[0]);
	close(out[1]);
	for (long i = 0; i < rounds + WAITING; i++) {
		if (i < rounds)
			send_two(to, i);
		else if (i == rounds)
			CHECK(!close(to[0]) && !close(to[1]));
		if (i < WAITING)
			continue;
		CHECK(read(up[0], &x, sizeof x) == sizeof x);
		CHECK(x == mix((uint64_t)(2 * (i - WAITING) + 1)));
		pause_us(700);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	printf("reopened %ld\n", rounds);
}

#define ORPHANS 3

/* Processes take turns by SIGUSR1, and read the numbers that they add up. */
static int begin_turns(void)
{
	struct sigaction usr1 = {.sa_handler = on_turn};
	sigset_t blocked;
	char path[512];
	int file;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	CHECK(!sigaction(SIGUSR1, &usr1, NULL) && !sigprocmask(SIG_BLOCK, &blocked, NULL));
	snprintf(path, sizeof path, "%s/numbers", directory);
	file = open(path, O_RDONLY);
	CHECK(file >= 0);
	return file;
}

static void run_orphans(void)
{
	struct below b[ORPHANS];
	int file = begin_turns();
	uint64_t sum = 0;

	for (int i = 0; i < ORPHANS; i++)
		b[i] = start_orphan(i == 1, i == 2, file);
	for (long i = 0; i < rounds; i++) {
		sum += ask_below(&b[i % ORPHANS], sum);
		CHECK(lseek(file, 0, SEEK_CUR) == (i + 1) * (off_t)sizeof sum);
		CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
		pause_us(500);
	}
	for (int i = ORPHANS; i-- > 0;)
		end_orphan(&b[i]);
	printf("orphans %llu\n", (unsigned long long)sum);
}

static void run_tree(void)
{
	struct below b[2], waiter, in_system;
	int file = begin_turns();
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++)
		b[i] = start_below(1, file);
	in_system = start_system();
	waiter = start_waiter();
	for (long i = 0; i < rounds; i++) {
		sum += ask_below(&b[i % 2], sum);
		CHECK(lseek(file, 0, SEEK_CUR) == (i + 1) * LEVELS * (off_t)sizeof sum);
		pause_us(500);
	}
	end_below(&waiter, WAITER);
	end_below(&in_system, WAITER);
	for (int i = 2; i-- > 0;) /* the second has a copy of the first's pipe */
		end_below(&b[i], 1);
	CHECK(wait(NULL) < 0 && errno == ECHILD);
	printf("tree %llu\n", (unsigned long long)sum);
}

/* ---- sockets: a process that its parent reaches by names ------------------------------------- */

#define SERVER 5

static struct sockaddr_un name_in_directory(const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	CHECK((size_t)snprintf(a.sun_path, sizeof a.sun_path, "%s/%s", directory, name) <
	      sizeof a.sun_path);
	return a;
}

static int open_socket(int type, const char *bound)
{
	struct sockaddr_un a = name_in_directory(bound ? bound : "");
	int fd = socket(AF_UNIX, type, 0);

	CHECK(fd >= 0 && (!bound || !bind(fd, (struct sockaddr *)&a, sizeof a)));
	return fd;
}

static int open_connected(int type, const char *bound, const char *name)
{
	struct sockaddr_un a = name_in_directory(name);
	int fd = open_socket(type, bound);

	CHECK(!connect(fd, (struct sockaddr *)&a, sizeof a));
	return fd;
}

/* Who made the other end. */
static pid_t maker_of(int fd)
{
	struct ucred peer = {0};
	socklen_t n = sizeof peer;

	CHECK(!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) && peer.uid == getuid());
	return peer.pid;
}

static void answer_packet(int fd)
{
	struct sockaddr_un from = {0}, client = name_in_directory("client");
	socklen_t n = sizeof from;
	uint64_t x;

	CHECK(recvfrom(fd, &x, sizeof x, 0, (struct sockaddr *)&from, &n) == sizeof x);
	CHECK(!strcmp(from.sun_path, client.sun_path));
	x = mix(x);
	CHECK(sendto(fd, &x, sizeof x, 0, (struct sockaddr *)&from, n) == sizeof x);
}

static void answer(int fd)
{
	uint64_t x;

	CHECK(read(fd, &x, sizeof x) == sizeof x);
	x = mix(x);
	CHECK(write(fd, &x, sizeof x) == sizeof x);
}

/* Give away the writing end of a new pipe, which nobody has until it is received. */
static int give_pipe(int to)
{
	char space[CMSG_SPACE(sizeof(int))] = {0}, byte = 'p';
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space,
			   .msg_controllen = sizeof space};
	int ends[2];

	CHECK(!pipe(ends));
	*CMSG_FIRSTHDR(&m) = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &ends[1], sizeof(int));
	CHECK(sendmsg(to, &m, 0) == 1 && !close(ends[1]));
	return ends[0];
}

static void use_pipe(int from)
{
	char space[CMSG_SPACE(sizeof(int))] = {0}, byte;
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space,
			   .msg_controllen = sizeof space};
	int end;

	CHECK(recvmsg(from, &m, 0) == 1 && byte == 'p' && CMSG_FIRSTHDR(&m) &&
	      CMSG_FIRSTHDR(&m)->cmsg_len == CMSG_LEN(sizeof(int)));
	memcpy(&end, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof end);
	CHECK(write(end, "w", 1) == 1 && !close(end));
}

/* Accept a connection for each byte of go, and end with that. What waits in `last`, which is shut
 * down, is read at the end. */
static _Noreturn void serve(int listener, int packets, int go, int last, int gifts)
{
	int stays = -1, fd;
	char byte;

	while (read(go, &byte, 1) == 1) {
		CHECK((fd = accept(listener, NULL, NULL)) >= 0 && write(fd, "", 1) == 1);
		if (stays < 0)
			stays = dup(fd);
		CHECK(maker_of(fd) == getppid() && maker_of(stays) == getppid());
		CHECK(maker_of(last) == getppid() && maker_of(listener) == getpid());
		answer(fd);
		answer(stays);
		answer_packet(packets);
		use_pipe(gifts);
		close(fd);
	}
	CHECK(read(last, &byte, 1) == 1 && read(last, &byte, 1) == 0);
	_exit(SERVER);
}

static uint64_t ask_socket(int fd, uint64_t x)
{
	CHECK(write(fd, &x, sizeof x) == sizeof x && read(fd, &x, sizeof x) == sizeof x);
	return x;
}

static void run_sockets(void)
{
	int listener = open_socket(SOCK_SEQPACKET, "server"), go = -1, stays = -1, packets, status;
	struct sockaddr_un fifo = name_in_directory("go");
	int last[2], gifts[2];
	struct sockaddr_un server = name_in_directory("server"), peer;
	int theirs = open_socket(SOCK_DGRAM, "packets");
	socklen_t n = sizeof peer;
	uint64_t sum = 0;
	char hello;
	pid_t pid;

	CHECK(!listen(listener, 4) && !mkfifo(fifo.sun_path, 0600));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, last));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, gifts));
	CHECK((pid = fork()) >= 0);
	if (!pid) {
		close(last[0]);
		CHECK(!listen(listener, 4));
		CHECK((go = open(fifo.sun_path, O_RDONLY)) >= 0);
		serve(listener, theirs, go, last[1], gifts[1]);
	}
	CHECK(write(last[0], "", 1) == 1 && !shutdown(last[0], SHUT_WR));
	CHECK((go = open(fifo.sun_path, O_WRONLY)) >= 0);
	close(last[1]);
	close(listener);
	close(theirs);
	packets = open_connected(SOCK_DGRAM, "client", "packets");
	for (long i = 0; i < rounds; i++) {
		int fd = open_connected(SOCK_SEQPACKET, NULL, "server");
		int given = give_pipe(gifts[0]);

		pause_us(300); /* it waits to be accepted */
		CHECK(write(go, "", 1) == 1 && read(fd, &hello, 1) == 1);
		if (stays < 0)
			stays = dup(fd);
		CHECK(maker_of(fd) == pid && maker_of(stays) == pid);
		CHECK(maker_of(last[0]) == getpid());
		sum = ask_socket(packets, ask_socket(stays, ask_socket(fd, sum)));
		CHECK(read(given, &hello, 1) == 1 && hello == 'w' && !read(given, &hello, 1));
		close(given);
		close(fd);
	}
	CHECK(!getpeername(stays, (struct sockaddr *)&peer, &n) &&
	      !strcmp(peer.sun_path, server.sun_path));
	close(go);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	      WEXITSTATUS(status) == SERVER);
	for (int i = 0; i < 4; i++) {
		peer = name_in_directory((const char *[]){"server", "packets", "client",
							  "go"}[i]);
		CHECK(!unlink(peer.sun_path));
	}
	printf("sockets %llu\n", (unsigned long long)sum);
}

/* ---- family: processes that share memory and other objects, one after the other ------------- */

#define FAMILY 4
#define HALF ((size_t)8 << 20)

struct board {
	sem_t turns[FAMILY];
	pthread_mutex_t lock;
	uint64_t sum;
	bool ends;
};

static struct {
	struct board *board;      /* without a name, in all */
	sem_t *named;             /* a semaphore whose name is gone */
	sem_t *opened;            /* one with a name, by which the others open it */
	uint64_t *file, *memfd;   /* the first's mappings; the others have the descriptors */
	uint64_t *shm;            /* a file of /dev/shm, in all */
	char *halves;             /* the first has one half, the second the other */
	int file_fd, memfd_fd, event, timer, epoll;
	int packets[2];           /* the first reads, the second writes */
} family;

static void begin_family(void)
{
	struct epoll_event watched = {.events = EPOLLIN};
	struct itimerspec every = {{0, 500000}, {0, 500000}};
	pthread_mutexattr_t a;
	char name[300];
	int fd;

	family.board = mmap(NULL, sizeof *family.board, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	family.halves = mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(family.board != MAP_FAILED && family.halves != MAP_FAILED);
	for (int i = 0; i < FAMILY; i++)
		CHECK(!sem_init(&family.board->turns[i], 1, 0));
	CHECK(!pthread_mutexattr_init(&a) &&
	      !pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED) &&
	      !pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK) &&
	      !pthread_mutex_init(&family.board->lock, &a));
	snprintf(name, sizeof name, "/gpuckpt-family-%d", (int)getpid());
	family.named = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
	CHECK(family.named != SEM_FAILED && !sem_unlink(name));
	family.opened = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
	CHECK(family.opened != SEM_FAILED);
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0 && !ftruncate(fd, 4096));
	family.shm = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(family.shm != MAP_FAILED && !close(fd));
	snprintf(name, sizeof name, "%s/shared-without-a-name", directory);
	family.file_fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	family.memfd_fd = memfd_create("family", MFD_ALLOW_SEALING);
	CHECK(family.file_fd >= 0 && !unlink(name) && !ftruncate(family.file_fd, 4096));
	CHECK(family.memfd_fd >= 0 && !ftruncate(family.memfd_fd, 4096));
	CHECK(!pipe2(family.packets, O_DIRECT));
	family.event = eventfd(0, EFD_NONBLOCK);
	family.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	family.epoll = epoll_create1(0);
	CHECK(family.event >= 0 && family.timer >= 0 && family.epoll >= 0);
	CHECK(!timerfd_settime(family.timer, 0, &every, NULL));
	CHECK(!epoll_ctl(family.epoll, EPOLL_CTL_ADD, family.timer, &watched));
}

/* After the fork: only the first maps these. */
static void map_family(void)
{
	family.file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, family.file_fd, 0);
	family.memfd = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, family.memfd_fd, 0);
	CHECK(family.file != MAP_FAILED && family.memfd != MAP_FAILED);
	CHECK(!fcntl(family.memfd_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK));
}

/* The sum as an object has it, which gets the next one. */
static void next_in_file(int fd, uint64_t *mapped, uint64_t sum, uint64_t next)
{
	uint64_t is;

	CHECK(pread(fd, &is, sizeof is, 0) == sizeof is && is == sum);
	CHECK(!mapped || *mapped == sum);
	if (mapped)
		*mapped = next;
	else
		CHECK(pwrite(fd, &next, sizeof next, 0) == sizeof next);
}

static void next_in_memory(int me, uint64_t sum, uint64_t next)
{
	uint64_t *half = (uint64_t *)(void *)(family.halves + (size_t)me * HALF);
	uint64_t *last = half + HALF / sizeof *half - 1;
	static uint64_t own_sum;

	CHECK(*family.shm == sum);
	*family.shm = next;
	if (me > 1)
		return;
	CHECK(*half == own_sum && *last == own_sum);
	*half = *last = own_sum = next;
}

static void await_timer(void)
{
	struct epoll_event e;
	uint64_t n;
	int got;

	while ((got = epoll_wait(family.epoll, &e, 1, 20000)) < 0 && errno == EINTR)
		;
	CHECK(got == 1 && read(family.timer, &n, sizeof n) == sizeof n && n > 0);
}

/* One turn: everything is as the one before has left it. Only the first can write the memory
 * file. */
static void play(int me, long i)
{
	uint64_t sum = family.board->sum, next = mix(sum + (uint64_t)me + 1), n = 1, is;

	CHECK(!pthread_mutex_lock(&family.board->lock));
	CHECK(pthread_mutex_lock(&family.board->lock) == EDEADLK);
	while (sem_wait(family.named))
		CHECK(errno == EINTR);
	CHECK(!sem_trywait(family.opened));
	next_in_memory(me, sum, next);
	next_in_file(family.file_fd, family.file, sum, next);
	CHECK(pread(family.memfd_fd, &is, sizeof is, 0) == sizeof is);
	CHECK(is == (uint64_t)i + (me > 0));
	if (me == 0)
		*family.memfd = (uint64_t)i + 1;
	CHECK(lseek(family.file_fd, 0, SEEK_CUR) == i * FAMILY + me);
	CHECK(lseek(family.file_fd, 1, SEEK_CUR) > 0);
	if (i || me)
		CHECK(read(family.event, &is, sizeof is) == sizeof is && is == 1);
	CHECK(write(family.event, &n, sizeof n) == sizeof n);
	if (i % 16 == 0)
		await_timer();
	if (me == 1)
		CHECK(write(family.packets[1], &i, sizeof i) == sizeof i);
	family.board->sum = next;
	CHECK(!sem_post(family.opened) && !sem_post(family.named));
	CHECK(!pthread_mutex_unlock(&family.board->lock));
}

static void await_turn(int me)
{
	while (sem_wait(&family.board->turns[me]))
		CHECK(errno == EINTR);
}

static void play_below(int me, const char *name)
{
	CHECK(!sem_close(family.opened));
	family.opened = sem_open(name, 0);
	CHECK(family.opened != SEM_FAILED);
	CHECK(!close(family.packets[0]) && (me == 1 || !close(family.packets[1])));
	if (me == 1)
		CHECK(!munmap(family.halves, HALF));
	else
		CHECK(!munmap(family.halves, 2 * HALF));
	for (long i = 0;; i++) {
		await_turn(me);
		if (family.board->ends)
			_exit(me);
		play(me, i);
		CHECK(!sem_post(&family.board->turns[(me + 1) % FAMILY]));
	}
}

/* One packet waits until the next turn's end, while no process has both ends. */
static void take_packet(long i)
{
	long packet[2];

	if (i)
		CHECK(read(family.packets[0], packet, sizeof packet) == sizeof packet[0] &&
		      packet[0] == i - 1);
}

static void run_family(void)
{
	char name[64];
	pid_t pids[FAMILY];
	int status;

	begin_family();
	snprintf(name, sizeof name, "/gpuckpt-family-%d", (int)getpid());
	for (int me = 1; me < FAMILY; me++) {
		pids[me] = fork();
		CHECK(pids[me] >= 0);
		if (!pids[me])
			play_below(me, name);
	}
	map_family();
	CHECK(!munmap(family.halves + HALF, HALF) && !close(family.packets[1]));
	for (long i = 0; i < rounds; i++) {
		play(0, i);
		CHECK(!sem_post(&family.board->turns[1]));
		await_turn(0);
		take_packet(i);
		pause_us(500);
	}
	family.board->ends = true;
	for (int me = 1; me < FAMILY; me++) {
		CHECK(!sem_post(&family.board->turns[me]));
		CHECK(waitpid(pids[me], &status, 0) == pids[me] && WEXITSTATUS(status) == me);
	}
	CHECK(!shm_unlink(name) && !sem_unlink(name));
	printf("family %llu\n", (unsigned long long)family.board->sum);
}

/* ---- terminals: a session with its own, which reads lines and answers them ------------------ */

#define LATE 8 /* lines that wait to be read, and answers */

static volatile sig_atomic_t hung_up;
static int terminal_flags;

static void on_hang_up(int sig)
{
	hung_up = sig;
}

/* What is typed for a line, and what is read of it. Some end with ^D, some have a quoted one. */
static int type_line(long i, char *typed, char *read_as)
{
	unsigned long long n = mix((uint64_t)i);
	bool quoted = i % 7 == 3, whole = i % 5 != 4;

	sprintf(read_as, "%llx%s.%s", n, quoted ? "\4" : "", whole ? "\n" : "");
	return sprintf(typed, "%llx%s.%s", n, quoted ? "\26\4" : "", whole ? "\n" : "\4");
}

/* Half of one line, and half of the next, so that one is always unfinished. */
static void type_halves(int master, long i)
{
	char now[64], next[64], as[64], all[128];
	int n = type_line(i, now, as), k = type_line(i + 1, next, as), half = i ? n / 2 : 0;

	memcpy(all, now + half, (size_t)(n - half));
	memcpy(all + n - half, next, (size_t)k / 2);
	n = n - half + k / 2;
	CHECK(write(master, all, (size_t)n) == n);
}

static void check_terminal(int fd, pid_t session, pid_t foreground)
{
	struct winsize size;
	struct termios t;
	pid_t got;

	CHECK(!tcgetattr(fd, &t) && t.c_lflag & ICANON && !(t.c_lflag & ECHO));
	CHECK(fcntl(fd, F_GETFL) == terminal_flags && fcntl(fd, F_GETFD) == 0);
	CHECK(t.c_cc[VKILL] == 7 && !ioctl(fd, TIOCGWINSZ, &size) && size.ws_row == 33);
	got = tcgetsid(fd);
	CHECK(got == session);
	got = tcgetpgrp(fd);
	CHECK(got == foreground);
}

/* Lead a session; a child of its own is in the foreground of its terminal. */
static void answer_lines(const char *path)
{
	struct sigaction hup = {.sa_handler = on_hang_up};
	char typed[64], want[64], line[64];
	int fd, again;
	pid_t pid;

	CHECK(setsid() == getpid() && !sigaction(SIGHUP, &hup, NULL));
	CHECK((fd = open(path, O_RDWR)) >= 0);
	terminal_flags = fcntl(fd, F_GETFL);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGTTIN, SIG_IGN);
	pid = fork();
	if (!pid) {
		CHECK(!setpgid(0, 0));
		again = open("/dev/tty", O_RDWR | O_NONBLOCK);
		for (struct pollfd p = {.fd = again}; !(p.revents & POLLHUP); poll(&p, 1, 1))
			CHECK(getsid(0) == getppid() && again >= 0);
		_exit(6);
	}
	CHECK(!setpgid(pid, pid) || errno == EACCES);
	for (long i = 0; i < rounds; i++) {
		ssize_t n = -1;
		int size;

		/* its group reads, as the one in the foreground may */
		CHECK(!tcsetpgrp(fd, getpid()));
		type_line(i, typed, want);
		while (n < 0) {
			n = read(fd, line, sizeof line);
			CHECK(n >= 0 || errno == EINTR);
		}
		CHECK((size_t)n == strlen(want) && !memcmp(line, want, (size_t)n));
		CHECK(!tcsetpgrp(fd, pid));
		pause_us(500);
		check_terminal(fd, getpid(), pid);
		size = sprintf(line, "%ld\n", i);
		CHECK(write(fd, line, (size_t)size) == size);
	}
	while (!hung_up)
		pause_us(500);
	CHECK(waitpid(pid, &again, 0) == pid && WEXITSTATUS(again) == 6);
	_exit(5);
}

/* An answer, as the terminal shows it, behind a byte of packet mode for each read. */
static void take_answer(int master, long i)
{
	static char all[4096];
	static size_t n;
	char want[32], part[512];
	size_t size = (size_t)sprintf(want, "%ld\r\n", i);

	while (n < size) {
		ssize_t got = read(master, part, sizeof part);

		CHECK(got > 0 || errno == EINTR);
		if (got <= 0)
			continue;
		CHECK(part[0] == TIOCPKT_DATA && n + (size_t)got - 1 <= sizeof all);
		memcpy(all + n, part + 1, (size_t)got - 1);
		n += (size_t)got - 1;
	}
	CHECK(!memcmp(all, want, size));
	memmove(all, all + size, n -= size);
}

static int open_terminal(char path[64])
{
	int master = posix_openpt(O_RDWR | O_NOCTTY);

	CHECK(master >= 0 && !grantpt(master) && !unlockpt(master));
	CHECK(!ptsname_r(master, path, 64));
	return master;
}

/* One whose user has gone, which left something; one that hangs, since its master is closed. */
static void begin_ends(int ends[2])
{
	struct termios t;
	char path[64];
	int fd;

	ends[0] = open_terminal(path);
	fd = open(path, O_RDWR | O_NOCTTY);
	CHECK(write(fd, "left", 4) == 4 && !tcgetattr(fd, &t));
	cfmakeraw(&t);
	CHECK(!tcsetattr(fd, TCSANOW, &t) && write(ends[0], "\3raw\n\r", 6) == 6 && !close(fd));
	fd = open_terminal(path);
	ends[1] = open(path, O_RDWR | O_NOCTTY);
	CHECK(ends[1] >= 0 && !close(fd));
}

static void check_ends(const int ends[2])
{
	char got[8], path[64];
	int fd, locked = 1;

	CHECK(read(ends[0], got, sizeof got) == 4 && !memcmp(got, "left", 4));
	CHECK(read(ends[0], got, sizeof got) == -1 && errno == EIO);
	CHECK(!ptsname_r(ends[0], path, sizeof path) && (fd = open(path, O_RDWR | O_NOCTTY)) >= 0);
	CHECK(read(fd, got, sizeof got) == 6 && !memcmp(got, "\3raw\n\r", 6));
	CHECK(!ioctl(ends[0], TIOCGPTLCK, &locked) && !locked);
	CHECK(read(ends[1], got, sizeof got) == 0 && write(ends[1], got, 1) == -1 && errno == EIO);
}

static void run_terminals(void)
{
	struct winsize size = {.ws_row = 33};
	int master, fd, ends[2], on = 1, status;
	struct termios t;
	char path[64];
	pid_t pid;

	begin_ends(ends);
	master = open_terminal(path);
	fd = open(path, O_RDWR | O_NOCTTY);
	CHECK(fd >= 0 && !tcgetattr(fd, &t));
	t.c_lflag &= ~(tcflag_t)ECHO;
	t.c_cc[VKILL] = 7;
	CHECK(!tcsetattr(fd, TCSANOW, &t) && !ioctl(master, TIOCSWINSZ, &size));
	pid = fork();
	if (!pid) {
		close(master);
		close(fd);
		answer_lines(path);
	}
	close(fd);
	CHECK(!ioctl(master, TIOCPKT, &on));
	for (long i = 0; i < rounds + 2 * LATE; i++) {
		if (i < rounds)
			type_halves(master, i);
		if (i >= 2 * LATE)
			take_answer(master, i - 2 * LATE);
		pause_us(500);
	}
	check_ends(ends);
	close(master);
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 5);
	printf("terminals %ld\n", rounds);
}

/* ---- pidfds: of a child that runs, of one that was not waited for, of one that was, own ----- */

static pid_t start_child(int result)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid && result)
		_exit(result);
	while (!pid)
		pause();
	return pid;
}

static bool has_ended(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void run_pidfds(void)
{
	pid_t pids[3] = {start_child(0), start_child(7), start_child(8)};
	int fds[4], inner, status;
	siginfo_t end;

	for (int i = 0; i < 3; i++)
		CHECK((fds[i] = (int)syscall(SYS_pidfd_open, pids[i], 0)) >= 0);
	CHECK((fds[3] = (int)syscall(SYS_pidfd_open, getpid(), O_NONBLOCK)) >= 0);
	CHECK((inner = dup(fds[0])) >= 0 && waitpid(pids[2], &status, 0) == pids[2]);
	while (!has_ended(fds[1]))
		pause_us(500);
	for (long i = 0; i < rounds; i++) {
		CHECK(!has_ended(fds[0]) && has_ended(fds[1]) && !has_ended(fds[3]));
		CHECK(has_ended(fds[2]));
		CHECK(!syscall(SYS_pidfd_send_signal, fds[3], SIGWINCH, NULL, 0));
		CHECK(!syscall(SYS_pidfd_send_signal, inner, SIGWINCH, NULL, 0));
		CHECK(syscall(SYS_pidfd_send_signal, fds[2], 0, NULL, 0) < 0 && errno == ESRCH);
		CHECK(fcntl(fds[3], F_GETFL) & O_NONBLOCK);
		pause_us(1000);
	}
	CHECK(!waitid(P_PIDFD, (id_t)fds[1], &end, WEXITED) && end.si_status == 7);
	CHECK(end.si_pid == pids[1]);
	CHECK(!syscall(SYS_pidfd_send_signal, inner, SIGTERM, NULL, 0));
	CHECK(waitpid(pids[0], &status, 0) == pids[0] && WTERMSIG(status) == SIGTERM);
	CHECK(has_ended(fds[0]));
	printf("pidfds %ld\n", rounds);
}

/* ---- watches: of inotify, in a directory and of files, shared, in an epoll ------------------ */

#define CHANGES (IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_ATTRIB | IN_MOVE)

/* Read one event. false: none waits. */
static bool read_event(int fd, struct inotify_event *e, char name[16])
{
	static char events[4096];
	static size_t at, end;
	ssize_t n = 0;

	if (at == end) {
		n = read(fd, events, sizeof events);
		CHECK(n > 0 || errno == EAGAIN);
		at = 0;
		end = n > 0 ? (size_t)n : 0;
	}
	if (at == end)
		return false;
	memcpy(e, events + at, sizeof *e);
	snprintf(name, 16, "%s", e->len ? events + at + sizeof *e : "");
	at += sizeof *e + e->len;
	return true;
}

/* It says by a byte that it has seen a change. */
static void watch_below(int out)
{
	int fd = inotify_init();
	struct inotify_event e;
	char name[16];

	CHECK(inotify_add_watch(fd, "watched", CHANGES) == 1 && write(out, "", 1) == 1);
	while (read_event(fd, &e, name))
		CHECK(e.mask == IN_MODIFY && e.wd == 1 && !strcmp(name, "pulse") &&
		      write(out, "", 1) == 1);
	_exit(1);
}

static void see_change(int fd, int epoll, int below)
{
	struct epoll_event ready;
	struct inotify_event e;
	char name[16], byte;

	CHECK(epoll_wait(epoll, &ready, 1, -1) == 1 && ready.data.u64 == 77);
	CHECK(read_event(fd, &e, name) && e.mask == IN_MODIFY && e.wd == 2);
	CHECK(!strcmp(name, "pulse"));
	CHECK(read_event(fd, &e, name) && e.mask == IN_MODIFY && e.wd == 5 && !*name);
	CHECK(!read_event(fd, &e, name) && read(below, &byte, 1) == 1);
}

/* Of one that tells only its first change, and that a new watch has the next number. */
static void see_once(int fd, int once)
{
	struct inotify_event e;
	char name[16];

	CHECK(write(once, "x", 1) == 1 && write(once, "y", 1) == 1);
	CHECK(read_event(fd, &e, name) && e.mask == IN_MODIFY && e.wd == 7);
	CHECK(read_event(fd, &e, name) && e.mask == IN_IGNORED && e.wd == 7);
	CHECK(!read_event(fd, &e, name) && inotify_add_watch(fd, ".", CHANGES) == 8);
	CHECK(inotify_rm_watch(fd, 1) && errno == EINVAL && !inotify_rm_watch(fd, 2));
	CHECK(read_event(fd, &e, name) && e.mask == IN_IGNORED && e.wd == 2);
}

/* And of fanotify, which ignores one of the two files. */
struct fan {
	int fd, seen, ignored;
};

static void make_fan(struct fan *x)
{
	CHECK(!mkdir("fanned", 0700) || errno == EEXIST);
	x->seen = made_file("fanned/seen", O_RDWR);
	x->ignored = made_file("fanned/ignored", O_RDWR);
	x->fd = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_DFID_NAME | FAN_NONBLOCK | FAN_CLOEXEC,
			      O_RDONLY);
	CHECK(x->fd >= 0);
	CHECK(!fanotify_mark(x->fd, FAN_MARK_ADD, FAN_MODIFY | FAN_EVENT_ON_CHILD, AT_FDCWD,
			     "fanned"));
	CHECK(!fanotify_mark(x->fd, FAN_MARK_ADD | FAN_MARK_IGNORED_MASK |
			     FAN_MARK_IGNORED_SURV_MODIFY, FAN_MODIFY, x->ignored, NULL));
}

/* The name behind the handle of the directory. */
static const char *name_in(const struct fanotify_event_metadata *m)
{
	const struct fanotify_event_info_fid *info = (const void *)(m + 1);
	const struct file_handle *handle = (const void *)info->handle;

	CHECK(info->hdr.info_type == FAN_EVENT_INFO_TYPE_DFID_NAME);
	return (const char *)handle->f_handle + handle->handle_bytes;
}

static void see_fan(const struct fan *x, long i)
{
	union {
		struct fanotify_event_metadata m;
		char bytes[4096];
	} event;
	ssize_t n;

	CHECK(pwrite(x->ignored, &i, sizeof i, 0) == sizeof i);
	CHECK(read(x->fd, &event, sizeof event) == -1 && errno == EAGAIN);
	CHECK(pwrite(x->seen, &i, sizeof i, 0) == sizeof i);
	n = read(x->fd, &event, sizeof event);
	CHECK(n >= (ssize_t)sizeof event.m && n == event.m.event_len);
	CHECK(event.m.mask == FAN_MODIFY && event.m.fd == FAN_NOFD);
	CHECK(!strcmp(name_in(&event.m), "seen"));
}

/* Numbers 1, 3, 4 and 6 are no watches any more. */
static void run_watches(void)
{
	struct fan fan;
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 77};
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), epoll = epoll_create1(0), pulse, once;
	int below[2], n = 0;
	struct inotify_event e;
	char name[16];
	pid_t pid;

	CHECK(!chdir(directory) && (!mkdir("watched", 0700) || errno == EEXIST) && !pipe(below));
	pulse = made_file("watched/pulse", O_RDWR);
	once = made_file("once", O_WRONLY);
	CHECK(!symlink("watched/pulse", "link") || errno == EEXIST);
	CHECK(inotify_add_watch(fd, "/", IN_MODIFY) == 1 && !inotify_rm_watch(fd, 1));
	CHECK(inotify_add_watch(fd, "watched", CHANGES) == 2);
	for (int i = 3; i <= 4; i++)
		CHECK(inotify_add_watch(fd, "/", IN_MODIFY) == i && !inotify_rm_watch(fd, i));
	CHECK(inotify_add_watch(fd, "link", CHANGES) == 5);
	CHECK(inotify_add_watch(fd, "/", IN_MODIFY) == 6 && !inotify_rm_watch(fd, 6));
	CHECK(inotify_add_watch(fd, "once", IN_MODIFY | IN_ONESHOT | IN_EXCL_UNLINK) == 7);
	while (read_event(fd, &e, name))
		n += e.mask == IN_IGNORED;
	CHECK(n == 4 && !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
	pid = fork();
	if (!pid)
		watch_below(below[1]);
	CHECK(pid > 0 && read(below[0], name, 1) == 1);
	make_fan(&fan);
	for (long i = 0; i < rounds; i++) {
		CHECK(!read_event(fd, &e, name) && pwrite(pulse, &i, sizeof i, 0) == sizeof i);
		see_change(fd, epoll, below[0]);
		see_fan(&fan, i);
		pause_us(1000);
	}
	see_once(fd, once);
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, &n, 0) == pid);
	printf("watches %ld\n", rounds);
}

/* ---- rings: io_uring, with what is not read and not submitted yet --------------------------- */

#define NO_ARRAY (1u << 16) /* IORING_SETUP_NO_SQARRAY, of Linux 6.6 */
#define ONE_ISSUER (1u << 12) /* IORING_SETUP_SINGLE_ISSUER */
#define DEFERRED (1u << 13) /* IORING_SETUP_DEFER_TASKRUN */
#define BLOCK 4096

struct ring {
	int fd;
	char *memory;
	struct io_uring_sqe *entries;
	struct io_uring_params p;
};

static uint32_t *of_ring(const struct ring *r, uint32_t offset)
{
	return (uint32_t *)(void *)(r->memory + offset);
}

static void make_ring(struct ring *r, uint32_t entries, uint32_t flags)
{
	size_t size;

	*r = (struct ring){.p = {.flags = flags}};
	r->fd = (int)syscall(SYS_io_uring_setup, entries, &r->p);
	CHECK(r->fd >= 0);
	size = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe);
	if (!(flags & NO_ARRAY))
		size = r->p.sq_off.array + r->p.sq_entries * sizeof(uint32_t);
	r->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd,
			 IORING_OFF_SQ_RING);
	r->entries = mmap(NULL, r->p.sq_entries * sizeof *r->entries, PROT_READ | PROT_WRITE,
			  MAP_SHARED, r->fd, IORING_OFF_SQES);
	CHECK(r->memory != MAP_FAILED && r->entries != MAP_FAILED);
}

/* From the last entry to the first, where the ring has such an array. */
static void put_entry(const struct ring *r, struct io_uring_sqe x)
{
	uint32_t tail = *of_ring(r, r->p.sq_off.tail), place = tail & (r->p.sq_entries - 1);

	if (!(r->p.flags & NO_ARRAY)) {
		uint32_t entry = r->p.sq_entries - 1 - place;

		of_ring(r, r->p.sq_off.array)[place] = entry;
		place = entry;
	}
	r->entries[place] = x;
	__atomic_store_n(of_ring(r, r->p.sq_off.tail), tail + 1, __ATOMIC_SEQ_CST);
}

/* A thread of the kernel's has taken them, unless it sleeps. A wait is cut short by a checkpoint,
 * as by a signal. */
static void submit(const struct ring *r, int n, int wait)
{
	bool sleeps = __atomic_load_n(of_ring(r, r->p.sq_off.flags), __ATOMIC_SEQ_CST) &
		      IORING_SQ_NEED_WAKEUP;
	unsigned flags = IORING_ENTER_GETEVENTS | (sleeps ? IORING_ENTER_SQ_WAKEUP : 0);
	long done;

	if (r->p.flags & IORING_SETUP_SQPOLL)
		n = 0;
	do
		done = syscall(SYS_io_uring_enter, r->fd, n, wait, flags, NULL, 0);
	while (done < 0 && errno == EINTR && !n);
	CHECK(done == n);
}

static void take_completion(const struct ring *r, uint64_t data, int32_t result)
{
	uint32_t head = *of_ring(r, r->p.cq_off.head);
	const struct io_uring_cqe *all = (void *)(r->memory + r->p.cq_off.cqes);
	struct io_uring_cqe x = all[head & (r->p.cq_entries - 1)];

	CHECK(__atomic_load_n(of_ring(r, r->p.cq_off.tail), __ATOMIC_ACQUIRE) != head);
	CHECK(x.user_data == data && x.res == result);
	__atomic_store_n(of_ring(r, r->p.cq_off.head), head + 1, __ATOMIC_RELEASE);
}

/* A block of a file, by a registered buffer and file or not. */
static struct io_uring_sqe transfer(bool write, bool registered, int fd, void *block, long at,
				    uint64_t data)
{
	uint8_t usual = write ? IORING_OP_WRITE : IORING_OP_READ;
	uint8_t fixed = write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED;

	return (struct io_uring_sqe){.opcode = registered ? fixed : usual, .fd = fd,
				     .flags = registered ? IOSQE_FIXED_FILE : 0,
				     .addr = (uint64_t)(uintptr_t)block, .len = BLOCK,
				     .off = (uint64_t)at * BLOCK, .user_data = data,
				     .buf_index = registered ? 1 : 0};
}

/* Write a block and read it again. What of it is not submitted, or not read, waits meanwhile. */
static void ring_round(const struct ring *r, bool registered, int fd, char *blocks, long i)
{
	char *to = blocks + BLOCK, *from = blocks;
	uint64_t data = (uint64_t)i * 4;

	for (size_t k = 0; k < BLOCK; k++)
		from[k] = (char)((size_t)i * 7 + k * k);
	memset(to, 0, BLOCK);
	put_entry(r, transfer(true, registered, fd, from, i % 16, data));
	pause_us(500);
	submit(r, 1, 1);
	put_entry(r, transfer(false, registered, fd, to, i % 16, data + 1));
	put_entry(r, (struct io_uring_sqe){.opcode = IORING_OP_NOP, .user_data = data + 2});
	pause_us(500);
	submit(r, 2, 3);
	pause_us(200);
	for (uint64_t k = 0; k < 3; k++)
		take_completion(r, data + k, k < 2 ? BLOCK : 0);
	CHECK(!memcmp(to, from, BLOCK));
}

static void put_nop(const struct ring *r, uint64_t data)
{
	put_entry(r, (struct io_uring_sqe){.opcode = IORING_OP_NOP, .user_data = data});
	submit(r, 1, 0);
}

/* Its two completions are not read for a while. What comes then waits in the kernel. */
static void fill_queue(const struct ring *r, uint64_t data)
{
	put_nop(r, data);
	put_nop(r, data + 1);
}

static void empty_queue(const struct ring *r, uint64_t data)
{
	put_nop(r, data + 2);
	take_completion(r, data, 0);
	take_completion(r, data + 1, 0);
	submit(r, 0, 1);
	take_completion(r, data + 2, 0);
}

static void register_table(const struct ring *r, uint32_t what, const void *table, uint32_t n)
{
	CHECK(!syscall(SYS_io_uring_register, r->fd, what, table, n));
}

static void ring_below(void)
{
	static char blocks[2 * BLOCK];
	struct ring r;
	int fd = made_file("below", O_RDWR);

	make_ring(&r, 1, 0);
	put_entry(&r, (struct io_uring_sqe){.opcode = IORING_OP_NOP, .user_data = 1});
	submit(&r, 1, 1);
	for (long i = 0;; i++) {
		take_completion(&r, 1, 0);
		put_entry(&r, transfer(true, false, fd, blocks, i % 16, 2));
		submit(&r, 1, 1);
		take_completion(&r, 2, BLOCK);
		put_entry(&r, (struct io_uring_sqe){.opcode = IORING_OP_NOP, .user_data = 1});
		submit(&r, 1, 1);
		pause_us(1000);
	}
}

/* The second ring's file is open under two descriptors, and so is the ring. Its first buffer and
 * its second file are empty places. */
static void run_rings(void)
{
	static char blocks[4 * BLOCK] __attribute__((aligned(BLOCK)));
	const struct iovec buffers[] = {{NULL, 0}, {blocks + 2 * BLOCK, 2 * BLOCK}};
	struct epoll_event event = {.events = EPOLLIN};
	int files[2] = {-1, -1}, file, again, epoll = epoll_create1(0), status;
	struct ring one, other, polled, full;
	pid_t pid;

	CHECK(!chdir(directory));
	file = made_file("plain", O_RDWR);
	files[0] = made_file("with a blank", O_RDWR);
	CHECK(dup(files[0]) >= 0);
	make_ring(&one, 8, 0);
	make_ring(&other, 64, NO_ARRAY | ONE_ISSUER | DEFERRED);
	make_ring(&polled, 32, IORING_SETUP_SQPOLL);
	make_ring(&full, 1, 0);
	again = dup(other.fd);
	register_table(&other, IORING_REGISTER_BUFFERS, buffers, 2);
	register_table(&other, IORING_REGISTER_FILES, files, 2);
	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, one.fd, &event));
	pid = fork();
	if (!pid) {
		close(one.fd);
		close(other.fd);
		close(polled.fd);
		close(full.fd);
		close(again);
		close(epoll);
		CHECK(!munmap(one.memory, BLOCK) && !munmap(one.entries, BLOCK));
		CHECK(!munmap(other.memory, BLOCK) && !munmap(other.entries, BLOCK));
		CHECK(!munmap(full.memory, BLOCK) && !munmap(full.entries, BLOCK));
		CHECK(!munmap(polled.memory, BLOCK) && !munmap(polled.entries, BLOCK));
		ring_below();
	}
	for (long i = 0; i < rounds; i++) {
		fill_queue(&full, (uint64_t)i * 4);
		ring_round(&one, false, file, blocks, i);
		CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
		other.fd = i % 2 ? again : other.fd;
		ring_round(&other, true, 0, blocks + 2 * BLOCK, i);
		ring_round(&polled, false, file, blocks, i);
		empty_queue(&full, (uint64_t)i * 4);
		CHECK(!waitpid(pid, &status, WNOHANG));
	}
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, &status, 0) == pid);
	printf("rings %ld\n", rounds);
}

/* ---- made: files in /dev/shm that nobody has open in between -------------------------------- */

static void write_number(const char *path, long i)
{
	char *text = calloc(1, 2 << 20);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0 && text);
	snprintf(text, 32, "%ld", i);
	CHECK(write(fd, text, 2 << 20) == 2 << 20 && !close(fd));
	free(text);
}

static long read_number(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY);
	struct stat st;

	CHECK(fd >= 0 && !fstat(fd, &st) && st.st_size == 2 << 20);
	CHECK(read(fd, text, sizeof text - 1) > 0 && !close(fd));
	return atol(text);
}

/* A new file every round, which another process reads later; and one that shm_open makes. */
static void run_made(void)
{
	const char *const base = strrchr(directory, '/') + 1;
	char shm[300], path[2][320], segment[300], kept[4];
	int fd, status;

	snprintf(shm, sizeof shm, "/dev/shm/%s", base);
	snprintf(segment, sizeof segment, "/%s-segment", base);
	CHECK(!mkdir(shm, 0700));
	fd = shm_open(segment, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0 && write(fd, "kept", 4) == 4 && !close(fd));
	for (int k = 0; k < 2; k++)
		snprintf(path[k], sizeof path[k], "%s/%d", shm, k);
	write_number(path[0], 0);
	for (long i = 0; i < rounds; i++) {
		pid_t pid;

		write_number(path[(i + 1) % 2], i + 1);
		pause_us(1000);
		pid = fork();
		if (!pid)
			_exit(read_number(path[i % 2]) != i);
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status);
		CHECK(!unlink(path[i % 2]));
	}
	fd = shm_open(segment, O_RDWR, 0);
	CHECK(fd >= 0 && read(fd, kept, 4) == 4 && !memcmp(kept, "kept", 4));
	CHECK(!shm_unlink(segment) && !unlink(path[rounds % 2]) && !rmdir(shm));
	printf("made %ld\n", rounds);
}

/* Whether a mapping that /proc/PID/maps lists has the address. */
static bool is_listed(int maps, const void *address)
{
	uintptr_t start, end;
	FILE *lines = fdopen(dup(maps), "r");
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	CHECK(lines && !fseek(lines, 0, SEEK_SET));
	while (!found && getline(&line, &size, lines) > 0)
		found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end) == 2 &&
			start <= (uintptr_t)address && (uintptr_t)address < end;
	free(line);
	fclose(lines);
	return found;
}

static bool has_entry(int list, const char *name)
{
	DIR *entries = fdopendir(dup(list));
	struct dirent *entry;
	bool found = false;

	CHECK(entries != NULL);
	rewinddir(entries);
	while (!found && (entry = readdir(entries)))
		found = !strcmp(entry->d_name, name);
	closedir(entries);
	return found;
}

/* Files of /proc: of the program, of a child, of none; a directory, one that was read in part. */
static void run_proc(void)
{
	pid_t child = fork();
	int mine, its, part, maps, list, inherited;
	char path[32], text[16];

	CHECK(child >= 0);
	if (!child) {
		prctl(PR_SET_NAME, "below");
		for (;;)
			pause();
	}
	prctl(PR_SET_NAME, "above");
	snprintf(path, sizeof path, "/proc/%d/comm", (int)child);
	CHECK((mine = open("/proc/self/comm", O_RDONLY)) >= 0);
	CHECK((its = open(path, O_RDONLY)) >= 0);
	CHECK((part = open("/proc/cpuinfo", O_RDONLY)) >= 0 && read(part, text, 10) == 10);
	CHECK((maps = open("/proc/self/maps", O_RDONLY)) >= 0);
	CHECK((list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY)) >= 0);
	CHECK((inherited = fcntl(mine, F_DUPFD_CLOEXEC, 100)) >= 0);
	for (long i = 0; i < rounds; i++) {
		CHECK(pread(inherited, text, sizeof text, 0) == 6 && !memcmp(text, "above\n", 6));
		while (pread(its, text, sizeof text, 0) != 6 || memcmp(text, "below\n", 6))
			pause_us(500); /* it has its name soon */
		CHECK(lseek(part, 0, SEEK_CUR) == 10);
		CHECK(is_listed(maps, text) && is_listed(maps, &rounds));
		CHECK(has_entry(list, "100"));
		pause_us(1000);
	}
	CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
	printf("proc %ld\n", rounds);
}

/* ---- queues: POSIX message queues ------------------------------------------------------------ */

#define MESSAGES 6

static mqd_t make_queue(const char *name, int flags)
{
	char path[300];
	struct mq_attr a = {.mq_maxmsg = MESSAGES + 2, .mq_msgsize = 64};

	snprintf(path, sizeof path, "/%s-%s", strrchr(directory, '/') + 1, name);
	return mq_open(path, flags, 0640, &a);
}

static void drop_queue(const char *name)
{
	char path[300];

	snprintf(path, sizeof path, "/%s-%s", strrchr(directory, '/') + 1, name);
	CHECK(!mq_unlink(path));
}

/* Three priorities take turns, so a message's place depends on all before it. The parent's own
 * model of the queue says which is first. */
struct model {
	unsigned priority[MESSAGES];
	long number[MESSAGES];
};

static void put_message(mqd_t queue, struct model *m, int place, long number)
{
	char text[64];
	int n = number % 5 ? snprintf(text, sizeof text, "%0*ld", (int)(number % 60), number) : 0;

	m->priority[place] = number % 3 * 1000u;
	m->number[place] = number;
	CHECK(!mq_send(queue, text, (size_t)n, m->priority[place]));
}

static int first_of(const struct model *m)
{
	int first = 0;

	for (int i = 1; i < MESSAGES; i++)
		if (m->priority[i] > m->priority[first] ||
		    (m->priority[i] == m->priority[first] && m->number[i] < m->number[first]))
			first = i;
	return first;
}

static void take_message(mqd_t queue, struct model *m, long number)
{
	int first = first_of(m);
	char text[64] = "";
	unsigned priority;
	ssize_t n = mq_receive(queue, text, sizeof text, &priority);

	CHECK(n >= 0 && priority == m->priority[first]);
	CHECK(m->number[first] % 5 ? atol(text) == m->number[first] : n == 0);
	put_message(queue, m, first, number);
}

/* Answers by a descriptor of its own, and by one that it shares with its parent. */
static void answer_queue(mqd_t shared)
{
	mqd_t answers = make_queue("named", O_WRONLY);
	long number = 0;
	unsigned priority;

	CHECK(answers >= 0);
	while (number >= 0) {
		ssize_t n = mq_receive(shared, (char *)&number, 64, &priority);

		if (n < 0 && errno == EINTR)
			continue;
		CHECK(n == sizeof number && priority == 7);
		CHECK(!mq_send(answers, (char *)&number, sizeof number, 9));
	}
	_exit(0);
}

static void run_queues(void)
{
	mqd_t waiting = make_queue("waiting", O_RDWR | O_CREAT | O_EXCL);
	mqd_t named = make_queue("named", O_RDONLY | O_CREAT | O_EXCL | O_NONBLOCK);
	mqd_t empty = make_queue("gone", O_RDWR | O_CREAT | O_EXCL);
	struct mq_attr a;
	struct model m;
	struct stat st;
	pid_t child;
	int status;

	CHECK(waiting >= 0 && named >= 0 && empty >= 0);
	drop_queue("gone");
	for (int i = 0; i < MESSAGES; i++)
		put_message(waiting, &m, i, i);
	child = fork();
	CHECK(child >= 0);
	if (!child)
		answer_queue(empty);
	for (long i = 0, got; i <= rounds; i++) {
		long number = i < rounds ? i : -1;

		take_message(waiting, &m, MESSAGES + i);
		CHECK(!mq_send(empty, (char *)&number, sizeof number, 7));
		pause_us(1000);
		while (mq_receive(named, (char *)&got, 64, NULL) < 0) {
			CHECK(errno == EAGAIN || errno == EINTR);
			pause_us(200);
		}
		CHECK(got == number);
		CHECK(!mq_getattr(waiting, &a) && a.mq_curmsgs == MESSAGES && !a.mq_flags &&
		      a.mq_maxmsg == MESSAGES + 2 && a.mq_msgsize == 64);
		CHECK(!mq_getattr(named, &a) && a.mq_flags == O_NONBLOCK);
		CHECK(!fstat(named, &st) && (st.st_mode & 0777) == 0640);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	CHECK(make_queue("gone", O_RDWR) < 0 && errno == ENOENT);
	drop_queue("waiting");
	drop_queue("named");
	printf("queues %ld\n", rounds);
}

/* ---- ipc: System V shared memory, semaphores, message queues --------------------------------- */

#define SEGMENT (3 * 4096 + 100)
#define SPARSE (64ul << 20)
#define SEMAPHORES 40
#define LIMIT 32767

/* Numbers and keys that the program knows for good. */
static struct {
	key_t key;
	int segment, sparse, loose, semaphores, messages, fresh, used, full, bare;
	bool locked;
} known;

struct note {
	long type;
	long number;
	char more[40];
};

static void operate(int semaphore, int change, int flags)
{
	struct sembuf one = {(unsigned short)semaphore, (short)change, (short)flags};

	CHECK(!semop(known.semaphores, &one, 1)); /* a checkpoint does not interrupt it */
}

static void send_note(long type, long number)
{
	struct note m = {.type = type, .number = number};

	memset(m.more, (int)number, sizeof m.more);
	CHECK(!msgsnd(known.messages, &m, sizeof m.number + (size_t)(number % 40), IPC_NOWAIT));
}

static long take_note(long type)
{
	struct note m;
	ssize_t n;

	while ((n = msgrcv(known.messages, &m, sizeof m - sizeof m.type, type, 0)) < 0)
		CHECK(errno == EINTR);
	CHECK(n == (ssize_t)sizeof m.number + m.number % 40);
	for (int i = 0; i < m.number % 40; i++)
		CHECK(m.more[i] == (char)m.number);
	return m.number;
}

/* Also in a program that is executed after a restart. */
static void check_known(void)
{
	struct shmid_ds memory;
	struct msqid_ds messages;
	struct semid_ds semaphores;

	CHECK(shmget(known.key, SEGMENT, 0) == known.segment);
	CHECK(semget(known.key, SEMAPHORES, 0) == known.semaphores);
	CHECK(msgget(known.key, 0) == known.messages);
	CHECK(shmget(known.key, SEGMENT, IPC_CREAT | IPC_EXCL | 0600) < 0 && errno == EEXIST);
	CHECK(!shmctl(known.segment, IPC_STAT, &memory) && memory.shm_segsz == SEGMENT &&
	      memory.shm_perm.__key == known.key && (memory.shm_perm.mode & 0777) == 0640);
	CHECK(!semctl(known.semaphores, 0, IPC_STAT, &semaphores) && semaphores.sem_otime &&
	      semaphores.sem_nsems == SEMAPHORES && semaphores.sem_perm.__key == known.key);
	CHECK(!msgctl(known.messages, IPC_STAT, &messages) && messages.msg_qbytes == 8000 &&
	      messages.msg_perm.__key == known.key);
}

static void run_known(void)
{
	const long *at = shmat(known.segment, NULL, SHM_RDONLY);

	check_known();
	CHECK(at != (void *)-1 && at[SEGMENT / 8 - 1] == 99 && !shmdt(at));
	_exit(0);
}

static void execute_known(void)
{
	char numbers[200];
	pid_t pid;
	int status;

	snprintf(numbers, sizeof numbers, "%d %d %d %d", known.key, known.segment,
		 known.semaphores, known.messages);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		execl(program_path, program_path, "known", "0", numbers, NULL);
		_exit(1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

static void read_known(void)
{
	CHECK(sscanf(directory, "%d %d %d %d", &known.key, &known.segment, &known.semaphores,
		     &known.messages) == 4);
	run_known();
}

/* What each process's end undoes, by semaphore; a value that is not zero stays in the way. */
static const int undone[] = {0, 1, -1, 700, -700, LIMIT, -LIMIT, -LIMIT - 1};
#define UNDONE ((int)(sizeof undone / sizeof undone[0]))

static void set_undo(int first)
{
	for (int i = 0; i < UNDONE; i++) {
		int part = undone[i] > 0 ? undone[i] : undone[i] < -LIMIT ? LIMIT : -undone[i];

		if (undone[i] > 0) {
			operate(first + i, part, 0);
			operate(first + i, -part, SEM_UNDO);
		} else if (undone[i]) {
			operate(first + i, part, SEM_UNDO);
			operate(first + i, -part, 0);
		}
		if (-undone[i] > part) {
			operate(first + i, 1, SEM_UNDO);
			operate(first + i, -1, 0);
		}
		if (undone[i] < 0)
			operate(first + i, -undone[i] > LIMIT ? LIMIT : -undone[i], 0);
	}
}

/* The value after the end of who has set that. */
static void check_undone(int first)
{
	for (int i = 0; i < UNDONE; i++) {
		int value = semctl(known.semaphores, first + i, GETVAL);

		CHECK(value == (undone[i] > 0 ? undone[i] : 0));
	}
}

static void make_known(void)
{
	known.key = 0x67000000 | (getpid() & 0xffffff);
	known.segment = shmget(known.key, SEGMENT, IPC_CREAT | IPC_EXCL | 0640);
	known.loose = shmget(IPC_PRIVATE, 5000, 0600);
	known.sparse = shmget(IPC_PRIVATE, SPARSE, 0600);
	known.semaphores = semget(known.key, SEMAPHORES, IPC_CREAT | IPC_EXCL | 0600);
	known.messages = msgget(known.key, IPC_CREAT | IPC_EXCL | 0600);
	known.fresh = semget(IPC_PRIVATE, 2, 0600);
	known.used = semget(IPC_PRIVATE, 2, 0600);
	known.full = msgget(IPC_PRIVATE, 0600);
	known.bare = msgget(IPC_PRIVATE, 0600);
	CHECK(known.fresh >= 0 && known.used >= 0 && known.full >= 0 && known.bare >= 0);
	CHECK(known.segment >= 0 && known.loose >= 0 && known.sparse >= 0);
	CHECK(known.semaphores >= 0 && known.messages >= 0);
}

/* For the test, which removes it when this process is killed. */
static void tell_bare(void)
{
	char path[300];
	FILE *f;

	snprintf(path, sizeof path, "%s/bare", directory);
	f = fopen(path, "w");
	CHECK(f && fprintf(f, "%d", known.bare) > 0 && !fclose(f));
}

static void set_known(void)
{
	unsigned short values[SEMAPHORES] = {0};
	struct msqid_ds messages;
	long *at = shmat(known.loose, NULL, 0);

	CHECK(at != (void *)-1);
	at[600] = 42;
	CHECK(!shmdt(at));
	values[0] = 1;
	values[SEMAPHORES - 1] = LIMIT;
	CHECK(!semctl(known.semaphores, 0, SETALL, values));
	CHECK(!semctl(known.fresh, 1, SETVAL, 5));
	CHECK(!msgsnd(known.full, &(struct note){.type = 3}, 40, 0));
	CHECK(!msgctl(known.full, IPC_STAT, &messages));
	messages.msg_qbytes = 20;
	CHECK(!msgctl(known.full, IPC_SET, &messages));
	CHECK(!semop(known.used, &(struct sembuf){1, 6, 0}, 1));
	known.locked = !shmctl(known.loose, SHM_LOCK, NULL);
	CHECK(!msgctl(known.messages, IPC_STAT, &messages));
	messages.msg_qbytes = 8000;
	CHECK(!msgctl(known.messages, IPC_SET, &messages));
}

/* Counts beside its parent, in the same segment, and answers notes. */
static void count_beside(volatile long *shared, volatile long *sparse)
{
	long number;

	set_undo(20);
	send_note(9, 0);
	for (;;) {
		operate(5, -1, 0); /* it waits here most of the time */
		number = take_note(1);
		if (!number)
			break;
		operate(0, -1, SEM_UNDO);
		shared[1]++;
		sparse[4096 * 100 + number % 4096]++;
		operate(0, 1, SEM_UNDO);
		CHECK(sparse[0] == 7);
		send_note(2, number);
	}
	_exit(0);
}

/* Programs take a set for ready once semop() has used it. More waits in one queue than it takes;
 * nobody has used the other yet. */
static void check_used(void)
{
	struct semid_ds fresh, used;
	struct msqid_ds full, bare;

	CHECK(!semctl(known.fresh, 0, IPC_STAT, &fresh) && !fresh.sem_otime);
	CHECK(!semctl(known.used, 0, IPC_STAT, &used) && used.sem_otime);
	CHECK(!msgctl(known.full, IPC_STAT, &full) && full.msg_qbytes == 20 && full.msg_qnum == 1);
	CHECK(!msgctl(known.bare, IPC_STAT, &bare) && !bare.msg_lspid);
	CHECK(semctl(known.fresh, 1, GETVAL) == 5 && semctl(known.used, 1, GETVAL) == 6);
}

static void check_loose(void)
{
	const long *at = shmat(known.loose, NULL, SHM_RDONLY);
	struct shmid_ds ds;

	CHECK(!shmctl(known.loose, IPC_STAT, &ds));
	CHECK(!(ds.shm_perm.mode & 02000) == !known.locked);
	CHECK(at != (void *)-1 && at[600] == 42 && !at[0] && !shmdt(at));
}

static bool is_ours(pid_t pid, pid_t child)
{
	return pid == getpid() || pid == child;
}

static void check_counts(const volatile long *shared, const volatile long *again, long i,
			 pid_t child)
{
	struct shmid_ds memory;
	struct msqid_ds messages;

	CHECK(shared[0] == i + 1 && shared[1] == i + 1 && again[1] == shared[1]);
	CHECK(!shmctl(known.sparse, IPC_STAT, &memory) && memory.shm_perm.mode & 01000);
	CHECK(!shmctl(known.segment, IPC_STAT, &memory) && memory.shm_cpid == getpid());
	CHECK(!msgctl(known.messages, IPC_STAT, &messages) && messages.msg_qnum == 3 &&
	      is_ours(messages.msg_lspid, child) &&
	      (messages.msg_lrpid == getpid() || !messages.msg_lrpid)); /* of a new queue */
	CHECK(is_ours(semctl(known.semaphores, 0, GETPID), child));
	CHECK(semctl(known.semaphores, SEMAPHORES - 1, GETVAL) == LIMIT);
}

static void drop_known(void)
{
	CHECK(!shmctl(known.segment, IPC_RMID, NULL) && !shmctl(known.loose, IPC_RMID, NULL));
	CHECK(!semctl(known.fresh, 0, IPC_RMID) && !semctl(known.used, 0, IPC_RMID));
	CHECK(!msgctl(known.full, IPC_RMID, NULL) && !msgctl(known.bare, IPC_RMID, NULL));
	CHECK(!semctl(known.semaphores, 0, IPC_RMID) && !msgctl(known.messages, IPC_RMID, NULL));
	CHECK(shmctl(known.loose, IPC_RMID, NULL) && (errno == EINVAL || errno == EIDRM));
}

static void run_ipc(void)
{
	volatile long *shared, *again, *sparse;
	pid_t child;
	int status;

	make_known();
	tell_bare();
	set_known();
	shared = shmat(known.segment, NULL, 0);
	again = shmat(known.segment, NULL, SHM_RDONLY);
	sparse = shmat(known.sparse, NULL, 0);
	CHECK(shared != (void *)-1 && again != (void *)-1 && sparse != (void *)-1);
	shared[0] = shared[1] = 0;
	shared[SEGMENT / 8 - 1] = 99;
	sparse[0] = 7;
	CHECK(!shmctl(known.sparse, IPC_RMID, NULL));
	child = fork();
	CHECK(child >= 0);
	if (!child)
		count_beside(shared, sparse);
	CHECK(take_note(9) == 0);
	set_undo(10);
	for (int i = 0; i < 3; i++)
		send_note(100 - i, 1000 + i);
	for (long i = 0; i < rounds; i++) {
		send_note(1, i + 1);
		operate(5, 1, 0);
		operate(0, -1, SEM_UNDO);
		shared[0]++;
		operate(0, 1, SEM_UNDO);
		CHECK(take_note(2) == i + 1);
		check_counts(shared, again, i, child);
		check_known();
		CHECK(again[SEGMENT / 8 - 1] == 99);
		if (i % 200 == 100) {
			check_loose();
			check_used();
			execute_known();
		}
		pause_us(1000);
	}
	send_note(1, 0);
	operate(5, 1, 0);
	CHECK(waitpid(child, &status, 0) == child && !status);
	check_undone(20);
	for (int i = 2; i >= 0; i--)
		CHECK(take_note(-200) == 1000 + i);
	execute_known();
	drop_known();
	printf("ipc %ld\n", rounds);
}

static const struct {
	const char *name;
	void (*run)(void);
} programs[] = {
	{"threads", run_threads}, {"kernel", run_kernel},   {"shared", run_shared},
	{"signals", run_signals}, {"process", run_process}, {"memory", run_memory},
	{"numbers", run_numbers},
	{"names", run_names},
	{"areas", run_areas},     {"clock", run_clock},     {"input", run_input},
	{"exec", run_exec},       {"children", run_children},
	{"tree", run_tree},       {"family", run_family},   {"orphans", run_orphans},
	{"locks", run_locks},     {"owners", run_owners},
	{"reopened", run_reopened},
	{"sockets", run_sockets}, {"terminals", run_terminals},
	{"pidfds", run_pidfds},   {"proc", run_proc},
	{"watches", run_watches}, {"made", run_made},
	{"rings", run_rings},
	{"queues", run_queues},   {"ipc", run_ipc},         {"known", read_known},
};

/* On a slow machine it may be done before its last checkpoint. */
static void wait_to_end(void)
{
	const char *hurry = getenv("GPUCKPT_TEST_HURRY");

	while (hurry && access(hurry, F_OK))
		pause_us(1000);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	rounds = atol(argv[2]);
	directory = argv[3];
	program_path = argv[0];
	for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
		if (!strcmp(argv[1], programs[i].name)) {
			programs[i].run();
			wait_to_end();
			return 0;
		}
	return 2;
}

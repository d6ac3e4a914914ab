/* SPDX-License-Identifier: Apache-2.0
 * A rank for the capture tests: reads commands ("do NAME", "undo NAME", "count", "short",
 * "page NAME") from its standard input and answers each with a line. `capture_program DIRECTORY`.
 */
#include "config.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
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
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/link.h"
#include "shim/preload/preload.h"
#include "shim/mpi/base/state.h"
#include "shim/process/image/image.h"
#include "shim/process/test/capture_clock.h"
#include "shim/process/test/capture_rings.h"
#include "shim/process/test/capture_waits.h"

#define PAGE 4096

static volatile sig_atomic_t signals;
static int fds[2] = {-1, -1};
static pid_t child;
static void *area;
static timer_t timer;
static volatile bool churning;
static volatile int short_writes;
static pthread_t churner;

static void on_signal(int signo)
{
	(void)signo;
	signals++;
}

/* ---- what is refused ----------------------------------------------------------------------- */

static void do_tcp(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(fds[0], (struct sockaddr *)&a, sizeof(a)) || listen(fds[0], 1))
		perror("listen");
}

static void do_udp(void)
{
	fds[0] = socket(AF_INET, SOCK_DGRAM, 0);
}

static void do_bare(void)
{
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
}

static void do_nsfd(void)
{
	fds[0] = open("/proc/self/ns/net", O_RDONLY);
}

static void do_procfd(void)
{
	fds[0] = open("/proc/self/comm", O_RDWR);
}

static void do_procother(void)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)getppid());
	fds[0] = open(path, O_RDONLY);
}

static void do_procthread(void)
{
	fds[0] = open("/proc/thread-self/stat", O_RDONLY);
}

static void do_unix(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "socket"};

	unlink(a.sun_path);
	fds[0] = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(fds[0], (struct sockaddr *)&a, sizeof(a)) || listen(fds[0], 1))
		perror("listen");
}

/* Listen under a name that the kernel chooses, such as "@00a1f". */
static int listen_abstract(int type, int backlog)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type, 0);

	if (bind(fd, (struct sockaddr *)&a, sizeof(a.sun_family)) || listen(fd, backlog))
		perror("listen");
	return fd;
}

static void do_connected(void)
{
	struct sockaddr_un a;
	socklen_t n = sizeof(a);

	fds[0] = listen_abstract(SOCK_STREAM, 1);
	fds[1] = socket(AF_UNIX, SOCK_STREAM, 0);
	if (getsockname(fds[0], (struct sockaddr *)&a, &n) ||
	    connect(fds[1], (struct sockaddr *)&a, n) || close(fds[1]))
		perror("connect");
	fds[1] = -1; /* the connection waits all the same */
}

static int32_t listed;

/* A socket that belongs to MPI's library. */
static void do_mpi(void)
{
	static struct gck_mpi_state mpi = {.magic = GCK_MPI_STATE_MAGIC, .size = sizeof(mpi),
					   .version = GCK_MPI_STATE_VERSION, .link_fd = -1};

	do_udp();
	listed = fds[0];
	fds[0] = -1;
	mpi.exclusions.fds = (uint64_t)(uintptr_t)&listed;
	mpi.exclusions.nfds = 1;
	gck_preload_state()->mpi_state = (uint64_t)(uintptr_t)&mpi;
}

static void *list_late(void *fd)
{
	usleep(100000);
	__atomic_store_n(&listed, (int32_t)(intptr_t)fd, __ATOMIC_RELEASE);
	return NULL;
}

/* The library's thread has made its socket, and not listed it yet. */
static void do_mpi_late(void)
{
	pthread_t thread;

	do_mpi();
	if (!pthread_create(&thread, NULL, list_late, (void *)(intptr_t)listed))
		pthread_detach(thread);
	listed = -1;
}

/* Send one that nobody else has then, with this many bytes. */
static void do_flight(int type, int sent, size_t size)
{
	char space[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
	struct iovec part = {&byte, size};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space,
			   .msg_controllen = sizeof space};

	*CMSG_FIRSTHDR(&m) = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &sent, sizeof sent);
	if (socketpair(AF_UNIX, type, 0, fds) || sendmsg(fds[0], &m, 0) != (ssize_t)size)
		perror("send");
	close(sent);
}

static void do_epoll_flight(void)
{
	do_flight(SOCK_STREAM, epoll_create1(0), 1);
}

static void do_event_flight(void)
{
	do_flight(SOCK_STREAM, eventfd(0, 0), 1);
}

static void do_empty_flight(void)
{
	do_flight(SOCK_DGRAM, eventfd(0, 0), 0);
}

static void do_inotify(void)
{
	fds[0] = inotify_init1(0);
	close(creat("watched", 0600));
	if (inotify_add_watch(fds[0], "watched", IN_MODIFY) != 1 || rename("watched", "moved"))
		perror("inotify");
}

/* The last of many, of which only that is left. */
static void do_made(void)
{
	char name[64];

	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof name, "/gpuckpt-made-%d-%d", (int)getpid(), i);
		fds[0] = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
		if (fds[0] < 0 || close(fds[0]) || shm_unlink(name))
			perror("shm_open");
	}
	snprintf(name, sizeof name, "/dev/shm/gpuckpt-made-%d", (int)getpid());
	fds[0] = creat(name, 0600);
	if (ftruncate(fds[0], 2 << 20) || close(fds[0]))
		perror("creat");
	fds[0] = -1;
}

static void undo_made(void)
{
	char name[64];

	snprintf(name, sizeof name, "/gpuckpt-made-%d", (int)getpid());
	shm_unlink(name);
}

static void do_unread(void)
{
	fds[0] = inotify_init1(0);
	if (inotify_add_watch(fds[0], ".", IN_CREATE) != 1 || close(creat("unread", 0600)))
		perror("inotify");
}

/* The file that is watched is gone, or an event waits. */
static void do_fanotify(const char *then)
{
	fds[0] = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY);
	close(creat("fanned", 0600));
	if (fanotify_mark(fds[0], FAN_MARK_ADD, FAN_MODIFY, AT_FDCWD, "fanned") ||
	    (then ? rename("fanned", then) : truncate("fanned", 1)))
		perror("fanotify");
}

static void do_fan_moved(void)
{
	do_fanotify("fanned-before");
}

static void do_fan_unread(void)
{
	do_fanotify(NULL);
}

/* As root only. */
static void do_fan_mount(void)
{
	fds[0] = fanotify_init(FAN_CLASS_NOTIF, O_RDONLY);
	if (fanotify_mark(fds[0], FAN_MARK_ADD | FAN_MARK_MOUNT, FAN_OPEN_EXEC, AT_FDCWD, "/"))
		perror("fanotify");
}

static void do_fan_decides(void)
{
	fds[0] = fanotify_init(FAN_CLASS_CONTENT, O_RDONLY);
}

static void undo_unread(void)
{
	unlink("unread");
	close(fds[0]);
	fds[0] = -1;
}

/* A number that a restart would have to count up to for long. */
static void do_high_watch(void)
{
	fds[0] = inotify_init1(IN_NONBLOCK);
	for (uint32_t i = 0; i < GCK_WATCH_MAX; i++) {
		char event[sizeof(struct inotify_event)];

		inotify_rm_watch(fds[0], inotify_add_watch(fds[0], "/", IN_MODIFY));
		if (read(fds[0], event, sizeof event) != sizeof event)
			perror("inotify");
	}
	inotify_add_watch(fds[0], "/", IN_MODIFY);
}

static void do_pidfd(void)
{
	fds[0] = (int)syscall(SYS_pidfd_open, getppid(), 0);
}

static void lease(const char *name, int flags, int type)
{
	fds[0] = open(name, flags | O_CREAT, 0600);
	if (fcntl(fds[0], F_SETLEASE, type))
		perror("lease");
}

static void take_lease(const char *name)
{
	lease(name, O_RDONLY, F_RDLCK);
}

static void do_write_lease(void)
{
	lease("leased", O_RDONLY, F_WRLCK);
}

static void do_log_lease(void)
{
	lease("leased", O_RDWR | O_APPEND, F_WRLCK);
	if (ftruncate(fds[0], 17 << 20))
		perror("lease");
}

static void undo_log_lease(void)
{
	if (ftruncate(fds[0], 0))
		perror("lease");
	close(fds[0]);
}

static void do_mapped_lease(void)
{
	lease("leased", O_RDWR, F_WRLCK);
	area = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fds[0], 0);
}

static void undo_mapped_lease(void)
{
	munmap(area, PAGE);
	close(fds[0]);
}

static void do_broken_lease(void)
{
	take_lease("broken-lease");
	signal(SIGIO, SIG_IGN);
	if (open("broken-lease", O_WRONLY | O_NONBLOCK) >= 0)
		fprintf(stderr, "the lease was not there\n");
}

static void do_owner_outside(void)
{
	if (pipe(fds) || fcntl(fds[0], F_SETOWN, getppid()))
		perror("F_SETOWN");
}

static void do_unnamed_lease(void)
{
	take_lease("unnamed-lease");
	unlink("unnamed-lease");
}

static void do_lease_flight(void)
{
	take_lease("sent-lease");
	do_flight(SOCK_STREAM, fds[0], 1);
}

static void set_attributes(int fd, int flags)
{
	if (ioctl(fd, FS_IOC_SETFLAGS, &flags))
		perror("FS_IOC_SETFLAGS");
}

static void do_append_only(void)
{
	fds[0] = open("append-only", O_WRONLY | O_APPEND | O_CREAT, 0600);
	set_attributes(fds[0], FS_APPEND_FL);
}

static void do_immutable(void)
{
	fds[0] = open("immutable", O_RDWR | O_CREAT, 0600);
	set_attributes(fds[0], FS_IMMUTABLE_FL);
}

static void undo_attributes(void)
{
	set_attributes(fds[0], 0);
	close(fds[0]);
	fds[0] = -1;
}

/* It has another name than that by which it was opened. */
static void do_fifo(void)
{
	unlink("other-fifo");
	if (mkfifo("fifo", 0600))
		perror("mkfifo");
	fds[0] = open("fifo", O_RDWR);
	if (link("fifo", "other-fifo") || unlink("fifo"))
		perror("link");
}

static void do_twice(void)
{
	do_fifo();
	if (fcntl(fds[0], F_SETOWN, getppid()))
		perror("F_SETOWN");
}

static void do_device(void)
{
	fds[0] = open("/dev/kmsg", O_RDONLY);
	if (fds[0] < 0 && !mknod("kmsg", S_IFCHR | 0600, makedev(1, 11)))
		fds[0] = open("kmsg", O_RDONLY);
}

/* Its other side was never opened. */
static void do_terminal(void)
{
	fds[0] = open("/dev/ptmx", O_RDWR | O_NOCTTY);
}

static void do_renamed(void)
{
	fds[0] = open("before", O_RDWR | O_CREAT, 0600);
	if (rename("before", "after") || close(open("before", O_RDWR | O_CREAT, 0600)) ||
	    link("after", "other") || unlink("after"))
		perror("rename");
}

static void undo_renamed(void)
{
	unlink("other");
	close(fds[0]);
}

static void do_large(void)
{
	fds[0] = open("large", O_RDWR | O_CREAT, 0600);
	if (ftruncate(fds[0], 40 << 20))
		perror("ftruncate");
}

static void do_epoll(void)
{
	struct epoll_event e = {.events = EPOLLIN};
	int event = eventfd(0, 0);

	fds[0] = epoll_create1(0);
	epoll_ctl(fds[0], EPOLL_CTL_ADD, event, &e);
	fds[1] = dup(event);
	close(event);
}

static void do_half(void)
{
	int pair[2];

	if (pipe(pair))
		perror("pipe");
	child = fork();
	if (child == 0) {
		close(pair[0]);
		for (;;)
			pause();
	}
	close(pair[1]);
	fds[0] = pair[0];
}

static volatile sig_atomic_t taken;

static void on_usr1(int signal)
{
	(void)signal;
	taken = 1;
}

/* Its preload comes once somebody opens the named pipe. */
static void do_starting(void)
{
	char libraries[PATH_MAX], byte;
	int ends[2];

	snprintf(libraries, sizeof libraries, "%s/begin:%s", getenv("PWD"), getenv("LD_PRELOAD"));
	if (mkfifo("begin", 0600) || pipe2(ends, O_CLOEXEC))
		perror("mkfifo");
	child = fork();
	if (child == 0) {
		setenv("LD_PRELOAD", libraries, 1);
		execl("/bin/sleep", "sleep", "1000", NULL);
		_exit(1);
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1)) /* nothing comes: the exec closes it */
		perror("read");
	close(ends[0]);
}

static void undo_child(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (fds[0] >= 0)
		close(fds[0]);
	fds[0] = -1;
}

/* A child that answers each signal, for which it waits in sigsuspend. */
static void do_answering(void)
{
	sigset_t usr1, none;
	int ends[2];

	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	signal(SIGUSR1, on_usr1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	if (pipe(ends))
		perror("pipe");
	child = fork();
	while (child == 0)
		if (sigsuspend(&none) && taken && write(ends[1], "", 1))
			taken = 0;
	close(ends[1]);
	fds[0] = ends[0];
}

static bool is_answered(void)
{
	struct pollfd p = {.fd = fds[0], .events = POLLIN};
	char byte;

	return !kill(child, SIGUSR1) && poll(&p, 1, 20000) > 0 && read(fds[0], &byte, 1) == 1;
}

/* Until every other process that has the pipe has executed a program, or closed it. */
static void await_exec(const int executed[2])
{
	char byte;

	close(executed[1]);
	if (read(executed[0], &byte, 1))
		perror("read");
	close(executed[0]);
}

static void start_child(char *const argv[])
{
	int executed[2];

	if (pipe2(executed, O_CLOEXEC))
		perror("pipe2");
	child = fork();
	if (child == 0) {
		execvp(argv[0], argv);
		_exit(1);
	}
	await_exec(executed);
}

/* A child that the preload is not in. */
static void do_bare_child(void)
{
	static char *const argv[] = {(char *)"env", (char *)"-u", (char *)"LD_PRELOAD",
				     (char *)"sleep", (char *)"1000", NULL};

	start_child(argv);
}

/* A child that executes a program when it gets a signal, and then closes the pipe. */
static void do_replaced(void)
{
	int ends[2];

	signal(SIGUSR1, on_usr1);
	if (pipe2(ends, O_CLOEXEC))
		perror("pipe2");
	child = fork();
	if (child == 0) {
		while (!taken)
			usleep(1000);
		execlp("sleep", "sleep", "1000", NULL);
		_exit(1);
	}
	close(ends[1]);
	fds[0] = ends[0];
}

static void do_replace(void)
{
	char byte;

	kill(child, SIGUSR1);
	if (read(fds[0], &byte, 1))
		perror("read");
}

/* The child's program is leased to the test, so that it waits until the test gives that up. */
static void do_execution(void)
{
	if (execl("/nowhere", "nowhere", NULL) >= 0 || errno != ENOENT)
		perror("execl");
	child = fork();
	if (child == 0) {
		execl("leased-program", "true", NULL);
		_exit(1);
	}
}

static void *execute(void *unused)
{
	execl("leased-program", "true", NULL);
	return unused;
}

/* The rank itself executes it, in another thread. */
static void do_own_execution(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, execute, NULL);
}

static sigjmp_buf before_execution;
static sem_t left, deeper;

static void leave(int sig)
{
	siglongjmp(before_execution, sig);
}

/* Deeper in the stack than where it waits when it has left the call … */
static __attribute__((noinline)) void execute_deep(void)
{
	char above[16384];

	explicit_bzero(above, sizeof above);
	execl("leased-program", "true", NULL);
	explicit_bzero(above, sizeof above);
}

/* … and where it waits at last, which is deeper still. */
static __attribute__((noinline)) void wait_deeper(void)
{
	char below[65536];

	explicit_bzero(below, sizeof below);
	sem_post(&left);
	for (;;)
		pause();
}

static void *leave_execution(void *unused)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	if (!sigsetjmp(before_execution, 1)) {
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		execute_deep();
	}
	sem_post(&left);
	sem_wait(&deeper);
	wait_deeper();
	return unused;
}

/* A thread that a signal takes out of the call. */
static void do_left_execution(void)
{
	pthread_t thread;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGUSR1, leave);
	sem_init(&left, 0, 0);
	sem_init(&deeper, 0, 0);
	pthread_create(&thread, NULL, leave_execution, NULL);
}

static void undo_left_execution(void)
{
	sem_wait(&left);
}

static void do_deeper_execution(void)
{
	sem_post(&deeper);
	sem_wait(&left);
}

static void undo_execution(void)
{
	waitpid(child, NULL, 0);
}

static void do_child(void)
{
	child = fork();
	if (child == 0)
		for (;;)
			pause();
}

/* A child by fork of a process with MPI. */
static void do_mpi_child(void)
{
	do_mpi();
	do_child();
}

/* A child that is a static program. */
static void do_static_child(void)
{
	static char *const argv[] = {(char *)"/bin/busybox", (char *)"sleep", (char *)"1000", NULL};

	do_mpi();
	fcntl(listed, F_SETFD, FD_CLOEXEC);
	start_child(argv);
}

static void undo_mpi_child(void)
{
	undo_child();
	gck_preload_state()->mpi_state = 0;
	close(listed);
}

/* A child that shares memory with the rank, and has a pipe to a process that is no descendant. */
static void do_outside(void)
{
	static char *const nothing[] = {NULL};
	int executed[2], ends[2];

	area = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (pipe2(executed, O_CLOEXEC))
		perror("pipe2");
	child = fork();
	if (child) {
		await_exec(executed);
		return;
	}
	if (pipe(ends))
		_exit(1);
	if (fork() == 0) {
		if (fork() == 0 && dup2(ends[0], 0) == 0 && !close(ends[1]))
			execle("/bin/cat", "cat", NULL, nothing);
		_exit(0);
	}
	wait(NULL);
	close(ends[0]);
	close(executed[0]);
	close(executed[1]);
	for (;;)
		pause();
}

static void undo_outside(void)
{
	undo_child();
	munmap(area, PAGE);
}

/* A child that has ended, in a process group whose leader was waited for. */
static void do_zombie(void)
{
	pid_t leader = fork();
	siginfo_t ended;

	if (leader == 0)
		for (;;)
			pause();
	setpgid(leader, leader);
	child = fork();
	if (child == 0)
		_exit(setpgid(0, leader));
	waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT);
	kill(leader, SIGKILL);
	waitpid(leader, NULL, 0);
}

/* A process that is no descendant does this, and goes on. */
static void let_outside(void (*act)(void))
{
	int number[2], status;
	pid_t parent;

	if (pipe(number))
		perror("pipe");
	parent = fork();
	if (parent == 0) {
		child = fork();
		if (child == 0) {
			char *mark = getenv("GPUCKPT_PID");

			act();
			if (mark)
				mark[-1] = 'x'; /* as /proc shows it */
			child = getpid();
			if (write(number[1], &child, sizeof(child)) != sizeof(child))
				perror("outside");
			for (;;)
				pause();
		}
		_exit(0);
	}
	waitpid(parent, &status, 0);
	if (status || read(number[0], &child, sizeof(child)) != sizeof(child))
		perror("a process outside");
	close(number[0]);
	close(number[1]);
}

static void undo_outside_process(void)
{
	kill(child, SIGKILL);
	child = 0;
}

static int ids[3] = {-1, -1, -1};

/* Half of it is attached. */
static void do_half_segment(void)
{
	ids[2] = shmget(IPC_PRIVATE, 2 * PAGE, 0600);
	area = shmat(ids[2], NULL, 0);
	if (munmap(area, PAGE))
		perror("munmap");
}

static void undo_half_segment(void)
{
	shmdt(area);
	shmctl(ids[2], IPC_RMID, NULL);
}

static void do_sem(void)
{
	struct sembuf up = {0, 1, SEM_UNDO};

	ids[0] = semget(IPC_PRIVATE, 2, 0600);
	if (semop(ids[0], &up, 1))
		perror("semop");
}

static void use_sem(void)
{
	semctl(ids[0], 1, SETVAL, 1);
}

static void do_sem_outside(void)
{
	do_sem();
	let_outside(use_sem);
}

static void undo_sem(void)
{
	undo_outside_process();
	semctl(ids[0], 0, IPC_RMID);
}

static void use_msg(void)
{
	struct msgbuf m = {.mtype = 1};

	if (msgsnd(ids[1], &m, 1, 0))
		perror("msgsnd");
}

static void do_msg_outside(void)
{
	ids[1] = msgget(IPC_PRIVATE, 0600);
	let_outside(use_msg);
}

static void undo_msg(void)
{
	undo_outside_process();
	msgctl(ids[1], IPC_RMID, NULL);
}

static void use_shm(void)
{
	if (shmat(ids[2], NULL, 0) == (void *)-1)
		perror("shmat");
}

static void do_shm_outside(void)
{
	ids[2] = shmget(IPC_PRIVATE, PAGE, 0600);
	let_outside(use_shm);
}

static void undo_shm(void)
{
	undo_outside_process();
	shmctl(ids[2], IPC_RMID, NULL);
}

static void do_attached(void)
{
	ids[2] = shmget(getpid(), PAGE, IPC_CREAT | 0600);
	area = shmat(ids[2], NULL, 0);
}

static void do_static_ipc(void)
{
	static char *const argv[] = {(char *)"/bin/busybox", (char *)"sleep", (char *)"1000", NULL};

	do_attached();
	start_child(argv);
}

static void undo_static_ipc(void)
{
	undo_child();
	undo_half_segment();
}

/* Its owner may not read it. */
static void do_shm_mode(void)
{
	ids[2] = shmget(IPC_PRIVATE, PAGE, 0200);
}

static void undo_shm_mode(void)
{
	shmctl(ids[2], IPC_RMID, NULL);
}

static void make_queue(mode_t mode)
{
	char name[32];

	snprintf(name, sizeof(name), "/gpuckpt-%d", (int)getpid());
	fds[0] = mq_open(name, O_RDWR | O_CREAT, mode, NULL);
	mq_unlink(name);
}

static void do_mq(void)
{
	struct sigevent tell = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGWINCH};

	make_queue(0600);
	if (mq_notify(fds[0], &tell))
		perror("mq_notify");
}

static void do_mq_mode(void)
{
	make_queue(0400);
}

/* Objects under its PID as a key or in a name. */
static void do_leave(void)
{
	char name[32];

	snprintf(name, sizeof name, "/gpuckpt-left-%d", (int)getpid());
	fds[0] = mq_open(name, O_RDWR | O_CREAT, 0600, NULL);
	if (fds[0] < 0 || shmget(getpid(), PAGE, IPC_CREAT | 0600) < 0 ||
	    semget(getpid(), 1, IPC_CREAT | 0600) < 0 || msgget(getpid(), IPC_CREAT | 0600) < 0)
		perror("leave");
}

/* The same queue, in which messages wait. */
static void do_messages(void)
{
	do_leave();
	if (mq_send(fds[0], "last", 4, 1) || mq_send(fds[0], "first", 5, 7) ||
	    mq_send(fds[0], "second", 6, 7))
		perror("messages");
}

static void undo_messages(void)
{
	char name[32];

	snprintf(name, sizeof name, "/gpuckpt-left-%d", (int)getpid());
	mq_unlink(name);
	shmctl(shmget(getpid(), 0, 0), IPC_RMID, NULL);
	semctl(semget(getpid(), 0, 0), 0, IPC_RMID);
	msgctl(msgget(getpid(), 0), IPC_RMID, NULL);
}

static void use_mq(void)
{
}

static void do_mq_outside(void)
{
	make_queue(0600);
	let_outside(use_mq);
}

/* Two grandchildren in the session of their parent, which has ended. */
static void do_orphans(void)
{
	child = fork();
	if (child == 0) {
		if (setsid() < 0)
			perror("setsid");
		for (int i = 0; i < 2; i++)
			if (fork() == 0)
				for (;;)
					pause();
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

/* The same, of a rank of another step that had this PID where it began. */
static void do_strangers(void)
{
	char *link = getenv("GPUCKPT_LINK"), first = link ? *link : '\0';

	if (!link)
		return;
	*link = 'x'; /* as /proc shows it of the children */
	do_orphans();
	*link = first;
}

static void undo_orphans(void)
{
	kill(-child, SIGKILL);
	while (!kill(-child, 0)) /* until their new parent has reaped them */
		usleep(1000);
}

/* A thread that is not like the main thread, until it may end. */
static volatile int unlike;

static void *own_files(void *unused)
{
	unlike = unshare(CLONE_FILES) ? -1 : 1;
	while (unlike == 1)
		usleep(1000);
	return unused;
}

static void *own_rights(void *unused)
{
	unlike = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -1 : 1;
	while (unlike == 1)
		usleep(1000);
	return unused;
}

static void *open_and_close(void *unused)
{
	int ends[2];

	for (unlike = 1; unlike == 1;) {
		if (!pipe(ends) && !close(ends[0]))
			close(ends[1]);
		if (!socketpair(AF_UNIX, SOCK_STREAM, 0, ends) && !close(ends[0]))
			close(ends[1]);
		close(eventfd(0, 0));
	}
	return unused;
}

static void do_unlike(void *(*thread)(void *))
{
	unlike = 0;
	pthread_create(&churner, NULL, thread, NULL);
	while (!unlike)
		usleep(1000);
}

static void do_unshared(void)
{
	do_unlike(own_files);
}

static void do_closing(void)
{
	do_unlike(open_and_close);
}

static void do_no_privs(void)
{
	do_unlike(own_rights);
}

/* Cannot be undone. */
static void do_rights(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		perror("capget");
	data[0].effective = data[0].permitted &= ~(1u << CAP_CHOWN);
	if (syscall(SYS_capset, &header, data))
		perror("capset");
}

static void undo_unlike(void)
{
	unlike = 0;
	pthread_join(churner, NULL);
}

static pthread_mutex_t inheriting;

static void do_inherit(void)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	if (pthread_mutex_init(&inheriting, &a) || pthread_mutex_lock(&inheriting))
		puts("mutex");
}

static void undo_inherit(void)
{
	pthread_mutex_unlock(&inheriting);
}

/* Cannot be undone. */
static void do_namespace(void)
{
	if (unshare(CLONE_NEWUTS))
		perror("unshare");
}

static void do_aio(void)
{
	unsigned long context = 0;

	if (syscall(SYS_io_setup, 1, &context))
		perror("io_setup");
	area = (void *)context;
}

static void undo_aio(void)
{
	syscall(SYS_io_destroy, area);
}

static void do_userfault(void)
{
	fds[0] = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1); /* UFFD_USER_MODE_ONLY */
}

/* Shared memory with a guard page, if the kernel has these. */
static void do_guarded(void)
{
	area = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (madvise(area, PAGE, 102)) /* MADV_GUARD_INSTALL */
		perror("madvise");
}

static void undo_guarded(void)
{
	munmap(area, 2 * PAGE);
}

/* A child debugs it. */
static void do_traced(void)
{
	pid_t rank = getpid();
	int ends[2];
	char byte;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (pipe(ends))
		perror("pipe");
	child = fork();
	if (child == 0) {
		if (ptrace(PTRACE_SEIZE, rank, NULL, NULL) || write(ends[1], "", 1) != 1)
			perror("ptrace");
		for (;;)
			pause();
	}
	if (read(ends[0], &byte, 1) != 1)
		perror("read");
	close(ends[0]);
	close(ends[1]);
}

static void undo_traced(void)
{
	undo_child();
	prctl(PR_SET_PTRACER, gck_preload_state()->tracer);
}

static void do_cputimer(void)
{
	struct sigevent e = {.sigev_notify = SIGEV_NONE};

	if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &e, &timer))
		perror("timer_create");
}

static void undo_cputimer(void)
{
	timer_delete(timer);
}

static void do_directory(void)
{
	if (mkdir("gone", 0700) || chdir("gone") || rmdir("../gone"))
		perror("directory");
}

static void undo_directory(void)
{
	if (chdir(getenv("PWD")))
		perror("chdir");
}

static int idle(void *unused)
{
	(void)unused;
	while (syscall(SYS_pause))
		;
	return 0;
}

/* A thread without glibc; cannot be undone. */
static void do_raw(void)
{
	static char stack[65536] __attribute__((aligned(16)));

	clone(idle, stack + sizeof(stack), CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
	      CLONE_THREAD | CLONE_SYSVSEM, NULL);
}

/* Tiles in use, if CPU and kernel allow them. */
static void do_tiles(void)
{
	static unsigned char config[64] __attribute__((aligned(64))) = {
		[0] = 1, [16] = 64, [48] = 16};

	if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, 18)) {
		perror("arch_prctl");
		return;
	}
	/* ldtilecfg (%rax); tileloadd (%rax,%rcx), %tmm0 */
	__asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00\n\t"
			 ".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x08"
			 : : "a"(config), "c"(0ul) : "memory");
}

static void undo_tiles(void)
{
	__asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0"); /* tilerelease */
}

static void do_seccomp(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &allow};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		perror("seccomp");
}

/* ---- what is carried ----------------------------------------------------------------------- */

static struct {
	const char *name;
	unsigned char *at;
} pages[8];
static size_t npages;

static unsigned char *add_page(const char *name, void *at, int fill)
{
	pages[npages].name = name;
	pages[npages++].at = at;
	if (fill)
		memset(at, fill, PAGE);
	return at;
}

static uintptr_t page_of(const char *name)
{
	for (size_t i = 0; i < npages; i++)
		if (!strcmp(pages[i].name, name))
			return (uintptr_t)pages[i].at;
	return 0;
}

static void *map(size_t size, int flags, int fd)
{
	if (fd < 0)
		flags |= MAP_ANONYMOUS;
	return mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
}

static void do_memory(void)
{
	void *at = add_page("dontfork", map(PAGE, MAP_PRIVATE, -1), 0xd0);
	int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);

	madvise(at, PAGE, MADV_DONTFORK);
	at = add_page("wipeonfork", map(PAGE, MAP_PRIVATE, -1), 0xd1);
	madvise(at, PAGE, MADV_WIPEONFORK);
	at = add_page("none", map(PAGE, MAP_PRIVATE, -1), 0xd2);
	mprotect(at, PAGE, PROT_NONE);
	add_page("zero", map(PAGE, MAP_PRIVATE, -1), 0)[0] = 0;
	if (ftruncate(fd, 3 * PAGE))
		perror("ftruncate");
	add_page("changed", map(3 * PAGE, MAP_PRIVATE, fd), 0xd4);
	close(fd);
	/* more than may be copied, but only two pages are present */
	at = map((size_t)16 << 30, MAP_SHARED | MAP_NORESERVE, -1);
	add_page("shared", (char *)at + ((size_t)8 << 30), 0xd5);
	memset((char *)at + ((size_t)12 << 30), 0xd6, PAGE);
}

/* Large shared memory without a descriptor, swapped out if there is swap. */
static void do_swapped(void)
{
	size_t size = 8 << 20;
	char *at = map(size, MAP_SHARED, -1);

	memset(at, 0xd7, size);
	add_page("swapped", at + size / 2, 0xd8);
	if (madvise(at, size, MADV_PAGEOUT))
		perror("madvise");
}

static void fill_ends(void)
{
	int pair[2];

	if (pipe(pair) || write(pair[1], "in a pipe", 9) != 9)
		perror("pipe");
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || write(pair[1], "in a", 4) != 4 ||
	    write(pair[1], " socket", 7) != 7)
		perror("socketpair");
}

static void do_descriptors(void)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.u64 = ~0ull};
	struct itimerspec far = {{7, 0}, {1000, 0}};
	int event = eventfd(7, EFD_SEMAPHORE), epoll = epoll_create1(EPOLL_CLOEXEC);
	int memfd = memfd_create("a name", MFD_ALLOW_SEALING), file;
	sigset_t set;

	fill_ends();
	epoll_ctl(epoll, EPOLL_CTL_ADD, event, &e);
	timerfd_settime(timerfd_create(CLOCK_MONOTONIC, 0), 0, &far, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	signalfd(-1, &set, 0);
	if (write(memfd, "in a memfd", 10) != 10 || fcntl(memfd, F_ADD_SEALS, F_SEAL_GROW))
		perror("memfd");
	file = open("written", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (write(file, "written text", 12) != 12 || lseek(file, 3, SEEK_SET) != 3 || dup(file) < 0)
		perror("written");
	file = open("unlinked", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (write(file, "unlinked text", 13) != 13 || unlink("unlinked"))
		perror("unlinked");
	listen_abstract(SOCK_SEQPACKET, 7);
	if (open("/dev/null", O_WRONLY) < 0 || open(".", O_RDONLY | O_DIRECTORY) < 0)
		perror("open");
}

/* 20 MiB, only appended to. */
static void do_append(void)
{
	static char text[1 << 20];

	memset(text, 'a', sizeof(text));
	fds[0] = open("appended", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
	for (int i = 0; i < 20; i++)
		if (write(fds[0], text, sizeof(text)) != sizeof(text))
			perror("write");
}

/* Short, only appended to. */
static void do_log(void)
{
	int fd = open("log", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);

	if (write(fd, "head", 4) != 4)
		perror("log");
}

/* Files that are mapped shared: one is closed, one is open without a name. */
static void do_shared(void)
{
	static const char *const names[] = {"shared", "gone"};

	for (int i = 0; i < 2; i++) {
		int fd = open(names[i], O_RDWR | O_CREAT | O_TRUNC, 0600);

		if (ftruncate(fd, 2 * PAGE) || (i ? unlink(names[i]) : 0))
			perror(names[i]);
		memset(map(PAGE, MAP_SHARED, fd), 's', PAGE);
		if (!i)
			close(fd);
	}
}

static void do_read(void)
{
	int fd = open("read", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (write(fd, "text", 4) != 4 || close(fd) || open("read", O_RDONLY) < 0)
		perror("read");
}

/* Written without O_APPEND; the offset is at its end. */
static void write_long(const char *name, off_t size)
{
	fds[0] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (ftruncate(fds[0], size) || lseek(fds[0], 0, SEEK_END) != size)
		perror(name);
}

static void do_long(void)
{
	write_long("long", 40 << 20);
}

static void do_longer(void)
{
	write_long("longer", 70 << 20);
}

static void do_rewrite(void)
{
	int fd = open("appended", O_WRONLY);

	if (pwrite(fd, "b", 1, 100) != 1)
		perror("pwrite");
	close(fd);
}

/* One thread writes more than a pipe holds, and another reads it slowly, repeatedly. */
static int flow[2];

static void *writer(void *unused)
{
	static char text[1 << 20];

	while (churning) {
		short_writes += write(flow[1], text, sizeof(text)) != sizeof(text);
		usleep(12000);
	}
	close(flow[1]);
	return unused;
}

static void *reader(void *unused)
{
	static char text[1 << 20];

	while (read(flow[0], text, sizeof(text)) > 0)
		usleep(1000);
	close(flow[0]);
	return unused;
}

static void do_flow(void)
{
	pthread_t t;

	churning = true;
	if (pipe(flow))
		perror("pipe");
	pthread_create(&t, NULL, reader, NULL);
	pthread_detach(t);
	pthread_create(&churner, NULL, writer, NULL);
}

static void *nothing(void *unused)
{
	return unused;
}

static void *churn(void *unused)
{
	pthread_t t[4];

	while (churning) {
		for (int i = 0; i < 4; i++)
			pthread_create(&t[i], NULL, nothing, NULL);
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
	}
	return unused;
}

static void do_churn(void)
{
	churning = true;
	pthread_create(&churner, NULL, churn, NULL);
}

/* Children of a moment, each with a pipe to this process. */
static void *forker(void *unused)
{
	char c;

	while (churning) {
		int ends[2];
		pid_t pid;

		if (pipe2(ends, O_CLOEXEC))
			break;
		pid = fork();
		if (pid == 0)
			_exit(usleep((unsigned)getpid() % 4000));
		close(ends[1]);
		while (read(ends[0], &c, 1) > 0)
			;
		close(ends[0]);
		waitpid(pid, NULL, 0);
	}
	return unused;
}

static void do_forks(void)
{
	churning = true;
	pthread_create(&churner, NULL, forker, NULL);
}

static void undo_churn(void)
{
	churning = false;
	pthread_join(churner, NULL);
}

/* A thread for each call that the kernel continues by restart_syscall, named after it. */
static void *sleeper(void *kind)
{
	static const char *const names[] = {"nanosleep", "clock", "poll", "futex", "raw"};
	struct timespec t = {1000, 0};
	static int word, pair[2];
	struct pollfd p;

	prctl(PR_SET_NAME, names[(intptr_t)kind]);
	if (pipe(pair))
		perror("pipe");
	p = (struct pollfd){.fd = pair[0], .events = POLLIN};
	switch ((intptr_t)kind) {
	case 0:
		syscall(SYS_nanosleep, &t, &t);
		break;
	case 1:
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		break;
	case 2:
		poll(&p, 1, 1000000);
		break;
	case 3:
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
		break;
	default:
		syscall(SYS_clock_nanosleep, CLOCK_REALTIME, 0, &t, NULL);
	}
	return NULL;
}

/* Cannot be undone. */
static void do_sleepers(void)
{
	pthread_t t;

	for (intptr_t i = 0; i < 5; i++)
		pthread_create(&t, NULL, sleeper, (void *)i);
	usleep(100000);
}

/* Lock one page of "memory". */
static void do_locked(void)
{
	if (mlock((void *)page_of("zero"), PAGE))
		perror("mlock");
}

static void undo_locked(void)
{
	munlock((void *)page_of("zero"), PAGE);
}

/* The main thread ends, and another one continues. */
static void serve(void);
static pthread_t main_thread;

static void *serve_alone(void *unused)
{
	pthread_join(main_thread, NULL);
	puts("ok");
	serve();
	return unused;
}

static void do_headless(void)
{
	pthread_t t;

	main_thread = pthread_self();
	pthread_create(&t, NULL, serve_alone, NULL);
	pthread_exit(NULL);
}

static const struct {
	const char *name;
	void (*make)(void), (*undo)(void);
} things[] = {
	{"tcp", do_tcp, NULL}, {"udp", do_udp, NULL}, {"mpi", do_mpi, NULL},
	{"mpi-late", do_mpi_late, NULL}, {"unix", do_unix, NULL},
	{"connected", do_connected, NULL}, {"epoll-flight", do_epoll_flight, NULL},
	{"event-flight", do_event_flight, NULL}, {"empty-flight", do_empty_flight, NULL},
	{"lease-flight", do_lease_flight, NULL},
	{"inotify", do_inotify, NULL}, {"unread", do_unread, undo_unread},
	{"fan-moved", do_fan_moved, NULL}, {"fan-unread", do_fan_unread, NULL},
	{"fan-mount", do_fan_mount, NULL}, {"fan-decides", do_fan_decides, NULL},
	{"made", do_made, undo_made},
	{"high-watch", do_high_watch, NULL}, {"pidfd", do_pidfd, NULL},
	{"write-lease", do_write_lease, NULL}, {"log-lease", do_log_lease, undo_log_lease},
	{"mapped-lease", do_mapped_lease, undo_mapped_lease},
	{"broken-lease", do_broken_lease, NULL}, {"owner-outside", do_owner_outside, NULL},
	{"unnamed-lease", do_unnamed_lease, NULL},
	{"fifo", do_fifo, NULL}, {"device", do_device, NULL},
	{"terminal", do_terminal, NULL},
	{"twice", do_twice, NULL},
	{"append-only", do_append_only, undo_attributes},
	{"immutable", do_immutable, undo_attributes},
	{"renamed", do_renamed, undo_renamed}, {"large", do_large, NULL}, {"epoll", do_epoll, NULL},
	{"half", do_half, undo_child}, {"child", do_child, undo_child},
	{"starting", do_starting, undo_child},
	{"replaced", do_replaced, undo_child}, {"replace", do_replace, NULL},
	{"outside", do_outside, undo_outside},
	{"answering", do_answering, undo_child}, {"bare-child", do_bare_child, undo_child},
	{"execution", do_execution, undo_execution}, {"own-execution", do_own_execution, NULL},
	{"left-execution", do_left_execution, undo_left_execution},
	{"deeper-execution", do_deeper_execution, NULL},
	{"mpi-child", do_mpi_child, undo_mpi_child},
	{"static-child", do_static_child, undo_mpi_child},
	{"zombie", do_zombie, undo_child}, {"bare", do_bare, NULL}, {"nsfd", do_nsfd, NULL},
	{"procfd", do_procfd, NULL},
	{"procother", do_procother, NULL},
	{"procthread", do_procthread, NULL},
	{"half-segment", do_half_segment, undo_half_segment},
	{"sem-outside", do_sem_outside, undo_sem}, {"msg-outside", do_msg_outside, undo_msg},
	{"shm-outside", do_shm_outside, undo_shm}, {"shm-mode", do_shm_mode, undo_shm_mode},
	{"inherit", do_inherit, undo_inherit}, {"namespace", do_namespace, NULL},
	{"aio", do_aio, undo_aio}, {"userfault", do_userfault, NULL},
	{"guarded", do_guarded, undo_guarded}, {"traced", do_traced, undo_traced},
	{"mq", do_mq, NULL}, {"mq-mode", do_mq_mode, NULL}, {"leave", do_leave, NULL},
	{"messages", do_messages, undo_messages},
	{"attached", do_attached, undo_half_segment},
	{"static-ipc", do_static_ipc, undo_static_ipc},
	{"mq-outside", do_mq_outside, undo_outside_process}, {"orphans", do_orphans, undo_orphans},
	{"strangers", do_strangers, undo_orphans},
	{"unshared", do_unshared, undo_unlike}, {"no-privs", do_no_privs, undo_unlike},
	{"cputimer", do_cputimer, undo_cputimer}, {"directory", do_directory, undo_directory},
	{"raw", do_raw, NULL}, {"rights", do_rights, NULL}, {"seccomp", do_seccomp, NULL},
	{"tiles", do_tiles, undo_tiles},
	{"memory", do_memory, NULL},
	{"swapped", do_swapped, NULL}, {"locked", do_locked, undo_locked},
	{"descriptors", do_descriptors, NULL}, {"append", do_append, NULL},
	{"log", do_log, NULL}, {"read", do_read, NULL}, {"rewrite", do_rewrite, NULL},
	{"shared", do_shared, NULL},
	{"long", do_long, NULL}, {"longer", do_longer, NULL},
	{"closing", do_closing, undo_unlike},
	{"churn", do_churn, undo_churn}, {"flow", do_flow, undo_churn},
	{"forks", do_forks, undo_churn},
	{"ring-poll", ring_do_poll, ring_undo},
	{"ring-timeout", ring_do_timeout, ring_undo},
	{"ring-open", ring_do_open, ring_undo},
	{"ring-more", ring_do_more, ring_undo},
	{"ring-disabled", ring_do_disabled, ring_undo},
	{"ring-personality", ring_do_personality, ring_undo},
	{"ring-closed", ring_do_closed, ring_undo},
	{"ring-provided", ring_do_provided, ring_undo},
	{"ring-selected", ring_do_selected, ring_undo},
	{"ring-file", ring_do_file, ring_undo},
	{"ring-twice", ring_do_twice, ring_undo},
	{"ring-wide", ring_do_wide, ring_undo},
	{"ring-eventfd", ring_do_eventfd, ring_undo},
	{"ring-own-eventfd", ring_do_own_eventfd, ring_undo},
	{"ring-number", ring_do_number, ring_undo},
	{"ring-child", ring_do_child, ring_undo},
	{"ring-busy", ring_do_busy, ring_undo}, {"ring-many", ring_do_many, ring_undo},
	{"waits", waits_do, waits_undo},
	{"sleepers", do_sleepers, NULL}, {"clock", clock_do, clock_undo},
	{"shared-clock", clock_do_shared, clock_undo}, {"headless", do_headless, NULL},
};

static void close_both(void)
{
	for (int i = 0; i < 2; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

static bool act(const char *verb, const char *name)
{
	for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++) {
		if (strcmp(things[i].name, name))
			continue;
		if (!strcmp(verb, "do"))
			things[i].make();
		else if (things[i].undo)
			things[i].undo();
		else
			close_both();
		return true;
	}
	return false;
}

static void serve(void)
{
	char line[128], verb[32], name[32];

	while (fgets(line, sizeof(line), stdin)) {
		int n = sscanf(line, "%31s %31s", verb, name);

		if (n == 1 && !strcmp(verb, "count"))
			printf("%d\n", (int)signals);
		else if (n == 1 && !strcmp(verb, "ask"))
			puts(is_answered() ? "answered" : "silent");
		else if (n == 1 && !strcmp(verb, "short"))
			printf("%d\n", short_writes);
		else if (n == 1 && !strcmp(verb, "stale"))
			printf("%d\n", clock_stale());
		else if (n == 2 && !strcmp(verb, "page"))
			printf("%lx\n", (unsigned long)page_of(name));
		else
			puts(n == 2 && act(verb, name) ? "ok" : "what?");
	}
}

int main(int argc, char **argv)
{
	struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	if (argc != 2 || chdir(argv[1]))
		return 2;
	setenv("PWD", argv[1], 1);
	sigaction(SIGRTMIN, &a, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	serve();
	return 0;
}

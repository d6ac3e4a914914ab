/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/support/shim_agent.h"

void pause_ms(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000l };

	nanosleep(&t, NULL);
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

void agent_listen(struct agent *a)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t size;

	if (!a->name[0])
		snprintf(a->name, sizeof a->name, "gpuckpt-test-%d", getpid());
	strcpy(address.sun_path + 1, a->name);
	size = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a->name);
	a->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (a->listener < 0 || bind(a->listener, (struct sockaddr *)&address, size) ||
	    listen(a->listener, 16))
		err(99, "listening on @%s", a->name);
}

static void take_end(int *pair, int want, int fd)
{
	dup2(pair[want], fd);
	close(pair[0]);
	close(pair[1]);
}

struct rank agent_run(const struct agent *a, const char *restarts, char *const argv[], bool pipes)
{
	struct rank r = { .in = -1, .out = -1, .err = -1 };
	int in[2], out[2], error[2];
	char pid[16];

	if (pipes && (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(error, O_CLOEXEC)))
		err(99, "pipe");
	if ((r.pid = fork()) < 0)
		err(99, "fork");
	if (r.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(pid, sizeof pid, "%010d", getpid());
		setenv("LD_PRELOAD", GCK_TEST_PRELOAD, 1);
		setenv("GPUCKPT_LINK", a->name, 1);
		setenv("GPUCKPT_PID", pid, 1);
		if (restarts)
			setenv("GPUCKPT_RESTARTS", restarts, 1);
		if (pipes) {
			take_end(in, 0, 0);
			take_end(out, 1, 1);
			take_end(error, 1, 2);
		}
		execvp(argv[0], argv);
		err(99, "%s", argv[0]);
	}
	if (pipes) {
		close(in[0]);
		close(out[1]);
		close(error[1]);
		r.in = in[1];
		r.out = out[0];
		r.err = error[0];
	}
	return r;
}

/* Accept a connection and receive its first packet: the packet's type, 0: none came. */
static int next_link(const struct agent *a, int ms, int *fd, void *packet, size_t size, pid_t *peer)
{
	struct ucred cred;
	socklen_t n = sizeof cred;

	if (!readable(a->listener, ms))
		return 0;
	*fd = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);
	if (*fd < 0 || getsockopt(*fd, SOL_SOCKET, SO_PEERCRED, &cred, &n))
		err(99, "accept");
	if (peer)
		*peer = cred.pid;
	if (!readable(*fd, WAIT_MS) || recv(*fd, packet, size, 0) < (ssize_t)sizeof(uint32_t)) {
		close(*fd);
		return 0;
	}
	return (int)*(uint32_t *)packet;
}

static union {
	struct gck_link_msg shim;
	struct gck_thread_msg cuda;
} first;

/* The thread has replaced the link that it had before. */
static void keep_cuda_link(struct agent *a, int fd)
{
	if (a->cuda)
		close(a->cuda);
	a->cuda = fd;
	a->cuda_hello = first.cuda;
}

int agent_accept(struct agent *a, int ms, struct gck_link_hello *hello, pid_t *peer)
{
	int fd, type;

	while ((type = next_link(a, ms, &fd, &first, sizeof first, peer)) == GCK_LINK_CUDA_HELLO)
		keep_cuda_link(a, fd);
	if (type != GCK_LINK_HELLO) {
		if (type)
			close(fd);
		return -1;
	}
	*hello = first.shim.hello;
	return fd;
}

int agent_accept_cuda(struct agent *a, int ms, struct gck_thread_msg *hello)
{
	int fd = a->cuda;

	if (!fd && next_link(a, ms, &fd, &first, sizeof first, NULL) == GCK_LINK_CUDA_HELLO)
		keep_cuda_link(a, fd);
	fd = a->cuda;
	a->cuda = 0;
	*hello = a->cuda_hello;
	return fd ? fd : -1;
}

int agent_accept_reclaim(struct agent *a, int ms, struct gck_thread_msg *need)
{
	int fd;

	return next_link(a, ms, &fd, need, sizeof *need, NULL) == GCK_LINK_CUDA_RECLAIM ? fd : -1;
}

int agent_receive(int link, struct gck_link_msg *m)
{
	ssize_t n;

	if (!readable(link, WAIT_MS))
		return -1;
	n = recv(link, m, sizeof *m, 0);
	return n > 0 ? (int)m->type : 0;
}

static size_t size_of(const struct gck_link_msg *m)
{
	size_t size = offsetof(struct gck_link_msg, calls);

	bool calls = m->type == GCK_LINK_CALLS || m->type == GCK_LINK_CLONE;

	return calls ? size + m->ncalls * sizeof m->calls[0] : size;
}

void agent_send(int link, int type, int32_t pid)
{
	struct gck_link_msg m = { .type = type, .pid = pid };

	send(link, &m, size_of(&m), MSG_NOSIGNAL);
}

int agent_admit(struct agent *a, struct gck_link_hello *hello)
{
	int link = agent_accept(a, WAIT_MS, hello, NULL);

	if (link >= 0)
		agent_send(link, GCK_LINK_GO, getpid());
	return link;
}

long agent_call(int link, long nr, long a, long b, long c, long d)
{
	struct gck_link_msg m = { .type = GCK_LINK_CALLS, .ncalls = 1 };

	m.calls[0] = (struct gck_link_call){ .nr = nr, .args = { a, b, c, d } };
	send(link, &m, size_of(&m), MSG_NOSIGNAL);
	if (agent_receive(link, &m) != GCK_LINK_RESULTS || m.ncalls != 1)
		return -EPROTO;
	return m.calls[0].result;
}

void agent_lease(int link, uint32_t ms)
{
	struct gck_link_msg m = { .type = GCK_LINK_LEASE, .number = ms };

	send(link, &m, offsetof(struct gck_link_msg, calls), MSG_NOSIGNAL);
}

/* The timer that stops the rank, as /proc has it. */
static bool has_lease(pid_t pid)
{
	char path[32], text[4096] = "";
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/timers", pid);
	if (!(f = fopen(path, "re")))
		return false;
	(void)!fread(text, 1, sizeof text - 1, f);
	fclose(f);
	return strstr(text, "signal: 19/");
}

bool agent_sees_lease(pid_t pid, bool there)
{
	int left = WAIT_MS;

	while (has_lease(pid) != there && --left)
		pause_ms(1);
	return left;
}

int agent_ask_clone(int link, struct gck_link_msg *m, int *life)
{
	struct iovec v = { m, size_of(m) };
	union {
		struct cmsghdr h;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .h = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof control };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		err(99, "socketpair");
	memcpy(CMSG_DATA(&control.h), &pair[1], sizeof(int));
	*life = pair[0];
	m->type = sendmsg(link, &h, MSG_NOSIGNAL) < 0 ? 0 : m->type;
	close(pair[1]);
	return m->type ? 0 : -EPIPE;
}

int agent_clone(int link, int *life)
{
	struct gck_link_msg m = { .type = GCK_LINK_CLONE };

	if (agent_ask_clone(link, &m, life))
		return -EPIPE;
	return agent_receive(link, &m) == GCK_LINK_CLONED ? m.pid : -EPROTO;
}

bool agent_frozen(int life)
{
	char byte;

	return readable(life, WAIT_MS) && read(life, &byte, 1) == 1 && byte == GCK_LINK_FROZEN;
}

static bool has(const pid_t *tids, int n, pid_t tid)
{
	while (n-- > 0) {
		if (tids[n] == tid)
			return true;
	}
	return false;
}

/* The interrupt is repeated while the thread does not stop: in execve it may be lost. */
static bool stop(pid_t tid)
{
	int status, r;

	if (ptrace(PTRACE_SEIZE, tid, 0, 0))
		return false;
	for (int i = 0; i < WAIT_MS; i++) {
		if (i % 100 == 0 && ptrace(PTRACE_INTERRUPT, tid, 0, 0))
			return false;
		if ((r = waitpid(tid, &status, __WALL | WNOHANG)))
			return r == tid && WIFSTOPPED(status);
		pause_ms(1);
	}
	return false;
}

/* Stop the threads that run now: how many they were. */
static int freeze_once(pid_t pid, pid_t helper, pid_t *tids, int *n, int capacity)
{
	char path[32];
	struct dirent *e;
	DIR *d;
	int before = *n;

	snprintf(path, sizeof path, "/proc/%d/task", pid);
	if (!(d = opendir(path)))
		return 0;
	while ((e = readdir(d))) {
		pid_t tid = atoi(e->d_name);

		if (tid && tid != helper && *n < capacity && !has(tids, *n, tid) && stop(tid))
			tids[(*n)++] = tid;
	}
	closedir(d);
	return *n - before;
}

int agent_freeze(pid_t pid, pid_t helper, pid_t *tids, int capacity)
{
	int n = 0;

	while (freeze_once(pid, helper, tids, &n, capacity))
		;
	return n;
}

void agent_thaw(const pid_t *tids, int n)
{
	while (n-- > 0)
		ptrace(PTRACE_DETACH, tids[n], 0, 0);
}

void agent_peek(pid_t pid, uint64_t address, void *data, size_t size)
{
	struct iovec local = { data, size }, remote = { (void *)address, size };

	if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)size)
		memset(data, 0, size);
}

const char *rank_line(int fd, int ms)
{
	static char line[256];
	size_t n = 0;

	while (n < sizeof line - 1 && readable(fd, ms) && read(fd, line + n, 1) == 1 &&
	       line[n] != '\n')
		n++;
	line[n] = '\0';
	return line;
}

const char *rank_ask(const struct rank *r, const char *line)
{
	if (dprintf(r->in, "%s\n", line) < 0)
		return "";
	return rank_line(r->out, WAIT_MS);
}

int rank_end(struct rank *r)
{
	int status = 0;
	int left = WAIT_MS / 10;

	if (r->in >= 0)
		close(r->in);
	while (waitpid(r->pid, &status, WNOHANG) == 0 && left-- > 0)
		pause_ms(10);
	if (left < 0) {
		kill(r->pid, SIGKILL);
		waitpid(r->pid, &status, 0);
	}
	if (r->out >= 0)
		close(r->out);
	if (r->err >= 0)
		close(r->err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

bool process_runs(pid_t pid)
{
	char path[32], state = 'Z';
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	if (!(f = fopen(path, "re")))
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 'Z';
	fclose(f);
	return state != 'Z' && state != 'X';
}

bool process_ends(pid_t pid)
{
	int left = WAIT_MS / 10;

	while (process_runs(pid) && left-- > 0)
		pause_ms(10);
	return left >= 0;
}

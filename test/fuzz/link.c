/* SPDX-License-Identifier: Apache-2.0
 * The links between ranks and their agent: what a process of the job sends to the agent (a shim's
 * packets, and messages of the MPI and CUDA threads), and what an agent sends to these threads. The
 * first byte of the input says which; packets follow, each after its size in two bytes. They come
 * out of memory: the calls of sockets are replaced below. */
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/fd_passing.h"
#include "common/base/log.h"
#include "coordinator/agent/ranks/lease.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/ranks/thread_link.h"
#include "shim/inside/descriptor.h"
#include "shim/inside/link.h"
#include "shim/process/gpu/gpu.h"
#include "shim/process/process.h"

#define PID 4711
#define TOTAL_MAX (1u << 20)

static const uint8_t *next, *end;
static struct task task;
static struct agent agent;

static void must(bool is)
{
	if (!is)
		abort();
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* The memory for a message is allocated as its first packet says; much of it takes long. */
static void bound_total(struct gck_thread_msg *m, size_t size)
{
	if (size >= offsetof(struct gck_thread_msg, data) && m->total != UINT32_MAX)
		m->total %= TOTAL_MAX;
}

/* 0 at the end, as of a connection that the peer has closed. */
ssize_t recv(int fd, void *to, size_t max, int flags)
{
	size_t size;

	(void)fd;
	(void)flags;
	if (end - next < 2)
		return 0;
	size = (size_t)(next[0] | next[1] << 8);
	next += 2;
	if (size > (size_t)(end - next))
		size = (size_t)(end - next);
	memcpy(to, next, size < max ? size : max);
	next += size;
	bound_total(to, size);
	return (ssize_t)(size < max ? size : max);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	(void)fd;
	(void)data;
	(void)flags;
	return (ssize_t)size;
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	(void)fd;
	(void)m;
	(void)flags;
	return 1;
}

ssize_t gck_fd_send(int fd, const void *data, size_t size, const int *fds, size_t n, int flags)
{
	(void)fds;
	(void)n;
	return send(fd, data, size, flags);
}

ssize_t gck_fd_receive(int fd, void *data, size_t size, int *fds, size_t *n, int flags)
{
	(void)fds;
	*n = 0;
	return recv(fd, data, size, flags);
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	(void)fds;
	(void)n;
	(void)ms;
	return 1;
}

int shutdown(int fd, int how)
{
	(void)fd;
	(void)how;
	return 0;
}

int accept4(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
	static int any = -1;

	(void)fd;
	(void)from;
	(void)size;
	(void)flags;
	if (any < 0)
		any = open("/dev/null", O_RDWR | O_CLOEXEC);
	return fcntl(any, F_DUPFD_CLOEXEC, 0);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	(void)fd;
	(void)level;
	(void)size;
	if (name == SO_PEERCRED)
		*(struct ucred *)value = (struct ucred){PID, getuid(), getgid()};
	return 0;
}

/* ---- in place of what the links stand on ----------------------------------------------------- */

uint64_t gck_inside_cookie(int fd)
{
	(void)fd;
	return 1;
}

int gck_inside_move_away(int fd)
{
	return fd;
}

/* Of a rank, which connects itself. */
bool gck_process_ended(pid_t pid)
{
	return pid != PID;
}

bool gck_is_descendant(pid_t pid, pid_t rank)
{
	return pid == rank;
}

void gck_device_channel_drop(int fds[GCK_LINK_DATA_FDS])
{
	must(fds[0] < 0 && fds[1] < 0);
}

void lease_give(struct link *l)
{
	must(l->task == &task);
}

void lease_look_at(struct task *t)
{
	must(t == &task);
}

int gck_process_runs(pid_t pid, struct gck_error *err)
{
	(void)err;
	must(pid == PID);
	return 1;
}

void gck_log(enum gck_log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

/* Reads all of a message, for the sanitizer. */
static unsigned char sum_of(const unsigned char *data, size_t size)
{
	unsigned char sum = 0;

	for (size_t i = 0; i < size; i++)
		sum ^= data[i];
	return sum;
}

/* ---- the agent ------------------------------------------------------------------------------- */

/* A whole message: all of its bytes are there, and a text in them ends. */
static void take(struct thread_link *l)
{
	struct gck_error err = { 0 };

	must(l->have == l->head.total);
	thread_link_failure(l, &err);
	if (sum_of(l->data, l->head.total) == 0x55)
		thread_link_lost(l);
	else if (l->head.type == GCK_LINK_MPI_OBSTACLE || l->head.type == GCK_LINK_CUDA_OBSTACLE)
		thread_link_item(l);
	else
		thread_link_send(l, &l->head, l->data, l->head.total);
}

static void lost(const struct thread_link *l)
{
	must(l->agent == &agent && l->task == &task && l->pid == PID);
}

static struct thread_link **mpi_slot(struct task *t)
{
	return &t->mpi;
}

static struct thread_link **cuda_slot(struct task *t)
{
	return &t->cuda;
}

static const struct thread_kind kinds[] = {
	{"MPI", true, mpi_slot, take, lost}, {"CUDA", false, cuda_slot, take, lost}
};

static void moved(struct agent *a, const struct task *t, int code)
{
	(void)a;
	(void)t;
	(void)code;
}

static void adopt(struct agent *a, int fd, pid_t pid, const struct gck_thread_msg *m, size_t size)
{
	if (m->type == GCK_LINK_CUDA_RECLAIM)
		close(fd);
	else
		thread_link_adopt(a, fd, pid, &kinds[m->type == GCK_LINK_CUDA_HELLO], m, size);
}

static void ask(struct agent *a, struct task *t, const struct gck_link_ask *m)
{
	must(a == &agent && t == &task && m->asked[GCK_REQUEST_ONE] + 1ull > 0);
}

static const struct links_ops ops = { ask, moved, adopt };

/* Each connection gets the packets up to its end; the first says whose it is. */
static void serve_agent(unsigned gate)
{
	static const struct step step = { .supervisor = 1, .ntasks = 1 };
	static struct task *tasks[] = { &task };
	struct links *all;

	task = (struct task){ .pid = PID };
	agent = (struct agent){ .loop = ev_default_loop(0), .step = &step, .gate = gate % 4,
				.tasks = { tasks, 1 } };
	all = links_start(&agent, &ops);
	while (end - next >= 2) {
		ev_invoke(agent.loop, &all->listener, EV_READ);
		if (all->first)
			ev_invoke(agent.loop, &all->first->io, EV_READ);
		while (task.link && end - next >= 2)
			ev_invoke(agent.loop, &task.link->io, EV_READ);
		for (int i = 0; i < 2; i++)
			while (*kinds[i].slot(&task) && end - next >= 2)
				ev_invoke(agent.loop, &(*kinds[i].slot(&task))->in, EV_READ);
	}
	links_stop(all);
}

/* ---- a stand-in's thread --------------------------------------------------------------------- */

static void serve_inside(void)
{
	const struct gck_inside_link l = { .fd = 0, .cookie = 1 };
	struct gck_inside_message m;

	while (gck_inside_link_receive(&l, &m, 0) > 0) {
		must(m.data != NULL);
		if (sum_of(m.data, m.head.total) != 0x55)
			must(!gck_inside_link_send(&l, &m.head, m.data, m.head.total));
		gck_inside_link_drop(&m);
	}
	must(!m.data && !m.nfds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	next = data + 1;
	end = data + size;
	if (data[0] % 2)
		serve_inside();
	else
		serve_agent(data[0] / 2);
	return 0;
}

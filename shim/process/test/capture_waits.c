/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/process/test/capture_waits.h"

#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define SIGNAL (SIGRTMIN + 5)

static int event, epoll, sockets[2], ring;
static char *queues;
static struct io_uring_params params;

static bool wait_epoll(void)
{
	struct epoll_event e;

	return epoll_wait(epoll, &e, 1, -1) == 1;
}

static bool wait_epoll_exactly(void)
{
	const struct timespec most = {3600, 0};
	struct epoll_event e;

	return epoll_pwait2(epoll, &e, 1, &most, NULL) == 1;
}

static bool wait_signal(void)
{
	const struct timespec most = {3600, 0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	return sigtimedwait(&set, NULL, &most) == SIGNAL;
}

static bool wait_receive(void)
{
	char byte;

	return recv(sockets[0], &byte, 1, 0) == 1;
}

static bool wait_read(void)
{
	char byte;

	return read(sockets[0], &byte, 1) == 1;
}

static bool wait_ring(void)
{
	return ring < 0 || syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL,
				   0) == 0;
}

static struct {
	const char *name;
	bool (*wait)(void);
	pthread_t thread;
	bool good;
} all[] = {
	{"epoll_wait", wait_epoll}, {"epoll_pwait2", wait_epoll_exactly},
	{"sigtimedwait", wait_signal}, {"recv", wait_receive}, {"read", wait_read},
	{"io_uring_enter", wait_ring},
};
#define N (sizeof all / sizeof *all)

static void *run(void *i)
{
	size_t me = (size_t)(uintptr_t)i;

	pthread_setname_np(pthread_self(), all[me].name);
	all[me].good = all[me].wait();
	if (!all[me].good)
		perror(all[me].name);
	return NULL;
}

static void make_ring(void)
{
	ring = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (ring >= 0)
		queues = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
			      IORING_OFF_SQ_RING);
}

void waits_do(void)
{
	const struct timeval most = {3600, 0};
	struct epoll_event e = {.events = EPOLLIN};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	event = eventfd(0, 0);
	epoll = epoll_create1(0);
	make_ring();
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) ||
	    setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, event, &e))
		exit(5);
	for (size_t i = 0; i < N; i++)
		pthread_create(&all[i].thread, NULL, run, (void *)(uintptr_t)i);
	usleep(100000);
}

static void end_ring(void)
{
	struct io_uring_sqe *nop;

	if (ring < 0)
		return;
	nop = mmap(NULL, sizeof *nop, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	*nop = (struct io_uring_sqe){.opcode = IORING_OP_NOP};
	*(volatile uint32_t *)(void *)(queues + params.sq_off.tail) = 1;
	if (syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) != 1)
		exit(5);
}

void waits_undo(void)
{
	if (eventfd_write(event, 1) || kill(getpid(), SIGNAL) || write(sockets[1], "ab", 2) != 2)
		exit(5);
	end_ring();
	for (size_t i = 0; i < N; i++) {
		pthread_join(all[i].thread, NULL);
		if (!all[i].good)
			exit(5);
	}
}

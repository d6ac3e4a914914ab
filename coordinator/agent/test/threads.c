/* SPDX-License-Identifier: Apache-2.0
 * Our threads in the fake ranks. */
#include "config.h"

#include "coordinator/agent/test/threads.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/restart/restart.h"

int threads[FAKE_RANKS + 1] = { -1, -1, -1, -1 };

bool answer_says(const json_t *answer, const char *text)
{
	const char *error = packet_text(answer, "error", "");

	if (answer && !packet_bool(answer, "ok") && strstr(error, text))
		return true;
	printf("# the error is \"%s\"\n", error);
	return false;
}

static struct gck_thread_msg hello(unsigned rank, uint32_t restored, bool inactive)
{
	struct gck_thread_msg m = { .type = GCK_LINK_MPI_HELLO,
				  .total = sizeof(struct gck_link_mpi_hello) };

	m.hello = (struct gck_link_mpi_hello){ .version = GCK_LINK_VERSION, .restored = restored,
					       .rank = rank, .size = inactive ? 0 : FAKE_RANKS,
					       .mpi_inactive = inactive };
	return m;
}

void thread_leave(unsigned rank)
{
	if (threads[rank] >= 0)
		close(threads[rank]);
	threads[rank] = -1;
}

void thread_connect(unsigned rank, uint32_t restored)
{
	struct gck_thread_msg m = hello(rank, restored, false);
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	thread_leave(rank);
	threads[rank] = sv[1];
	thread_messages.adopt(fake_agent, sv[0], fake_agent->tasks.v[rank]->pid, &m, HEAD +
			      m.total);
}

void thread_initializes(unsigned rank, bool done)
{
	struct gck_thread_msg m = hello(rank, 0, false);

	m.hello.size = done ? FAKE_RANKS : 0;
	thread_send(rank, &m, HEAD + m.total);
}

void thread_inactive(unsigned rank)
{
	struct gck_thread_msg m = hello(rank, 0, true);

	thread_send(rank, &m, HEAD + m.total);
}

void threads_begin(void)
{
	fake_begin();
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		thread_connect(i, 0);
}

void threads_end(void)
{
	if (fake_agent->transaction) /* its timers would run on */
		transaction_abort(fake_agent->transaction);
	for (unsigned i = 0; i <= THREAD_SECOND; i++)
		thread_leave(i);
	fake_turn();
	fake_end();
}

bool threads_restart(unsigned timeout_ms, bool cuda, void (*connect)(unsigned rank))
{
	json_t *welcome = json_pack("{s:i, s:s}", "seq", 7, "hash", "aa");
	bool back;

	fake_begin();
	((struct step *)fake_agent->step)->options.timeout_ms = timeout_ms;
	fake_agent->gate = GATE_WAIT;
	fake_agent->lasting->released = 0;
	*(cuda ? &fake_world->cuda : &fake_world->mpi) = FAKE_RANKS;
	restart_offered(fake_agent, welcome);
	fake_command("build", NULL);
	fake_await("done", "build");
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		connect(i);
	fake_command("run", NULL);
	back = fake_await_within("done", "run", 0.5) || fake_opened;
	json_decref(welcome);
	return !back;
}

void thread_send(unsigned rank, const struct gck_thread_msg *m, size_t size)
{
	while (send(threads[rank], m, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EAGAIN)
		fake_run(0.01);
}

void thread_say(unsigned rank, uint32_t type, uint32_t round, uint32_t value, size_t size)
{
	static struct gck_thread_msg m;
	size_t at = 0;

	do {
		size_t n = size - at < GCK_THREAD_MSG_DATA ? size - at : GCK_THREAD_MSG_DATA;

		m = (struct gck_thread_msg){ .type = type, .seq = 7, .round = round, .value = value,
					   .total = (uint32_t)size, .offset = (uint32_t)at };
		thread_send(rank, &m, HEAD + n);
		at += n;
	} while (at < size);
}

bool thread_given(unsigned rank, struct gck_thread_msg *m, int fds[2])
{
	union {
		struct cmsghdr head;
		char buffer[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec v = { m, sizeof *m };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof control };

	fds[0] = fds[1] = -1;
	if (recvmsg(threads[rank], &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
		return false;
	if (h.msg_controllen >= sizeof control.buffer)
		memcpy(fds, CMSG_DATA(&control.head), 2 * sizeof(int));
	return true;
}

int thread_heard(unsigned rank, uint32_t type)
{
	static struct gck_thread_msg m;
	int n = 0;

	while (recv(threads[rank], &m, sizeof m, MSG_DONTWAIT) > 0)
		n += m.type == type;
	return n;
}

/* SPDX-License-Identifier: Apache-2.0
 * The agent's end of MPI threads' links: what they send is untrusted. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/test/threads.h"
#include "test/support/tap.h"

static const struct thread_link *link_of(unsigned rank)
{
	return fake_agent->tasks.v[rank]->mpi;
}

/* Rank 1's link is closed at this packet. */
static void breaks(struct gck_thread_msg m, size_t size, const char *name)
{
	threads_begin();
	thread_send(1, &m, size);
	fake_turn();
	ok(!link_of(1) && link_of(0), "%s ends this link, and no other", name);
	threads_end();
}

static void rules(void)
{
	const struct gck_thread_msg text = { .type = GCK_LINK_MPI_OBSTACLE, .total = 8 };
	struct gck_thread_msg m = text;

	breaks(m, HEAD - 1, "a packet without a whole head");
	breaks(m, HEAD, "a piece of nothing");
	breaks(m, HEAD + 9, "more than was announced");
	m.offset = 4;
	breaks(m, HEAD + 4, "a message that begins in its middle");
	m = text;
	m.total = UINT32_MAX;
	breaks(m, HEAD + 8, "a message of 4 GiB");
	m = text;
	m.type = 99;
	breaks(m, HEAD + 8, "a type that is not known");
	m.type = GCK_LINK_MPI_QUIESCE;
	breaks(m, HEAD + 8, "an agent's own word");
}

static void pieces(void)
{
	struct gck_thread_msg m = { .type = GCK_LINK_MPI_OBSTACLE, .total = 8 };

	threads_begin();
	memcpy(m.data, "a\0b", 4);
	thread_send(1, &m, HEAD + 4);
	m.offset = 4;
	memcpy(m.data, "c\0\0", 4);
	thread_send(1, &m, HEAD + 4);
	fake_turn();
	is_str(packet_text(json_array_get(link_of(1)->items, 0), "remedy", ""), "c",
	       "a message in two pieces is assembled");
	m.offset = 0;
	thread_send(1, &m, HEAD + 4);
	m.offset = 5;
	thread_send(1, &m, HEAD + 3);
	fake_turn();
	ok(!link_of(1), "a gap between pieces ends the link");
	threads_end();

	threads_begin();
	m.offset = 0;
	thread_send(1, &m, HEAD + 4);
	m.offset = 4;
	m.type = GCK_LINK_MPI_READY;
	thread_send(1, &m, HEAD + 4);
	fake_turn();
	ok(!link_of(1), "and so does another message between pieces");
	threads_end();
}

static void items(void)
{
	struct gck_thread_msg m = { .type = GCK_LINK_MPI_OBSTACLE, .total = 6 };
	int unended;

	threads_begin();
	memcpy(m.data, "window", 6);
	thread_send(1, &m, HEAD + 6);
	fake_turn();
	unended = (int)json_array_size(link_of(1)->items);
	is_int(unended, 0, "an item whose strings lack a NUL is ignored");
	memcpy(m.data, "a\0b\0c", 6);
	for (int i = 0; i < 100; i++) {
		thread_send(1, &m, HEAD + 6);
		if (i % 10 == 9)
			fake_turn();
	}
	is_int((long long)json_array_size(link_of(1)->items), 64, "the number of items is limited");
	thread_say(1, GCK_LINK_MPI_OBSTACLES_END, 0, 0, 0);
	fake_turn();
	ok(link_of(1)->looked && !thread_links_looked(fake_agent),
	   "one rank has named all obstacles");
	thread_links_look(fake_agent);
	ok(!link_of(1)->looked && !json_array_size(link_of(1)->items), "and is asked again");
	is_int(thread_heard(1, GCK_LINK_MPI_LIST_OBSTACLES), 1, "over its link");
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		thread_say(i, GCK_LINK_MPI_OBSTACLES_END, 0, 0, 0);
	fake_turn();
	ok(thread_links_looked(fake_agent), "all have");
	threads_end();
}

static void counts(void)
{
	bool pmix;

	threads_begin();
	is_int(thread_links_mpi(fake_agent, &pmix), FAKE_RANKS, "ranks with MPI");
	ok(!pmix, "PMIx is not used if one rank cannot");
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		fake_agent->tasks.v[i]->mpi->hello.pmix = 1;
	thread_links_mpi(fake_agent, &pmix);
	ok(pmix, "it is used if all can");
	fake_agent->tasks.v[2]->mpi->hello.size = 2;
	thread_links_mpi(fake_agent, &pmix);
	ok(!pmix, "nor if a rank has another world, whose fence would be another");
	thread_say(1, GCK_LINK_MPI_BYE, 0, 0, 0);
	fake_turn();
	is_int(thread_links_mpi(fake_agent, &pmix), FAKE_RANKS - 1,
	       "a rank past MPI_Finalize does not count");
	threads_end();
}

/* Words of all ranks are large: a rank that does not read them must not fill the agent. */
static void does_not_listen(void)
{
	struct gck_thread_msg m = { .type = GCK_LINK_MPI_GO, .seq = 7 };
	size_t size = 60u << 20;
	void *words = calloc(1, size);

	threads_begin();
	for (int i = 0; i < 6 && link_of(1); i++)
		thread_link_send(fake_agent->tasks.v[1]->mpi, &m, words, size);
	fake_turn();
	ok(!link_of(1), "a rank that reads nothing loses its link");
	threads_end();

	threads_begin();
	thread_link_send(fake_agent->tasks.v[1]->mpi, &m, words, 1u << 20);
	for (int i = 0; i < 100 && fake_agent->tasks.v[1]->mpi->queued; i++) {
		thread_heard(1, 0);
		fake_run(0.01);
	}
	ok(link_of(1) && !link_of(1)->queued, "a slow one does not");
	threads_end();
	free(words);
}

/* The MPI thread of a process connects. Returns whether its link was closed. */
static bool is_refused(pid_t pid, int *fd)
{
	struct gck_thread_msg m = { .type = GCK_LINK_MPI_HELLO,
				  .total = sizeof(struct gck_link_mpi_hello),
				  .hello = { .version = GCK_LINK_VERSION, .size = FAKE_RANKS } };
	char byte;
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	*fd = sv[1];
	thread_messages.adopt(fake_agent, sv[0], pid, &m, HEAD + m.total);
	return recv(sv[1], &byte, 1, MSG_DONTWAIT) == 0;
}

static void no_rank(void)
{
	int fd;

	threads_begin();
	ok(is_refused(getpid(), &fd), "a process that descends from no rank is refused");
	close(fd);
	threads_end();
}

static pid_t begin_process(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

static void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* This process is the rank. */
static void descendants(void)
{
	pid_t first = begin_process(), second = begin_process(), before;
	int fds[3];

	threads_begin();
	thread_leave(1);
	fake_turn();
	before = fake_agent->tasks.v[1]->pid;
	fake_agent->tasks.v[1]->pid = getpid();
	ok(!is_refused(first, &fds[0]) && link_of(1) && link_of(1)->pid == first,
	   "a rank's child may use MPI");
	is_int(fake_agent->tasks.v[1]->mpi_pid, first, "the rank's task says which it is");
	ok(is_refused(second, &fds[1]) && link_of(1)->pid == first,
	   "a second one is refused while it runs");
	end_process(first);
	ok(!is_refused(second, &fds[2]) && link_of(1)->pid == second, "and not when it has ended");
	end_process(second);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	fake_turn();
	fake_agent->tasks.v[1]->pid = before;
	threads_end();
}

/* A process whose parent has ended, with this in its environment. */
static pid_t begin_orphan(char *variable)
{
	char *argv[] = { (char *)"sleep", (char *)"60", NULL }, *envp[] = { variable, NULL };
	int ends[2], status;
	pid_t parent, orphan = 0;

	if (pipe2(ends, O_CLOEXEC))
		abort();
	parent = fork();
	if (parent == 0) {
		orphan = fork();
		if (orphan == 0)
			execve("/bin/sleep", argv, envp);
		_exit(write(ends[1], &orphan, sizeof orphan) != sizeof orphan);
	}
	close(ends[1]);
	waitpid(parent, &status, 0);
	if (status || read(ends[0], &orphan, sizeof orphan) != sizeof orphan ||
	    read(ends[0], &status, sizeof status) != 0) /* closed when it has executed sleep */
		abort();
	close(ends[0]);
	return orphan;
}

static void orphans(void)
{
	char variable[32];
	int fds[2];
	pid_t pid;

	threads_begin();
	thread_leave(1);
	fake_turn();
	snprintf(variable, sizeof variable, "GPUCKPT_PID=%010d",
		 (int)fake_agent->tasks.v[1]->pid);
	pid = begin_orphan(variable);
	ok(!is_refused(pid, &fds[0]) && link_of(1) && link_of(1)->pid == pid,
	   "a rank's descendant whose parent has ended may use MPI");
	kill(pid, SIGKILL);
	pid = begin_orphan((char *)"GPUCKPT_PID=0000000001");
	ok(is_refused(pid, &fds[1]), "and that of another may not");
	kill(pid, SIGKILL);
	close(fds[0]);
	close(fds[1]);
	fake_turn();
	threads_end();
}

int main(void)
{
	rules();
	pieces();
	items();
	counts();
	does_not_listen();
	no_rank();
	descendants();
	orphans();
	return tap_done();
}

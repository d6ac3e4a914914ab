/* SPDX-License-Identifier: Apache-2.0
 * gck_checkpoint() and gck_checkpoint_all() in a rank, whose agent the test is: what is asked, how
 * often, and what the calls return. */
#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "test/support/shim_agent.h"
#include "test/support/tap.h"

static struct agent agent;
static char *rank_argv[] = { (char *)GCK_TEST_RANK, NULL };
static struct gck_link_hello hello;
static struct rank rank;
static int link_fd;

static void start(void)
{
	rank = agent_run(&agent, NULL, rank_argv, true);
	link_fd = agent_admit(&agent, &hello);
}

static void end(void)
{
	is_int(rank_end(&rank), 0, "the rank ends well");
	close(link_fd);
}

static void tell(const char *line)
{
	dprintf(rank.in, "%s\n", line);
}

/* The next packet is a question: the number of the last call of this kind; 0: it is none. */
static unsigned asked(int asker)
{
	struct gck_link_msg m;

	return agent_receive(link_fd, &m) == GCK_LINK_ASK ? m.ask.asked[asker] : 0;
}

/* Until one has this number: they come again and again. */
static bool asks(int asker, unsigned number)
{
	for (int i = 0; i < 1000; i++)
		if (asked(asker) == number)
			return true;
	return false;
}

static void answer(int asker, unsigned committed, unsigned failed, int code, const char *why)
{
	struct gck_link_msg m = { .type = GCK_LINK_OUTCOME, .outcome = { .asker = (uint32_t)asker,
		.committed = committed, .failed = failed, .code = (uint32_t)code } };

	snprintf(m.outcome.why, sizeof m.outcome.why, "%s", why);
	send(link_fd, &m, offsetof(struct gck_link_msg, outcome) + sizeof m.outcome, MSG_NOSIGNAL);
}

static bool is_quiet(int ms)
{
	char byte;

	pause_ms(ms);
	return recv(link_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void test_one(void)
{
	start();
	tell("one");
	is_int(asked(GCK_ASKER_ONE), 1, "a call asks the agent");
	is_str(rank_line(rank.out, 100), "", "and waits");
	is_int(asked(GCK_ASKER_ONE), 1, "and asks again");
	is_int(agent_call(link_fd, SYS_getuid, 0, 0, 0, 0), getuid(), "the helper does its work");
	answer(GCK_ASKER_ONE, 1, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "committed: 0, and no reason");
	ok(is_quiet(1500), "nothing is asked any more");
	tell("one");
	ok(asks(GCK_ASKER_ONE, 2), "the next call is another");
	answer(GCK_ASKER_ONE, 1, 2, EPERM, "not now");
	is_str(rank_line(rank.out, WAIT_MS), "-1 not now", "given up: errno value and reason");
	tell("one");
	ok(asks(GCK_ASKER_ONE, 3), "a third");
	answer(GCK_ASKER_ONE, 1, 2, EPERM, "not now");
	is_str(rank_line(rank.out, 100), "", "old answers are not its own");
	answer(GCK_ASKER_ONE, 3, 2, EPERM, "not now");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "its own is");
	tell("child");
	ok(strstr(rank_line(rank.out, WAIT_MS), "is no rank"), "a child of the rank's is none");
	end();
}

static void test_threads(void)
{
	const char *line;

	start();
	tell("threads 3");
	ok(asks(GCK_ASKER_ONE, 3), "three threads are three calls");
	answer(GCK_ASKER_ONE, 2, 0, 0, "");
	is_str(rank_line(rank.out, 100), "", "two are answered");
	answer(GCK_ASKER_ONE, 2, 3, ENOSPC, "full");
	line = rank_line(rank.out, WAIT_MS); /* in any order */
	ok(strlen(line) == strlen("0 0 -28 ") && strstr(line, "-28 "),
	   "each has its own answer: %s", line);
	end();
}

static void test_all(void)
{
	start();
	answer(GCK_ASKER_ALL, 2, 0, 0, "");
	is_int(agent_call(link_fd, SYS_getuid, 0, 0, 0, 0), getuid(),
	       "other ranks have called twice");
	is_str(rank_ask(&rank, "all"), "0 ",
	       "a call that all ranks make returns to one that is late");
	is_str(rank_ask(&rank, "all"), "0 ", "each of them");
	ok(is_quiet(100), "without a question");
	tell("all");
	is_int(asked(GCK_ASKER_ALL), 3, "the next asks");
	answer(GCK_ASKER_ONE, 3, 0, 0, "");
	is_str(rank_line(rank.out, 100), "", "the other function's answer is not its own");
	answer(GCK_ASKER_ALL, 3, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "its own is");
	end();
}

/* What a restorer writes into the state (shim/process/threads/thread_restore.c), into a rank that runs. A call
 * that is not in the image had no number when that was taken, and takes one only in the process that
 * comes out of it. */
static void restore(bool in_image, uint32_t all_restored)
{
	struct gck_shim_state s;
	struct iovec here = { &s, sizeof s }, there = { (void *)hello.state, sizeof s };

	process_vm_readv(rank.pid, &here, 1, &there, 1, 0);
	s.restarts++;
	s.all_restored = all_restored;
	if (in_image)
		s.askers[GCK_ASKER_ONE].committed = s.askers[GCK_ASKER_ONE].asked;
	process_vm_writev(rank.pid, &here, 1, &there, 1, 0);
	answer(GCK_ASKER_ONE, 0, 0, 0, ""); /* wakes it */
}

static void test_restarted(void)
{
	start();
	tell("one");
	asks(GCK_ASKER_ONE, 1);
	restore(true, 0);
	is_str(rank_line(rank.out, WAIT_MS), "1 ",
	       "a call in a process that was restored returns so");
	tell("one");
	asks(GCK_ASKER_ONE, 2);
	restore(false, 0);
	is_str(rank_line(rank.out, WAIT_MS), "2 ", "also one that was about to ask");
	while (!is_quiet(0))
		agent_receive(link_fd, &(struct gck_link_msg){ 0 });
	ok(is_quiet(1500), "for which nothing is asked then");
	tell("all");
	ok(asks(GCK_ASKER_ALL, 1), "a call that all ranks make");
	restore(true, 2);
	is_str(rank_line(rank.out, WAIT_MS), "3 ", "does too");
	is_str(rank_ask(&rank, "all"), "3 ",
	       "and one that only other ranks were in when the image was taken");
	tell("all");
	ok(asks(GCK_ASKER_ALL, 3), "the next is a new one");
	answer(GCK_ASKER_ALL, 3, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "as ever");
	tell("one");
	ok(asks(GCK_ASKER_ONE, 3), "and so is one's own");
	answer(GCK_ASKER_ONE, 3, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "as ever");
	end();
}

static void test_exec(void)
{
	start();
	tell("exec");
	link_fd = agent_accept(&agent, WAIT_MS, &hello, NULL);
	send(link_fd, &(struct gck_link_msg){ .type = GCK_LINK_GO, .pid = getpid(), .number = 4 },
	     offsetof(struct gck_link_msg, calls), 0);
	tell("all");
	is_int(asked(GCK_ASKER_ALL), 5, "a program that was executed goes on counting");
	answer(GCK_ASKER_ALL, 5, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "and its call returns");
	end();
}

static void test_agent_dies(void)
{
	start();
	tell("one");
	asks(GCK_ASKER_ONE, 1);
	close(link_fd);
	link_fd = agent_admit(&agent, &hello);
	is_int(asked(GCK_ASKER_ONE), 1, "the agent's successor is asked");
	answer(GCK_ASKER_ONE, 1, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "and answers");
	tell("one");
	asks(GCK_ASKER_ONE, 2);
	close(link_fd);
	close(agent.listener);
	is_str(rank_line(rank.out, 5000), "", "without an agent it waits for one");
	ok(strstr(rank_line(rank.out, 30000), "-107 no agent"), "but not for ever");
	agent_listen(&agent);
	link_fd = agent_admit(&agent, &hello);
	tell("one");
	is_int(asked(GCK_ASKER_ONE), 3, "the next call asks again");
	answer(GCK_ASKER_ONE, 3, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "when there is one");
	end();
}

int main(void)
{
	agent_listen(&agent);
	test_one();
	test_threads();
	test_all();
	test_restarted();
	test_exec();
	test_agent_dies();
	return tap_done();
}

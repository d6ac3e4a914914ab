/* SPDX-License-Identifier: Apache-2.0
 * gck_checkpoint() and gck_checkpoint_all() in a rank, with the test as its agent: the requests
 * that the agent gets, and the results of the calls. */
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
	is_int(rank_end(&rank), 0, "the rank exits with 0");
	close(link_fd);
}

static void rank_do(const char *line)
{
	dprintf(rank.in, "%s\n", line);
}

/* Receives a packet; returns the number of the last call in a request of this kind; 0: it is not a
 * request. */
static unsigned asked(int kind)
{
	struct gck_link_msg m;

	return agent_receive(link_fd, &m) == GCK_LINK_ASK ? m.ask.asked[kind] : 0;
}

/* Waits for a request with this number; requests are repeated. */
static bool asks(int kind, unsigned number)
{
	for (int i = 0; i < 1000; i++)
		if (asked(kind) == number)
			return true;
	return false;
}

static void answer(int kind, unsigned committed, unsigned failed, int code, const char *why)
{
	struct gck_link_msg m = { .type = GCK_LINK_OUTCOME, .outcome = { .kind = (uint32_t)kind,
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
	rank_do("one");
	is_int(asked(GCK_REQUEST_ONE), 1, "a call sends a request to the agent");
	is_str(rank_line(rank.out, 100), "", "the call waits");
	is_int(asked(GCK_REQUEST_ONE), 1, "the request is repeated");
	is_int(agent_call(link_fd, SYS_getuid, 0, 0, 0, 0), getuid(),
	       "the helper works during the call");
	answer(GCK_REQUEST_ONE, 1, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "a committed checkpoint returns 0, no reason");
	ok(is_quiet(1500), "no further request after the result");
	rank_do("one");
	ok(asks(GCK_REQUEST_ONE, 2), "the next call has the next number");
	answer(GCK_REQUEST_ONE, 1, 2, EPERM, "not now");
	is_str(rank_line(rank.out, WAIT_MS), "-1 not now",
	       "a failed checkpoint returns errno value and reason");
	rank_do("one");
	ok(asks(GCK_REQUEST_ONE, 3), "a call after a failure sends a request");
	answer(GCK_REQUEST_ONE, 1, 2, EPERM, "not now");
	is_str(rank_line(rank.out, 100), "", "a call ignores results of earlier calls");
	answer(GCK_REQUEST_ONE, 3, 2, EPERM, "not now");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "a call after a failure returns its own result");
	rank_do("child");
	ok(strstr(rank_line(rank.out, WAIT_MS), "is not a rank"),
	   "a child of a rank is not a rank");
	end();
}

static void test_threads(void)
{
	const char *line;

	start();
	rank_do("threads 3");
	ok(asks(GCK_REQUEST_ONE, 3), "calls of three threads are three calls");
	answer(GCK_REQUEST_ONE, 2, 0, 0, "");
	is_str(rank_line(rank.out, 100), "", "the third waits when two have a result");
	answer(GCK_REQUEST_ONE, 2, 3, ENOSPC, "full");
	line = rank_line(rank.out, WAIT_MS); /* in any order */
	ok(strlen(line) == strlen("0 0 -28 ") && strstr(line, "-28 "),
	   "each thread has its own result: %s", line);
	end();
}

static void test_all(void)
{
	start();
	answer(GCK_REQUEST_ALL, 2, 0, 0, "");
	is_int(agent_call(link_fd, SYS_getuid, 0, 0, 0, 0), getuid(),
	       "the helper works after other ranks have called twice");
	is_str(rank_ask(&rank, "all"), "0 ", "a late call of all ranks returns at once");
	is_str(rank_ask(&rank, "all"), "0 ", "a second late call returns at once");
	ok(is_quiet(100), "late calls send no request");
	rank_do("all");
	is_int(asked(GCK_REQUEST_ALL), 3, "a call that is the first of its number sends a request");
	answer(GCK_REQUEST_ONE, 3, 0, 0, "");
	is_str(rank_line(rank.out, 100), "", "a call ignores results for the other function");
	answer(GCK_REQUEST_ALL, 3, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "a call of all ranks returns its result");
	end();
}

/* Writes into a running rank what a restorer writes (shim/process/threads/thread_restore.c). A call
 * that is not in the image had no number when the image was taken; it gets one only in the restored
 * process. */
static void restore(bool in_image, uint32_t all_restored)
{
	struct gck_shim_state s;
	struct iovec here = { &s, sizeof s }, there = { (void *)hello.state, sizeof s };

	process_vm_readv(rank.pid, &here, 1, &there, 1, 0);
	s.restarts++;
	s.all_restored = all_restored;
	if (in_image)
		s.requests[GCK_REQUEST_ONE].committed = s.requests[GCK_REQUEST_ONE].asked;
	process_vm_writev(rank.pid, &here, 1, &there, 1, 0);
	answer(GCK_REQUEST_ONE, 0, 0, 0, ""); /* wakes it */
}

static void test_restarted(void)
{
	start();
	rank_do("one");
	asks(GCK_REQUEST_ONE, 1);
	restore(true, 0);
	is_str(rank_line(rank.out, WAIT_MS), "1 ",
	       "a restored call returns the number of restarts");
	rank_do("one");
	asks(GCK_REQUEST_ONE, 2);
	restore(false, 0);
	is_str(rank_line(rank.out, WAIT_MS), "2 ",
	       "a restored call that had no number yet returns the number of restarts");
	while (!is_quiet(0))
		agent_receive(link_fd, &(struct gck_link_msg){ 0 });
	ok(is_quiet(1500), "a restored call sends no further request");
	rank_do("all");
	ok(asks(GCK_REQUEST_ALL, 1), "a call of all ranks sends a request after restarts");
	restore(true, 2);
	is_str(rank_line(rank.out, WAIT_MS), "3 ",
	       "a restored call of all ranks returns the number of restarts");
	is_str(rank_ask(&rank, "all"), "3 ",
	       "so does one that only other ranks had made when the image was taken");
	rank_do("all");
	ok(asks(GCK_REQUEST_ALL, 3), "the next call of all ranks has a new number");
	answer(GCK_REQUEST_ALL, 3, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "the next call of all ranks returns its result");
	rank_do("one");
	ok(asks(GCK_REQUEST_ONE, 3), "the next call of this rank alone has a new number");
	answer(GCK_REQUEST_ONE, 3, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "the next call of this rank returns its result");
	end();
}

static void test_exec(void)
{
	start();
	rank_do("exec");
	link_fd = agent_accept(&agent, WAIT_MS, &hello, NULL);
	send(link_fd, &(struct gck_link_msg){ .type = GCK_LINK_GO, .pid = getpid(), .number = 4 },
	     offsetof(struct gck_link_msg, calls), 0);
	rank_do("all");
	is_int(asked(GCK_REQUEST_ALL), 5, "numbers of calls continue after exec");
	answer(GCK_REQUEST_ALL, 5, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "a call after exec returns its result");
	end();
}

static void test_agent_dies(void)
{
	start();
	rank_do("one");
	asks(GCK_REQUEST_ONE, 1);
	close(link_fd);
	link_fd = agent_admit(&agent, &hello);
	is_int(asked(GCK_REQUEST_ONE), 1, "a new agent gets the request again");
	answer(GCK_REQUEST_ONE, 1, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "the call returns the new agent's result");
	rank_do("one");
	asks(GCK_REQUEST_ONE, 2);
	close(link_fd);
	close(agent.listener);
	is_str(rank_line(rank.out, 5000), "", "a call without an agent waits for one");
	ok(strstr(rank_line(rank.out, 30000), "-107 no agent"),
	   "the wait for an agent has a limit");
	agent_listen(&agent);
	link_fd = agent_admit(&agent, &hello);
	rank_do("one");
	is_int(asked(GCK_REQUEST_ONE), 3, "the next call sends a request to the next agent");
	answer(GCK_REQUEST_ONE, 3, 0, 0, "");
	is_str(rank_line(rank.out, WAIT_MS), "0 ", "the next call returns the next agent's result");
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

/* SPDX-License-Identifier: Apache-2.0
 * preload_run PROGRAM [ARGUMENT...]: run a program as a rank, clone it every few milliseconds, and
 * exit with its exit status. The number of clones goes to standard error. */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/support/shim_agent.h"

#define MAX_THREADS 1024

/* One clone of the frozen rank, from making to reaping. Not 0: the link has ended. */
static int clone_once(pid_t pid, pid_t helper, int link)
{
	struct gck_link_msg m;
	pid_t tids[MAX_THREADS];
	int life = -1;
	int n = agent_freeze(pid, helper, tids, MAX_THREADS);
	int clone = agent_clone(link, &life);
	bool good = clone > 0 && agent_frozen(life);

	agent_thaw(tids, n);
	close(life);
	if (!good)
		return -1;
	agent_send(link, GCK_LINK_REAP, clone);
	return agent_receive(link, &m) == GCK_LINK_REAPED && m.pid == clone ? 0 : -1;
}

static pid_t helper_of(pid_t pid, int link, const struct gck_link_hello *h)
{
	pid_t tid = 0;

	if (agent_call(link, SYS_gettid, 0, 0, 0, 0) > 0)
		agent_peek(pid, h->state + offsetof(struct gck_shim_state, helper_tid), &tid,
			   sizeof tid);
	return tid;
}

int main(int argc, char **argv)
{
	struct agent a = { .name = "" };
	struct gck_link_hello h;
	struct rank r;
	pid_t helper = 0;
	int clones = 0, status = 0, link = -1;

	if (argc < 2)
		return 2;
	agent_listen(&a);
	r = agent_run(&a, NULL, argv + 1, false);
	while (waitpid(r.pid, &status, WNOHANG) == 0) {
		int fresh = agent_accept(&a, 5, &h, NULL);

		if (fresh >= 0) {
			close(link);
			agent_send(link = fresh, GCK_LINK_GO, getpid());
			helper = helper_of(r.pid, link, &h);
		}
		if (link >= 0 && helper && clone_once(r.pid, helper, link) == 0)
			clones++;
		else
			helper = 0;
	}
	fprintf(stderr, "clones: %d\n", clones);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

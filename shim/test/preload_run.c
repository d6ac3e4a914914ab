/* SPDX-License-Identifier: Apache-2.0
 * preload_run PROGRAM [ARGUMENT...]: run a program as a rank, make a clone of it every 20 ms, and
 * end with its exit status; the number of clones goes to standard error. */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/test/preload_agent.h"

/* One clone, from making to reaping. Not 0: the link has ended. */
static int clone_once(int link)
{
	struct gck_link_msg m;
	int life;
	int pid = agent_clone(link, &life);
	bool good = pid > 0 && agent_frozen(life);

	close(life);
	if (!good)
		return -1;
	agent_send(link, GCK_LINK_REAP, pid);
	return agent_receive(link, &m) == GCK_LINK_REAPED && m.pid == pid ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct agent a = { .name = "" };
	struct gck_link_hello h;
	struct rank r;
	int clones = 0, status = 0, link = -1;

	if (argc < 2)
		return 2;
	agent_listen(&a);
	r = agent_run(&a, NULL, argv + 1, false);
	while (waitpid(r.pid, &status, WNOHANG) == 0) {
		int fresh = agent_accept(&a, 20, &h, NULL);

		if (fresh >= 0) {
			close(link);
			agent_send(link = fresh, GCK_LINK_GO, getpid());
		}
		if (link >= 0 && clone_once(link) == 0)
			clones++;
	}
	fprintf(stderr, "clones: %d\n", clones);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

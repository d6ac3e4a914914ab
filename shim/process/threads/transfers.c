/* SPDX-License-Identifier: Apache-2.0
 * The moment to freeze a rank. A thread that is stopped in the middle of a long write to a full
 * pipe or socket, or of a receive that waits for a full buffer, returns early with a part of the
 * bytes. The same happens after any stop signal, but not every program checks for it. Such calls
 * mostly end soon, so the freeze waits for them briefly. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "shim/process/proc/procfs.h"
#include "shim/process/threads/threads.h"

#define LOOKS 30
#define LOOK_NS 1000000
#define MOMENT_NS 100000

struct call {
	long nr;
	unsigned long long args[6];
};

/* The descriptor argument of a call that moves bytes and may return after a part of them; else
 * -1. */
static int partial(const struct call *c)
{
	switch (c->nr) {
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_vmsplice:
	case SYS_sendfile:
		return 0;
	case SYS_splice:
		return 2;
	case SYS_recvfrom:
		return c->args[3] & MSG_WAITALL ? 0 : -1;
	case SYS_recvmsg:
		return c->args[2] & MSG_WAITALL ? 0 : -1;
	case SYS_recvmmsg:
		return 0;
	default:
		return -1;
	}
}

static bool is_stream(const struct gck_target *t, unsigned long long fd)
{
	char name[32], *link;
	bool stream;

	snprintf(name, sizeof(name), "fd/%d", (int)fd);
	link = gck_proc_link(t->proc, name, NULL);
	stream = link && (!strncmp(link, "pipe:", 5) || !strncmp(link, "socket:", 7) ||
			  !strncmp(link, "/dev/pts/", 9));
	free(link);
	return stream;
}

enum state {
	RESTS,   /* blocked in another call */
	RUNS,    /* a running thread shows no call, and may be in the middle of such a one */
	MOVES,   /* blocked in such a call */
};

static enum state state_of(const struct gck_target *t, pid_t tid)
{
	char file[48], *text;
	struct call c = {.nr = -1};
	int at = -1;
	bool runs;

	snprintf(file, sizeof(file), "task/%d/syscall", (int)tid);
	text = gck_proc_read(t->proc, file, NULL, NULL);
	runs = text && !strncmp(text, "running", 7);
	if (text && sscanf(text, "%ld %llx %llx %llx %llx %llx %llx", &c.nr, &c.args[0], &c.args[1],
			   &c.args[2], &c.args[3], &c.args[4], &c.args[5]) == 7)
		at = partial(&c);
	free(text);
	return at >= 0 && is_stream(t, c.args[at]) ? MOVES : runs ? RUNS : RESTS;
}

/* The most that any thread does. */
static enum state state_of_all(const struct gck_target *t)
{
	enum state all = RESTS;
	int *tids;
	size_t n;

	if (gck_proc_list(t->proc, "task", &tids, &n, NULL))
		return RESTS;
	for (size_t i = 0; i < n && all != MOVES; i++) {
		enum state one = tids[i] == t->shim->helper_tid ? RESTS : state_of(t, tids[i]);

		all = one > all ? one : all;
	}
	free(tids);
	return all;
}

void gck_threads_wait_transfers(const struct gck_target *t)
{
	struct timespec pause = {.tv_nsec = LOOK_NS}, moment = {.tv_nsec = MOMENT_NS};

	for (int i = 0; i < LOOKS; i++) {
		enum state all = state_of_all(t);

		if (all == RUNS) {
			nanosleep(&moment, NULL);
			all = state_of_all(t);
		}
		if (all != MOVES)
			return;
		nanosleep(&pause, NULL);
	}
}

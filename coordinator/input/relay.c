/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt-input: hands the standard input of one task on, from slurmstepd's pipe to the task's, and
 * counts the bytes.
 *
 * After a restart slurmstepd feeds the input again from its first byte, so the image must hold how
 * much of it the rank has consumed. No kernel object counts the bytes of a pipe, and counting the
 * reads in the preload would miss what other programs and libraries read. Whoever hands the bytes
 * on can count them: consumed is what was handed on, less what lies in the task's pipe. Both are
 * positions in the input since its first byte, over all restarts.
 *
 * The relay is a process of its own, which needs neither agent nor slurmstepd's memory, so that the
 * death of the agent does not end the input. It holds no data: splice(2) moves it from pipe to pipe
 * in one call. So it reads at most one pipe ahead, and end of input, and a task that closes its
 * input, reach the other side as they would without it. All signals are ignored, since Slurm sends
 * some to all processes of a step. It ends with the readers of the task's pipe, or once the input
 * has ended, with the task. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/input_relay.h"

#define MOST (1 << 20) /* bytes of one call */

struct relay {
	const char *task;    /* its PID */
	uint64_t taken;      /* from the source: handed on, or discarded */
	uint64_t skip;       /* bytes still to be discarded */
	int client, null;
	bool full;           /* the sink has no space */
	bool ended, gone;    /* the source has ended; the task has */
};

/* ---- questions ------------------------------------------------------------------------------ */

/* A new client takes the place of one that asks nothing more. */
static void admit(struct relay *r)
{
	int fd = accept4(GCK_INPUT_LISTENER, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t n = sizeof peer;

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) || peer.uid != geteuid()) {
		close(fd);
		return;
	}
	if (r->client >= 0)
		close(r->client);
	r->client = fd;
}

static void answer(struct relay *r)
{
	struct gck_input_message m;

	if (recv(r->client, &m, sizeof m, 0) == sizeof m) {
		if (m.op == GCK_INPUT_SKIP && m.bytes > r->taken) {
			r->skip = m.bytes - r->taken;
			r->full = false;
		}
		m.bytes = r->taken;
		m.ended = r->ended;
		if (send(r->client, &m, sizeof m, MSG_NOSIGNAL) == sizeof m)
			return;
	}
	close(r->client);
	r->client = -1;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* The new input is not the one that the task had read: it would compute something else. */
static void refuse_shorter(const struct relay *r)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof path, "/proc/%s/fd/2", r->task);
	fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
		dprintf(fd, "gpuckpt: standard input ended after %llu bytes, and %llu had been "
			"read of it before the restart: the task is killed; start the step with "
			"the same input\n", (unsigned long long)r->taken,
			(unsigned long long)(r->taken + r->skip));
	syscall(SYS_pidfd_send_signal, GCK_INPUT_TASK, SIGKILL, NULL, 0);
}

static void end(struct relay *r)
{
	r->ended = true;
	close(GCK_INPUT_SOURCE);
	close(GCK_INPUT_SINK);
	if (r->skip)
		refuse_shorter(r);
}

/* Hand on or discard what there is. false: the task's pipe has no readers. */
static bool move(struct relay *r)
{
	size_t most = r->skip && r->skip < MOST ? (size_t)r->skip : MOST;
	ssize_t n = splice(GCK_INPUT_SOURCE, NULL, r->skip ? r->null : GCK_INPUT_SINK, NULL, most,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0) {
		r->taken += (uint64_t)n;
		r->skip -= r->skip ? (uint64_t)n : 0;
	} else if (n == 0) {
		end(r);
	} else {
		r->full = errno == EAGAIN && !r->skip;
	}
	return n >= 0 || errno == EAGAIN || errno == EINTR;
}

/* ---- main ----------------------------------------------------------------------------------- */

/* Whether anything may still be read or asked. Input that never had a byte has no position. */
static bool is_needed(const struct relay *r)
{
	return !r->ended || (r->taken && !r->gone);
}

/* While the sink is full the source is not watched: it could be ready all the time. */
static bool wait_for_work(struct relay *r)
{
	struct pollfd p[] = {
		{ .fd = r->ended || r->full ? -1 : GCK_INPUT_SOURCE, .events = POLLIN },
		{ .fd = r->ended ? -1 : GCK_INPUT_SINK, .events = r->full ? POLLOUT : 0 },
		{ .fd = r->gone ? -1 : GCK_INPUT_TASK, .events = POLLIN },
		{ .fd = GCK_INPUT_LISTENER, .events = POLLIN },
		{ .fd = r->client, .events = POLLIN },
	};

	if (poll(p, sizeof p / sizeof *p, -1) < 0)
		return errno == EINTR;
	if (p[1].revents & POLLERR) /* it has no readers */
		return false;
	r->gone = r->gone || p[2].revents;
	r->full = r->full && !p[1].revents;
	if (p[4].revents)
		answer(r);
	if (p[3].revents)
		admit(r);
	return !p[0].revents || move(r);
}

int main(int argc, char *argv[])
{
	struct relay r = { .task = argc > 1 ? argv[1] : "self", .client = -1 };

	r.null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	while (is_needed(&r) && wait_for_work(&r))
		;
	return 0;
}

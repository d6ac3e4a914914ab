/* SPDX-License-Identifier: Apache-2.0
 * A stub of the agent: it sends what it found at its start over its control socket, one line a
 * packet, and "end" when it gets END. It reports REPORT of its environment; without REPORT it ends
 * without a report. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/control.h"

extern char **environ;

__attribute__((format(printf, 1, 2)))
static void tell(const char *fmt, ...)
{
	char line[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	if (send(GCK_AGENT_CONTROL_FD, line, (size_t)n, MSG_NOSIGNAL) < 0)
		exit(1);
}

static void tell_fds(void)
{
	char fds[128] = "";
	size_t n = 0;

	for (int fd = 0; fd < 1024 && n < sizeof fds - 8; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			n += (size_t)snprintf(fds + n, sizeof fds - n, " %d", fd);
	tell("fds%s", fds);
}

static void tell_signals(void)
{
	int special = 0, blocked = 0;
	struct sigaction sa;
	sigset_t mask;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (int s = 1; s < NSIG; s++) {
		blocked += sigismember(&mask, s) == 1;
		special += sigaction(s, NULL, &sa) == 0 && sa.sa_handler != SIG_DFL;
	}
	tell("signals %d ignored or caught, %d blocked", special, blocked);
}

int main(int argc, char *argv[])
{
	struct gck_control m;
	char cwd[64];
	mode_t mask = umask(0);
	const char *word = getenv("REPORT");

	if (!word)
		return 1;
	tell_fds();
	dprintf(GCK_AGENT_REPORT_FD, "%s\n", word);
	close(GCK_AGENT_REPORT_FD);
	tell_signals();
	tell("session %s, umask %03o, cwd %s", getsid(0) == getpgrp() ? "own" : "inherited",
	     (unsigned)mask, getcwd(cwd, sizeof cwd) ? cwd : "?");
	tell("arguments %d: %s %s %s", argc, argv[0], argv[1], argv[2]);
	tell("environment %s%s", environ[0], environ[1] ? " and more" : "");
	while (recv(GCK_AGENT_CONTROL_FD, &m, sizeof m, 0) == sizeof m) {
		if (m.type == GCK_CONTROL_END)
			return 0;
		tell("task %u of type %u, pid %d, status %d", m.rank, m.type, m.pid, m.status);
	}
	return 1;
}

/* SPDX-License-Identifier: Apache-2.0
 * What waits in a pseudo-terminal. The kernel shows no more than the number of its bytes, so it is
 * read and put back, by settings that change no byte. Input in canonical mode is kept with marks:
 * END after a line that ends with no newline of its own, QUOTE before a byte that would be taken
 * for a mark or an end. What is put back is echoed, which tells when it has arrived; until then the
 * settings must stay. */
#include "config.h"

#include <asm/termbits.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/terminal/terminal.h"

#define QUOTE 22 /* ^V */
#define END 4    /* ^D */
#define WAIT_MS 5000
#define PIECE 128
#define STACK 65536
#define MOST_OUTPUT 65536

static struct termios2 settings_of(const struct gck_terminal *t)
{
	struct termios2 s;

	_Static_assert(sizeof s == sizeof t->settings, "the kernel's termios2");
	memcpy(&s, t->settings, sizeof s);
	return s;
}

static bool is_canonical(const struct termios2 *s)
{
	return s->c_lflag & ICANON && !(s->c_lflag & EXTPROC);
}

/* Change no byte. A terminal that has IXON keeps it: without, the kernel lets its output go on. */
static struct termios2 plain(const struct termios2 *s)
{
	struct termios2 x = *s;

	x.c_iflag &= IXON;
	x.c_oflag &= ~(tcflag_t)OPOST;
	x.c_lflag &= ~(tcflag_t)(ISIG | ECHO | ECHOE | ECHOK | ECHONL | ECHOCTL | ECHOKE | ECHOPRT |
				 IEXTEN | EXTPROC | NOFLSH);
	memset(x.c_cc, 0, sizeof x.c_cc);
	x.c_cc[VMIN] = 1;
	return x;
}

static bool ready(int fd, short what, int wait_ms)
{
	struct pollfd p = {.fd = fd, .events = what};

	return poll(&p, 1, wait_ms) == 1 && p.revents & what;
}

/* ---- putting ------------------------------------------------------------------------------- */

/* Take what is echoed. */
static int take_echo(int master, size_t n)
{
	char echo[PIECE];

	while (n) {
		ssize_t got = ready(master, POLLIN, WAIT_MS)
				      ? read(master, echo, n < PIECE ? n : PIECE) : -1;

		if (got <= 0)
			return errno = ETIMEDOUT, -1;
		n -= (size_t)got;
	}
	return 0;
}

static int write_all(int fd, const unsigned char *data, size_t n)
{
	while (n) {
		ssize_t put = ready(fd, POLLOUT, WAIT_MS) ? write(fd, data, n) : -1;

		if (put < 0 && errno != EAGAIN)
			return -1;
		if (put > 0) {
			data += put;
			n -= (size_t)put;
		}
	}
	return 0;
}

/* The bytes of the next piece of marked input; *echoed: how many the terminal shows. */
static size_t next_piece(const struct gck_terminal *t, bool marked, size_t at, size_t *echoed)
{
	size_t n = 0;

	*echoed = 0;
	while (at + n < t->input_size && n < PIECE - 1) {
		unsigned char c = t->input[at + n];

		n += marked && c == QUOTE ? 2 : 1;
		*echoed += !marked || c != END;
	}
	return n;
}

static int put_input(int master, const struct gck_terminal *t, bool marked)
{
	size_t n, echoed;

	for (size_t at = 0; at < t->input_size; at += n) {
		n = next_piece(t, marked, at, &echoed);
		if (write_all(master, t->input + at, n) || take_echo(master, echoed))
			return -1;
	}
	return 0;
}

int gck_terminal_put(int master, int peer, const struct gck_terminal *t)
{
	struct termios2 last = settings_of(t), now = plain(&last);
	int packets = t->packets, off = 0;

	now.c_lflag |= ECHO;
	if (is_canonical(&last)) {
		now.c_lflag |= IEXTEN;
		now.c_cc[VEOF] = END;
		now.c_cc[VLNEXT] = QUOTE;
	}
	return ioctl(master, TIOCPKT, &off) || ioctl(master, TCSETS2, &now) ||
	       put_input(master, t, is_canonical(&last)) ||
	       write_all(peer, t->output, t->output_size) || ioctl(master, TCSETS2, &last) ||
	       ioctl(master, TIOCPKT, &packets) ? -1 : 0;
}

/* ---- taking -------------------------------------------------------------------------------- */

/* Append a line, or the part of one. */
static bool add(struct gck_terminal *t, const unsigned char *data, size_t n, bool marked,
		bool ended)
{
	for (size_t i = 0; i < n; i++) {
		bool end = ended && i + 1 == n && data[i] == '\n';

		if (t->input_size + 3 > (size_t)3 * GCK_TERMINAL_WAITS)
			return false;
		if (marked && !end && (data[i] == '\n' || data[i] == QUOTE || data[i] == END))
			t->input[t->input_size++] = QUOTE;
		t->input[t->input_size++] = data[i];
	}
	if (ended && (!n || data[n - 1] != '\n'))
		t->input[t->input_size++] = END;
	return true;
}

/* As the terminal is set now: whole lines, or what is there. 0: nothing is left. */
static int take_input(int peer, struct gck_terminal *t, bool marked, bool lines)
{
	static unsigned char data[2 * GCK_TERMINAL_WAITS];
	bool fits = true;
	ssize_t n;

	while ((n = read(peer, data, sizeof data)) > 0 || (lines && n == 0))
		fits &= add(t, data, (size_t)n, marked, lines);
	return fits && errno == EAGAIN ? 0 : -1;
}

static int take_output(int master, struct gck_terminal *t)
{
	while (t->output_size < MOST_OUTPUT && ready(master, POLLIN, 0)) {
		ssize_t n = read(master, t->output + t->output_size, MOST_OUTPUT - t->output_size);

		if (n <= 0)
			return n < 0 && errno != EIO ? -1 : 0;
		t->output_size += (size_t)n;
	}
	return 0;
}

static int take(int master, int peer, struct gck_terminal *t)
{
	struct termios2 s = settings_of(t), raw = plain(&s);
	bool marked = is_canonical(&s);
	int off = 0;

	raw.c_lflag &= ~(tcflag_t)ICANON;
	return ioctl(master, TIOCPKT, &off) || (marked && take_input(peer, t, true, true)) ||
	       ioctl(master, TCSETS2, &raw) || take_input(peer, t, marked, false) ||
	       take_output(master, t) ? -1 : 0;
}

struct copying {
	int master, peer;
	struct gck_terminal *t;
	int failed;
};

/* What was read is put back in any case. */
static int copy(void *arg)
{
	struct copying *c = arg;
	int failed = take(c->master, c->peer, c->t) ? errno : 0;

	if (gck_terminal_put(c->master, c->peer, c->t) && !failed)
		failed = errno;
	c->failed = failed;
	return 0;
}

/* Another process does it, which shares this one's memory, and ends by itself. */
static int run(struct copying *c)
{
	char *stack = malloc(STACK);
	pid_t pid = stack ? clone(copy, stack + STACK, CLONE_VM | CLONE_FILES | SIGCHLD, c) : -1;
	int failed = pid < 0 ? errno : 0;

	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(stack);
	return failed ? failed : c->failed;
}

int gck_terminal_copy(int master, int peer, struct gck_terminal *t, struct gck_error *err)
{
	struct copying c = {.master = master, .peer = peer, .t = t, .failed = ECANCELED};
	int failed;

	if (!ready(master, POLLOUT, 0) || !ready(peer, POLLOUT, 0) || ready(master, POLLPRI, 0))
		return gck_fail(err, EAGAIN, "a pseudo-terminal is stopped or full: let it go on "
				"(Ctrl-Q), or read it, or try again");
	t->input = malloc(3 * GCK_TERMINAL_WAITS + 1);
	t->output = malloc(MOST_OUTPUT);
	failed = t->input && t->output ? run(&c) : ENOMEM;
	if (failed)
		return gck_fail(err, EAGAIN, "what waits in a pseudo-terminal cannot be copied: "
				"%s; read it, or try again", strerror(failed));
	return 0;
}

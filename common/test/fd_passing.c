/* SPDX-License-Identifier: Apache-2.0
 * Passed descriptors: order, number, and no further open descriptors. */
#define _GNU_SOURCE
#include "common/base/fd_passing.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/support/tap.h"

static int pair[2], pipes[GCK_FDS_MAX][2];

static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Does a byte that is written to one end arrive at the other? */
static bool is_of(int fd, int reader)
{
	char c = 0;

	return write(fd, "x", 1) == 1 && read(reader, &c, 1) == 1 && c == 'x';
}

static void test_passed(size_t n, size_t capacity)
{
	int out[GCK_FDS_MAX], in[GCK_FDS_MAX + 1], before = open_files();
	size_t many = capacity;
	char text[16] = "";
	bool right = true;

	for (size_t i = 0; i < n; i++)
		out[i] = pipes[i][1];
	ok(all_of(gck_fd_send(pair[0], "hello", 5, out, n, 0) == 5,
		  gck_fd_receive(pair[1], text, sizeof text, in, &many, 0) == 5,
		  !strcmp(text, "hello")), "a packet with %zu descriptors and a capacity of %zu", n,
	   capacity);
	is_int((long long)many, (long long)(n < capacity ? n : capacity),
	       "descriptors that arrive");
	for (size_t i = 0; i < many; i++)
		right &= is_of(in[i], pipes[i][0]) && fcntl(in[i], F_GETFD) == FD_CLOEXEC;
	ok(right, "in order, close-on-exec");
	for (size_t i = 0; i < many; i++)
		close(in[i]);
	is_int(open_files(), before, "and no others are open");
}

int main(void)
{
	int fd = -1;
	size_t n = 1;
	char c;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return 99;
	for (int i = 0; i < GCK_FDS_MAX; i++)
		if (pipe2(pipes[i], O_CLOEXEC | O_NONBLOCK))
			return 99;
	for (size_t i = 0; i <= GCK_FDS_MAX; i++)
		for (size_t k = 0; k <= GCK_FDS_MAX; k++)
			test_passed(i, k);
	ok(all_of(gck_fd_receive(pair[1], &c, 1, &fd, &n, MSG_DONTWAIT) < 0, errno == EAGAIN,
		  n == 0, fd == -1), "without a packet no descriptor arrives");
	close(pair[1]);
	ok(all_of(gck_fd_send(pair[0], "x", 1, pipes[0], 1, 0) < 0, errno == EPIPE),
	   "a closed peer: an error, no signal");
	n = 1;
	ok(all_of(gck_fd_receive(pair[0], &c, 1, &fd, &n, 0) == 0, n == 0), "and end of file");
	return tap_done();
}

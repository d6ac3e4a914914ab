/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/keep.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/cuda/thread.h"
#include "shim/inside/descriptor.h"

static struct {
	int fd;
	uint64_t cookie;
} ends[2] = {{-1, 0}, {-1, 0}}; /* written, read */

static bool is_ours(int i)
{
	return ends[i].fd >= 0 && gck_inside_cookie(ends[i].fd) == ends[i].cookie;
}

/* Where the program has closed one, what it kept is lost; what comes is kept by a new pair. */
static int begin(void)
{
	int pair[2];

	if (is_ours(0) && is_ours(1))
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	for (int i = 0; i < 2; i++) {
		if (is_ours(i))
			close(ends[i].fd);
		ends[i].fd = gck_cuda_state.kept_fd[i] = gck_inside_move_away(pair[i]);
		ends[i].cookie = gck_inside_cookie(ends[i].fd);
	}
	return 0;
}

static int put(uint64_t number, int fd)
{
	struct iovec v = {&number, sizeof number};
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.h = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control,
			   .msg_controllen = sizeof control};

	memcpy(CMSG_DATA(&control.h), &fd, sizeof fd);
	return sendmsg(ends[0].fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

static int take(uint64_t *number)
{
	struct iovec v = {number, sizeof *number};
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control,
			   .msg_controllen = sizeof control};
	int fd;

	if (recvmsg(ends[1].fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *number ||
	    !CMSG_FIRSTHDR(&m))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
	return fd;
}

int gck_cuda_keep(uint64_t number, int fd)
{
	int rc = begin() || put(number, fd) ? -1 : 0, why = errno;

	close(fd);
	errno = why;
	return rc;
}

/* They go round; most often they are wanted in the order in which they were sent. The one that is
 * looked for stays out if it is to go. */
static int look(uint64_t wanted, bool stay)
{
	uint64_t number, first = 0;
	int fd;

	while (is_ours(0) && is_ours(1) && (fd = take(&number)) >= 0) {
		bool found = number == wanted;

		if ((!found || stay) && put(number, fd)) {
			close(fd);
			return -1;
		}
		if (found)
			return fd;
		close(fd);
		if (number == first)
			break;
		first = first ? first : number;
	}
	return -1;
}

int gck_cuda_keep_get(uint64_t number)
{
	return look(number, true);
}

void gck_cuda_keep_drop(uint64_t number)
{
	int fd = look(number, false);

	if (fd >= 0)
		close(fd);
}

void gck_cuda_keep_forget(void)
{
	ends[0].fd = ends[1].fd = -1;
	gck_cuda_state.kept_fd[0] = gck_cuda_state.kept_fd[1] = -1;
}

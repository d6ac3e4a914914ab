/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/cuda/thread.h"

#define OUT_OF_THE_WAY 1000 /* the numbers of the sockets, where RLIMIT_NOFILE allows it */

static int ends[2] = {-1, -1}; /* written, read */

static int move_away(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);

	if (high < 0)
		return fd;
	close(fd);
	return high;
}

static int begin(void)
{
	if (ends[0] >= 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -1;
	for (int i = 0; i < 2; i++)
		gck_cuda_state.kept_fd[i] = ends[i] = move_away(ends[i]);
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
	return sendmsg(ends[0], &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
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

	if (recvmsg(ends[1], &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *number ||
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

	while (ends[0] >= 0 && (fd = take(&number)) >= 0) {
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
	ends[0] = ends[1] = -1;
	gck_cuda_state.kept_fd[0] = gck_cuda_state.kept_fd[1] = -1;
}

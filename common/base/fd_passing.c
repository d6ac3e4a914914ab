/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/fd_passing.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(GCK_FDS_MAX * sizeof(int))];
};

ssize_t gck_fd_send(int socket, const void *data, size_t size, const int *fds, size_t n, int flags)
{
	union control control = {.head = {CMSG_LEN(n * sizeof *fds), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec v = {(void *)(uintptr_t)data, size};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

	if (n) {
		memcpy(CMSG_DATA(&control.head), fds, n * sizeof *fds);
		m.msg_control = &control;
		m.msg_controllen = control.head.cmsg_len;
	}
	return sendmsg(socket, &m, flags | MSG_NOSIGNAL);
}

/* The control length excludes the padding of CMSG_SPACE, which could hold one more descriptor. */
ssize_t gck_fd_receive(int socket, void *data, size_t size, int *fds, size_t *n, int flags)
{
	union control control;
	struct iovec v = {data, size};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control,
			   .msg_controllen = CMSG_LEN(*n * sizeof *fds)};
	ssize_t got = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&m);

	*n = 0;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		*n = (c->cmsg_len - CMSG_LEN(0)) / sizeof *fds;
		memcpy(fds, CMSG_DATA(c), *n * sizeof *fds);
	}
	return got;
}

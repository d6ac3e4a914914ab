/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "common/base/input_relay.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_S 5 /* a relay only answers late if it is stopped */

socklen_t gck_input_address(uint64_t inode, struct sockaddr_un *a)
{
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
	       (socklen_t)snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "gpuckpt-input-%llu",
				   (unsigned long long)inode);
}

static int ask(int fd, uint64_t inode, struct gck_input_message *m)
{
	struct timeval limit = { .tv_sec = ANSWER_S };
	struct sockaddr_un a;
	struct ucred peer;
	socklen_t n = sizeof peer, length = gck_input_address(inode, &a);

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) ||
	    connect(fd, (struct sockaddr *)&a, length) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n))
		return -1;
	if (peer.uid != geteuid())
		return errno = EPERM, -1;
	if (send(fd, m, sizeof *m, MSG_NOSIGNAL) != sizeof *m)
		return -1;
	if (recv(fd, m, sizeof *m, 0) != sizeof *m)
		return errno = errno ? errno : ECONNRESET, -1;
	return 0;
}

int gck_input_ask(uint64_t inode, struct gck_input_message *m)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), rc, saved;

	if (fd < 0)
		return -1;
	errno = 0;
	rc = ask(fd, inode, m);
	saved = errno;
	close(fd);
	errno = saved;
	return rc;
}

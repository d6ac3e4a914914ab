/* SPDX-License-Identifier: Apache-2.0
 * Asking sock_diag(7) for one unix socket. */
#include "config.h"

#include "shim/process/proc/unix_socket.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct request {
	struct nlmsghdr head;
	struct unix_diag_req body;
};

union answer {
	struct nlmsghdr head;
	char buffer[8192];
};

static ssize_t ask(uint32_t inode, union answer *answer)
{
	struct request request = {
		.head = {.nlmsg_len = sizeof(request),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.body = {.sdiag_family = AF_UNIX,
			 .udiag_states = ~0u,
			 .udiag_ino = inode,
			 .udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN | UDIAG_SHOW_VFS |
				       UDIAG_SHOW_ICONS,
			 .udiag_cookie = {~0u, ~0u}},
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	ssize_t n = -1;

	if (fd >= 0 && send(fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request))
		n = recv(fd, answer, sizeof(*answer), 0);
	if (fd >= 0)
		close(fd);
	return n;
}

static void take(struct gck_unix_socket *k, const struct rtattr *a, const char *data)
{
	struct unix_diag_rqlen queue = {0};
	struct unix_diag_vfs file = {0};
	size_t size = RTA_PAYLOAD(a);

	switch (a->rta_type) {
	case UNIX_DIAG_PEER:
		memcpy(&k->peer, data, sizeof(k->peer));
		break;
	case UNIX_DIAG_SHUTDOWN:
		k->shutdown = (unsigned char)*data & 3;
		break;
	case UNIX_DIAG_RQLEN:
		memcpy(&queue, data, sizeof(queue));
		k->waiting = queue.udiag_rqueue;
		k->backlog = queue.udiag_wqueue;
		break;
	case UNIX_DIAG_VFS:
		memcpy(&file, data, sizeof(file));
		k->file = file.udiag_vfs_ino;
		break;
	case UNIX_DIAG_ICONS:
		size = size < sizeof(k->queue) ? size : sizeof(k->queue);
		k->nqueue = size / sizeof(k->queue[0]);
		memcpy(k->queue, data, k->nqueue * sizeof(k->queue[0]));
		break;
	default:
		break;
	}
}

int gck_unix_socket(uint32_t inode, struct gck_unix_socket *k, struct gck_error *err)
{
	union answer answer;
	struct rtattr a;
	const char *at, *end;
	ssize_t n = ask(inode, &answer);

	memset(k, 0, sizeof(*k));
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct unix_diag_msg)) ||
	    answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return gck_fail(err, ENOTSUP, "the kernel does not describe a socket "
				"(CONFIG_UNIX_DIAG)");
	at = (const char *)&answer + NLMSG_SPACE(sizeof(struct unix_diag_msg));
	end = (const char *)&answer + n;
	while (at + sizeof(a) <= end) {
		memcpy(&a, at, sizeof(a));
		if (a.rta_len < sizeof(a) || at + a.rta_len > end)
			break;
		take(k, &a, at + RTA_LENGTH(0));
		at += RTA_ALIGN(a.rta_len);
	}
	return 0;
}

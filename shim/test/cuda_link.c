/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/test/cuda_link.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD offsetof(struct gck_link_mpi, data)
#define LIMIT_MS 3000
#define LEASE_MS 60000

bool cuda_link_join(struct cuda_link *c, struct agent *a, bool restored)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = agent_accept_cuda(a, WAIT_MS, &c->m);
	return c->fd >= 0 && (c->m.cuda_hello.restored != 0) == restored;
}

bool cuda_link_hear(struct cuda_link *c, uint32_t type)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};

	memset(&c->m, 0, sizeof c->m);
	if (poll(&p, 1, WAIT_MS) == 1 && recv(c->fd, &c->m, sizeof c->m, 0) >= (ssize_t)HEAD &&
	    c->m.type == type && !c->m.value)
		return true;
	printf("# the CUDA thread: message %u instead of %u, %.*s\n", c->m.type, type,
	       c->m.value ? (int)c->m.total : 0, (const char *)c->m.data);
	return false;
}

bool cuda_link_drain(struct cuda_link *c, uint64_t seq)
{
	c->m = (struct gck_link_mpi){.type = GCK_LINK_CUDA_DRAIN, .seq = seq,
				     .total = sizeof c->m.cuda_drain,
				     .cuda_drain = {LIMIT_MS, LEASE_MS}};
	send(c->fd, &c->m, HEAD + sizeof c->m.cuda_drain, MSG_NOSIGNAL);
	return cuda_link_hear(c, GCK_LINK_CUDA_DRAINED);
}

bool cuda_link_resume(struct cuda_link *c, uint64_t seq)
{
	c->m = (struct gck_link_mpi){.type = GCK_LINK_CUDA_RESUME, .seq = seq};
	send(c->fd, &c->m, HEAD, MSG_NOSIGNAL);
	return cuda_link_hear(c, GCK_LINK_CUDA_RESUMED);
}

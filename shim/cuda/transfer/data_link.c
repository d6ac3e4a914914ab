/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/transfer/data_link.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/inside/descriptor.h"

#define HEAD offsetof(struct gck_link_data, why)

void gck_cuda_data_open(struct gck_cuda_data_link *l, int fd)
{
	l->fd = gck_inside_move_away(fd);
	l->cookie = gck_inside_cookie(l->fd);
}

static bool is_ours(const struct gck_cuda_data_link *l)
{
	return l->fd >= 0 && l->cookie && gck_inside_cookie(l->fd) == l->cookie;
}

void gck_cuda_data_shut(const struct gck_cuda_data_link *l)
{
	if (is_ours(l))
		shutdown(l->fd, SHUT_RDWR);
}

void gck_cuda_data_leave(struct gck_cuda_data_link *l)
{
	if (is_ours(l))
		close(l->fd);
	l->fd = -1;
}

void gck_cuda_data_close(struct gck_cuda_data_link *l)
{
	gck_cuda_data_shut(l);
	gck_cuda_data_leave(l);
}

int gck_cuda_data_send(const struct gck_cuda_data_link *l, const struct gck_link_data *m,
		       const struct gck_error *why)
{
	struct gck_link_data out = {.type = m->type, .address = m->address, .size = m->size,
				    .number = m->number};
	size_t n = HEAD;
	ssize_t sent;

	if (why && why->code) {
		out.value = (uint32_t)why->code;
		memcpy(out.why, why->text, sizeof out.why - 1);
		n += strlen(out.why) + 1;
	}
	if (!is_ours(l))
		return -1;
	do
		sent = send(l->fd, &out, n, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -1 : 0;
}

int gck_cuda_data_receive(const struct gck_cuda_data_link *l, struct gck_link_data *m, int ms)
{
	struct pollfd p = {.fd = l->fd, .events = POLLIN};
	ssize_t n;
	int rc = ms ? poll(&p, 1, ms) : 1;

	if ((rc < 0 && errno != EINTR) || !is_ours(l))
		return -1;
	if (rc <= 0)
		return 0;
	memset(m, 0, sizeof *m);
	n = recv(l->fd, m, sizeof *m, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	m->why[sizeof m->why - 1] = '\0';
	return n < (ssize_t)HEAD ? -1 : 1;
}

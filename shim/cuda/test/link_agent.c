/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/test/link_agent.h"

#include <err.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD offsetof(struct gck_link_mpi, data)

static int receive(int fd, struct gck_link_mpi *m, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n = poll(&p, 1, ms) == 1 ? recv(fd, m, sizeof *m, 0) : -1;

	return n >= (ssize_t)HEAD ? (int)m->type : 0;
}

bool cuda_accept(struct cuda_rank *r, int ms)
{
	struct gck_link_mpi m;

	r->cuda = agent_accept_cuda(&r->agent, ms, &m);
	r->hello = m.cuda_hello;
	return r->cuda >= 0;
}

void cuda_rank_start(struct cuda_rank *r, const char *fail)
{
	static char program[] = "./cuda_rank", *argv[] = {program, NULL};
	static int serial;
	struct gck_link_hello hello;

	*r = (struct cuda_rank){.link = -1, .cuda = -1};
	snprintf(r->agent.name, sizeof r->agent.name, "gpuckpt-cuda-test-%d-%d", getpid(), ++serial);
	if (fail)
		setenv("FAKE_CUDA_FAIL", fail, 1);
	else
		unsetenv("FAKE_CUDA_FAIL");
	agent_listen(&r->agent);
	r->rank = agent_run(&r->agent, NULL, argv, true);
	r->link = agent_admit(&r->agent, &hello);
	if (cuda_tell(r, "init") || !cuda_accept(r, WAIT_MS))
		errx(99, "the rank did not come up");
}

int cuda_rank_end(struct cuda_rank *r)
{
	close(r->rank.in);
	r->rank.in = -1;
	close(r->cuda);
	close(r->link);
	close(r->agent.listener);
	return rank_end(&r->rank);
}

void cuda_say(const struct cuda_rank *r, uint32_t type, uint64_t seq)
{
	struct gck_link_mpi m = {.type = type, .seq = seq};

	send(r->cuda, &m, HEAD, MSG_NOSIGNAL);
}

void cuda_ask_drain(const struct cuda_rank *r, uint64_t seq, uint32_t limit_ms, uint32_t lease_ms)
{
	struct gck_link_mpi m = {.type = GCK_LINK_CUDA_DRAIN, .seq = seq,
				 .total = sizeof m.cuda_drain, .cuda_drain = {limit_ms, lease_ms}};

	send(r->cuda, &m, HEAD + sizeof m.cuda_drain, MSG_NOSIGNAL);
}

int cuda_hear(const struct cuda_rank *r, int ms, uint32_t *value, char text[1024])
{
	struct gck_link_mpi m;
	int type = receive(r->cuda, &m, ms);
	size_t n = type && m.total < 1024 ? m.total : 0;

	*value = type ? m.value : 0;
	memcpy(text, m.data, n);
	text[n] = '\0';
	for (size_t i = 0; i + 1 < n; i++)
		text[i] = text[i] ? text[i] : ';';
	return type;
}

void cuda_begin(const struct cuda_rank *r, const char *word)
{
	dprintf(r->rank.in, "%s\n", word);
}

int cuda_answer(const struct cuda_rank *r, int ms)
{
	const char *line = rank_line(r->rank.out, ms);

	return *line ? atoi(line) : -1000;
}

int cuda_tell(const struct cuda_rank *r, const char *word)
{
	cuda_begin(r, word);
	return cuda_answer(r, WAIT_MS);
}

const char *cuda_look(const struct cuda_rank *r)
{
	static char all[8192];
	char text[1024];
	uint32_t value;

	all[0] = '\0';
	cuda_say(r, GCK_LINK_CUDA_LOOK, 0);
	while (cuda_hear(r, WAIT_MS, &value, text) == GCK_LINK_CUDA_ITEM)
		strncat(strncat(all, text, 1024), "\n", 2);
	return all;
}

struct gck_cuda_state cuda_state(const struct cuda_rank *r)
{
	struct gck_cuda_state s;

	agent_peek(r->rank.pid, r->hello.state, &s, sizeof s);
	return s;
}

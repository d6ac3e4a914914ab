/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/test/link_agent.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/support/cuda_data.h"

uint32_t value;
char text[1024];

bool cuda_accept(struct cuda_rank *r, int ms)
{
	return cuda_link_accept(&r->cuda, &r->agent, ms);
}

void cuda_rank_launch(struct cuda_rank *r, const char *fail, struct gck_link_hello *hello)
{
	static char program[] = "./cuda_rank", *argv[] = {program, NULL};
	static int serial;

	*r = (struct cuda_rank){.link = -1, .cuda.fd = -1};
	snprintf(r->agent.name, sizeof r->agent.name, "gpuckpt-cuda-test-%d-%d", getpid(),
		 ++serial);
	if (fail)
		setenv("FAKE_CUDA_FAIL", fail, 1);
	else
		unsetenv("FAKE_CUDA_FAIL");
	agent_listen(&r->agent);
	r->rank = agent_run(&r->agent, NULL, argv, true);
	r->link = agent_admit(&r->agent, hello);
}

void cuda_rank_start(struct cuda_rank *r, const char *fail)
{
	struct gck_link_hello hello;

	cuda_rank_launch(r, fail, &hello);
	if (cuda_tell(r, "init") || !cuda_accept(r, WAIT_MS))
		errx(99, "the rank did not come up");
}

int cuda_rank_end(struct cuda_rank *r)
{
	close(r->rank.in);
	r->rank.in = -1;
	close(r->cuda.fd);
	close(r->link);
	close(r->agent.listener);
	return rank_end(&r->rank);
}

int cuda_hear(struct cuda_rank *r, int ms)
{
	const struct gck_thread_msg *m = &r->cuda.m;
	uint32_t type = cuda_link_receive(&r->cuda, ms);
	size_t n = m->total < sizeof text ? m->total : 0;

	value = m->value;
	memcpy(text, m->data, n);
	text[n] = '\0';
	for (size_t i = 0; i + 1 < n; i++)
		text[i] = text[i] ? text[i] : ';';
	return (int)type;
}

bool cuda_drain(struct cuda_rank *r, uint64_t seq, uint32_t limit_ms)
{
	cuda_link_ask_drain(&r->cuda, seq, limit_ms, WAIT_MS);
	return cuda_hear(r, WAIT_MS) == GCK_LINK_CUDA_DRAINED && r->cuda.m.seq == seq && value == 0;
}

bool cuda_resume(struct cuda_rank *r, uint64_t seq, struct cuda_data *d)
{
	if (d) {
		cuda_data_open(d);
		cuda_data_give(d, &r->cuda, GCK_LINK_CUDA_RESUME, seq);
	} else {
		cuda_link_say(&r->cuda, GCK_LINK_CUDA_RESUME, seq);
	}
	return cuda_hear(r, WAIT_MS) == GCK_LINK_CUDA_RESUMED && value == 0;
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

const char *cuda_look(struct cuda_rank *r)
{
	static char all[8192];

	all[0] = '\0';
	cuda_link_say(&r->cuda, GCK_LINK_CUDA_LIST_OBSTACLES, 0);
	while (cuda_hear(r, WAIT_MS) == GCK_LINK_CUDA_OBSTACLE)
		strncat(strncat(all, text, 1024), "\n", 2);
	return all;
}

struct gck_cuda_state cuda_state(const struct cuda_rank *r)
{
	struct gck_cuda_state s;

	agent_peek(r->rank.pid, r->cuda.hello.state, &s, sizeof s);
	return s;
}

long cuda_anonymous_kib(const struct cuda_rank *r)
{
	char path[64], line[128];
	long kib = -1;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/status", r->rank.pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "RssAnon: %ld", &kib);
	if (f)
		fclose(f);
	return kib;
}

bool cuda_rank_has(const struct cuda_rank *r, const struct cuda_data *d)
{
	return cuda_data_is_of(d, r->rank.pid);
}

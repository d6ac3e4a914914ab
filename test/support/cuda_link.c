/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "test/support/cuda_link.h"

#include <dirent.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"

#define HEAD offsetof(struct gck_thread_msg, data)
#define LIMIT_MS 10000
#define LEASE_MS 60000

bool cuda_link_accept(struct cuda_link *c, struct agent *a, int ms)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = agent_accept_cuda(a, ms, &c->m);
	c->hello = c->m.cuda_hello;
	c->host_copy_max = UINT64_MAX;
	return c->fd >= 0;
}

bool cuda_link_join(struct cuda_link *c, struct agent *a, bool restored)
{
	return cuda_link_accept(c, a, WAIT_MS) && (c->hello.restored != 0) == restored;
}

uint32_t cuda_link_receive(struct cuda_link *c, int ms)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};

	memset(&c->m, 0, sizeof c->m);
	if (poll(&p, 1, ms) != 1 || recv(c->fd, &c->m, sizeof c->m, 0) < (ssize_t)HEAD)
		return 0;
	return c->m.type;
}

bool cuda_link_hear(struct cuda_link *c, uint32_t type)
{
	if (cuda_link_receive(c, WAIT_MS) == type && !c->m.value)
		return true;
	printf("# the CUDA thread: message %u instead of %u, %.*s\n", c->m.type, type,
	       c->m.value ? (int)c->m.total : 0, (const char *)c->m.data);
	return false;
}

void cuda_link_say(const struct cuda_link *c, uint32_t type, uint64_t seq)
{
	struct gck_thread_msg m = {.type = type, .seq = seq};

	send(c->fd, &m, HEAD, MSG_NOSIGNAL);
}

static void say_drain(const struct cuda_link *c, uint32_t type, uint64_t seq, uint32_t limit_ms,
		      uint32_t watchdog_ms)
{
	struct gck_thread_msg m = {.type = type, .seq = seq,
				 .total = sizeof m.cuda_drain,
				 .cuda_drain = {.limit_ms = limit_ms, .watchdog_ms = watchdog_ms,
						.host_copy_max = c->host_copy_max}};

	for (size_t i = 0; i < GCK_LINK_CUDA_DEVICES; i++)
		m.cuda_drain.device_copy_max[i] = c->keep ? c->device_copy_max ? c->device_copy_max
									       : UINT64_MAX
							  : 0;

	send(c->fd, &m, HEAD + sizeof m.cuda_drain, MSG_NOSIGNAL);
}

void cuda_link_ask_drain(const struct cuda_link *c, uint64_t seq, uint32_t limit_ms,
			 uint32_t watchdog_ms)
{
	say_drain(c, GCK_LINK_CUDA_DRAIN, seq, limit_ms, watchdog_ms);
}

void cuda_link_ask_prepare(const struct cuda_link *c, uint64_t seq, uint32_t limit_ms)
{
	say_drain(c, GCK_LINK_CUDA_PREPARE, seq, limit_ms, 0);
}

bool cuda_link_prepare(struct cuda_link *c, uint64_t seq)
{
	cuda_link_ask_prepare(c, seq, WAIT_MS);
	return cuda_link_hear(c, GCK_LINK_CUDA_PREPARED);
}

int cuda_threads(pid_t pid, const char *name, pid_t *last)
{
	char path[300], found[32];
	const struct dirent *d;
	DIR *tasks;
	int n = 0;

	snprintf(path, sizeof path, "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (d = readdir(tasks))) {
		FILE *f;

		snprintf(path, sizeof path, "/proc/%d/task/%s/comm", pid, d->d_name);
		f = fopen(path, "r");
		if (f && fgets(found, sizeof found, f)) {
			found[strcspn(found, "\n")] = '\0';
			if (strcmp(found, name) == 0 && ++n && last)
				*last = atoi(d->d_name);
		}
		if (f)
			fclose(f);
	}
	if (tasks)
		closedir(tasks);
	return n;
}

#define BEGIN (64ull << 20) /* a slab, and managed memory */

bool cuda_link_has_memory(const struct cuda_link *c, pid_t pid)
{
	struct gck_cuda_state state = {.device_bytes = 0};

	for (int ms = 0; ms < WAIT_MS && state.device_bytes <= BEGIN; ms += 5) {
		pause_ms(5);
		agent_peek(pid, c->hello.state, &state, sizeof state);
	}
	return state.device_bytes > BEGIN;
}

bool cuda_link_drain(struct cuda_link *c, uint64_t seq)
{
	cuda_link_ask_drain(c, seq, LIMIT_MS, LEASE_MS);
	return cuda_link_hear(c, GCK_LINK_CUDA_DRAINED);
}

bool cuda_link_resume(struct cuda_link *c, uint64_t seq)
{
	cuda_link_say(c, GCK_LINK_CUDA_RESUME, seq);
	return cuda_link_hear(c, GCK_LINK_CUDA_RESUMED);
}

void cuda_node_has(const char *path, const char *lines)
{
	FILE *f = fopen(path, "w");

	if (!f)
		exit(99);
	fputs(lines, f);
	fclose(f);
}

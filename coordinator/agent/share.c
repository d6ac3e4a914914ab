/* SPDX-License-Identifier: Apache-2.0
 * What one rank's process may take of the node. */
#include "config.h"

#include "coordinator/agent/share.h"

#include <sched.h>

#define NODE_MEMORY ((size_t)128 << 20) /* half of what the agent may have: the rest is tables */
#define WRITERS_MAX 4u                  /* each has two objects of 16 MiB at least */

static unsigned at_least_one(unsigned n)
{
	return n ? n : 1;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* With a stage as many ranks upload while as many write to the disk, which is fast with little. */
struct share share_of_writers(const struct step *s)
{
	bool stage = *s->options.stage;
	unsigned most = least(s->options.cpus, stage ? WRITERS_MAX / 2 : WRITERS_MAX);
	unsigned n = least(most, at_least_one(s->local_ntasks));
	size_t write = stage ? NODE_MEMORY / 4 : NODE_MEMORY;
	size_t upload = stage && s->local_ntasks > 1 ? NODE_MEMORY - write : NODE_MEMORY;

	return (struct share){ n, s->options.cpus / n, write / n, upload / n };
}

struct share share_of_restorers(const struct step *s)
{
	unsigned n = at_least_one(s->local_ntasks), cpus = 1;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		cpus = (unsigned)CPU_COUNT(&set);
	return (struct share){ n, at_least_one(cpus / n), NODE_MEMORY / n, 0 };
}

/* SPDX-License-Identifier: Apache-2.0
 * What one rank's process may take of the node. */
#include "config.h"

#include "coordinator/agent/base/node_share.h"

#include <sched.h>

#define NODE_MEMORY ((size_t)128 << 20) /* half of what the agent may have */
#define WRITERS_MAX 4u                  /* each has two objects of 16 MiB at least */

/* What a process has in tables of each chunk of its image: where it writes, of two images. */
#define TABLES_WRITTEN 128u
#define TABLES_READ 48u

static unsigned at_least_one(unsigned n)
{
	return n ? n : 1;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* What n processes have left of so much, each. */
static size_t beside(size_t all, unsigned n, size_t tables)
{
	return all / n > tables ? all / n - tables : 0;
}

/* Images whose tables leave the writers little are written one after the other. With a stage as many ranks
 * upload while as many write to the disk, which is fast with little. */
struct share share_of_writers(const struct step *s, uint64_t chunks)
{
	bool stage = *s->options.stage;
	unsigned most = least(s->options.cpus, stage ? WRITERS_MAX / 2 : WRITERS_MAX);
	unsigned n = least(most, at_least_one(s->local_ntasks));
	size_t each = chunks * TABLES_WRITTEN;
	size_t write = stage ? NODE_MEMORY / 4 : NODE_MEMORY;
	size_t upload = stage && s->local_ntasks > 1 ? NODE_MEMORY - write : NODE_MEMORY;

	while (n > 1 && n * each > NODE_MEMORY / 2)
		n--;
	return (struct share){ n, s->options.cpus / n, beside(write, n, each), beside(upload, n, each) };
}

/* However large their tables are, ranks that stand still are read with several threads where there are few. */
struct share share_of_restorers(const struct step *s, uint64_t chunks)
{
	unsigned n = at_least_one(s->local_ntasks), cpus = 1;
	size_t least = NODE_MEMORY / 4 / n, left = beside(NODE_MEMORY, n, chunks * TABLES_READ);
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		cpus = (unsigned)CPU_COUNT(&set);
	return (struct share){ n, at_least_one(cpus / n), left > least ? left : least, 0 };
}

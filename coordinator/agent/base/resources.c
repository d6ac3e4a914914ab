/* SPDX-License-Identifier: Apache-2.0
 * Free memory of this node and of this cgroup (version 1 or 2), and each process's share of the
 * node. A file that cannot be read sets no limit. */
#include "config.h"

#include "coordinator/agent/base/resources.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

struct cgroup_files {
	const char *root, *limit, *used, *cache;
};

static const struct cgroup_files v1 = {
	"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
	"total_inactive_file",
};
static const struct cgroup_files v2 = {
	"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file",
};

/* The number after "key" at the start of a line, or the only number of the file. Returns
 * `otherwise` if there is none ("max" is none). */
static uint64_t number_in(const char *path, const char *key, uint64_t otherwise)
{
	size_t len = strlen(key);
	char line[256];
	uint64_t v = otherwise;
	FILE *f = fopen(path, "re");

	if (!f)
		return otherwise;
	while (fgets(line, sizeof line, f)) {
		if (strncmp(line, key, len) || (len && !strchr(": ", line[len])))
			continue;
		if (sscanf(line + len + (line[len] == ':'), "%" SCNu64, &v) != 1)
			v = otherwise;
		break;
	}
	fclose(f);
	return v;
}

static uint64_t read_in(const char *dir, const char *file, const char *key, uint64_t otherwise)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
		return otherwise;
	return number_in(path, key, otherwise);
}

static uint64_t cgroup_available(const struct cgroup_files *f, const char *group)
{
	uint64_t least = UINT64_MAX;
	char dir[PATH_MAX];

	if (snprintf(dir, sizeof dir, "%s%s", f->root, group) >= (int)sizeof dir)
		return least;
	while (strlen(dir) > strlen(f->root)) {
		uint64_t limit = read_in(dir, f->limit, "", UINT64_MAX);
		uint64_t used = read_in(dir, f->used, "", 0);
		uint64_t cache = read_in(dir, "memory.stat", f->cache, 0);

		used -= cache < used ? cache : used;
		if (limit != UINT64_MAX && limit - (used < limit ? used : limit) < least)
			least = limit - (used < limit ? used : limit);
		*strrchr(dir, '/') = '\0';
	}
	return least;
}

/* A line of /proc/self/cgroup is "number:controllers:path"; in version 2 it is "0::path". */
static uint64_t cgroups_available(void)
{
	uint64_t least = UINT64_MAX, v;
	char line[PATH_MAX + 64], names[256], path[PATH_MAX];
	FILE *f = fopen("/proc/self/cgroup", "re");

	if (!f)
		return least;
	while (fgets(line, sizeof line, f)) {
		v = UINT64_MAX;
		if (sscanf(line, "0::%4095[^\n]", path) == 1)
			v = cgroup_available(&v2, path);
		else if (sscanf(line, "%*u:%255[^:]:%4095[^\n]", names, path) == 2 &&
			 strstr(names, "memory"))
			v = cgroup_available(&v1, path);
		if (v < least)
			least = v;
	}
	fclose(f);
	return least;
}

uint64_t memory_available(void)
{
	uint64_t kib = number_in("/proc/meminfo", "MemAvailable", UINT64_MAX / 1024);
	uint64_t group = cgroups_available();

	return group < kib * 1024 ? group : kib * 1024;
}

/* ---- shares of the node -------------------------------------------------------------------- */

#define NODE_MEMORY ((size_t)128 << 20) /* half of what the agent may use */
#define WRITERS_MAX 4u                  /* each needs at least two objects of 16 MiB */

/* Bytes that a process needs for each chunk of its image: a writer holds the tables of two
 * images. */
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

/* What each of n processes has left beside its tables. */
static size_t beside(size_t all, unsigned n, size_t tables)
{
	return all / n > tables ? all / n - tables : 0;
}

/* Images with large tables are written one after the other. With a stage, ranks upload while
 * others write to the disk, which is fast with little memory. */
struct node_share node_share_of_writers(const struct step *s, uint64_t chunks)
{
	bool stage = *s->options.stage;
	unsigned most = least(s->options.cpus, stage ? WRITERS_MAX / 2 : WRITERS_MAX);
	unsigned n = least(most, at_least_one(s->local_ntasks));
	size_t each = chunks * TABLES_WRITTEN;
	size_t write = stage ? NODE_MEMORY / 4 : NODE_MEMORY;
	size_t upload = stage && s->local_ntasks > 1 ? NODE_MEMORY - write : NODE_MEMORY;

	while (n > 1 && n * each > NODE_MEMORY / 2)
		n--;
	return (struct node_share){ n, s->options.cpus / n, beside(write, n, each),
				    beside(upload, n, each) };
}

/* Ranks are stopped while they are restored, so few ranks get several threads each, however
 * large their tables. */
struct node_share node_share_of_restorers(const struct step *s, uint64_t chunks)
{
	unsigned n = at_least_one(s->local_ntasks), cpus = 1;
	size_t least = NODE_MEMORY / 4 / n, left = beside(NODE_MEMORY, n, chunks * TABLES_READ);
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		cpus = (unsigned)CPU_COUNT(&set);
	return (struct node_share){ n, at_least_one(cpus / n), left > least ? left : least, 0 };
}

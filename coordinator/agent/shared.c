/* SPDX-License-Identifier: Apache-2.0
 * Memory that ranks of this node share by writable mappings. */
#include "coordinator/agent/shared.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/agent/packet.h"

struct mapping {
	uint32_t rank;
	unsigned major, minor;
	unsigned long inode;
	char name[128];
};

struct mappings {
	struct mapping *v;
	size_t n;
};

static int add(struct mappings *all, const struct mapping *m)
{
	struct mapping *v = realloc(all->v, (all->n + 1) * sizeof *v);

	if (!v)
		return -1;
	all->v = v;
	v[all->n++] = *m;
	return 0;
}

static void read_maps(struct mappings *all, const struct task *t)
{
	char path[64], line[PATH_MAX + 128], perms[5];
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)t->pid);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof line, f)) {
		struct mapping m = { .rank = t->rank };

		if (sscanf(line, "%*x-%*x %4s %*x %x:%x %lu %127[^\n]", perms, &m.major, &m.minor,
			   &m.inode, m.name) < 4)
			continue;
		if (perms[1] == 'w' && perms[3] == 's' && m.inode && add(all, &m) < 0)
			break;
	}
	fclose(f);
}

static int by_object(const void *x, const void *y)
{
	const struct mapping *a = x, *b = y;

	if (a->inode != b->inode)
		return a->inode < b->inode ? -1 : 1;
	if (a->major != b->major)
		return a->major < b->major ? -1 : 1;
	if (a->minor != b->minor)
		return a->minor < b->minor ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static int same_object(const struct mapping *a, const struct mapping *b)
{
	return a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

static json_t *entry(const struct mapping *a, const struct mapping *b)
{
	char object[192];

	snprintf(object, sizeof object, "shared mapping %s (inode %lu)",
		 *a->name ? a->name : "without a name", a->inode);
	return json_pack("{s:I, s:o, s:o, s:s, s:b}", "rank", (json_int_t)a->rank, "object",
			 packet_string(object), "reason",
			 json_sprintf("ranks %u and %u write to the same memory", a->rank, b->rank),
			 "remedy", "run one rank on a node, or without memory shared between ranks",
			 "refuse", 1);
}

json_t *shared_find(const struct tasks *t)
{
	struct mappings all = { 0 };
	json_t *found = json_array();

	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i]->ended)
			read_maps(&all, t->v[i]);
	if (all.n)
		qsort(all.v, all.n, sizeof *all.v, by_object);
	for (size_t i = 0, j; i < all.n; i = j) {
		for (j = i + 1; j < all.n && same_object(&all.v[i], &all.v[j]); j++)
			;
		if (all.v[j - 1].rank != all.v[i].rank)
			json_array_append_new(found, entry(&all.v[i], &all.v[j - 1]));
	}
	free(all.v);
	return found;
}

int shared_refuse(const struct tasks *t, struct gck_error *err)
{
	json_t *found = shared_find(t);
	const json_t *first = json_array_get(found, 0);
	int rc = 0;

	if (first)
		rc = gck_fail(err, EOPNOTSUPP, "%s: %s; %s", packet_text(first, "object", ""),
			      packet_text(first, "reason", ""), packet_text(first, "remedy", ""));
	json_decref(found);
	return rc;
}

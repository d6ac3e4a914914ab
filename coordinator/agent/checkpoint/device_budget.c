/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/agent/checkpoint/device_budget.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/transaction.h"

/* A device: what all its ranks have there, and where the last of them found least, the room. */
struct device {
	const char *uuid;
	json_int_t bytes, room;
	size_t ranks;
};

struct devices {
	struct device *v;
	size_t n, room;
};

/* What a rank says of one device; false: it has nothing there. */
static bool read_one(const json_t *said, struct device *d)
{
	*d = (struct device){ .uuid = packet_text(said, "uuid", ""), .bytes = packet_int(said, "bytes", 0),
			      .room = packet_int(said, "room", 0), .ranks = 1 };
	return d->bytes > 0;
}

static struct device *find(const struct devices *all, const char *uuid)
{
	for (size_t i = 0; i < all->n; i++)
		if (!strcmp(all->v[i].uuid, uuid))
			return &all->v[i];
	return NULL;
}

static int add(struct devices *all, const struct device *one)
{
	size_t room = all->room ? 2 * all->room : 16;
	struct device *d = find(all, one->uuid), *v;

	if (d) {
		d->room = d->room < one->room ? d->room : one->room;
		d->bytes += one->bytes;
		d->ranks++;
		return 0;
	}
	if (all->n == all->room) {
		v = realloc(all->v, room * sizeof *v);
		if (!v)
			return -1;
		all->v = v;
		all->room = room;
	}
	all->v[all->n++] = *one;
	return 0;
}

static int count(const struct transaction *t, struct devices *all)
{
	struct device one;
	const json_t *said;
	size_t k;

	for (size_t i = 0; i < t->n; i++) {
		if (t->members[i].carried)
			continue;
		json_array_foreach(json_object_get(t->members[i].answer[PHASE_PREPARE], "devices"), k, said)
			if (read_one(said, &one) && add(all, &one) < 0)
				return -1;
	}
	return 0;
}

static void share(struct member *m, const struct devices *all)
{
	struct device one;
	const json_t *said;
	size_t i;

	json_array_foreach(json_object_get(m->answer[PHASE_PREPARE], "devices"), i, said) {
		const struct device *d;

		if (i >= GCK_LINK_CUDA_DEVICES || !read_one(said, &one))
			continue;
		d = find(all, one.uuid);
		if (d->bytes > d->room)
			one.bytes = (json_int_t)((double)one.bytes / (double)d->bytes * (double)d->room);
		m->keep_most[i] = d->ranks > 1 ? (uint64_t)one.bytes : UINT64_MAX;
		m->finds_room += one.bytes;
	}
}

void rooms_share(struct transaction *t)
{
	struct devices all = { .v = NULL };
	bool counted = count(t, &all) == 0;

	for (size_t i = 0; i < t->n; i++) {
		struct member *m = &t->members[i];

		memset(m->keep_most, 0, sizeof m->keep_most);
		m->finds_room = 0;
		if (counted && !m->carried)
			share(m, &all);
	}
	free(all.v);
}

/* SPDX-License-Identifier: Apache-2.0
 * Memory and System V objects that ranks of this node share, in a checkpoint. Those of these ranks
 * that can read all of it give a part each; if none can, each gives what it can read. It is copied
 * once all ranks of the node are frozen: nobody writes to it then, and all ranks' images show the
 * same instant. */
#include "config.h"

#include "coordinator/agent/checkpoint/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/rank_list.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/worker/rank_memory.h"

#define COMMON_MAX 512     /* of a rank: orders wait in a socket */
#define PART_MIN (UINT64_C(4) << 20)
#define COPY_MS_OF_GIB 1500 /* twice the measured time (doc/limits.md) */

/* ---- groups -------------------------------------------------------------------------------- */

/* A rank's use of memory. */
struct use {
	struct gck_common_memory x;
	size_t i; /* of the rank in the transaction */
};

struct uses {
	struct use *v;
	size_t n;
};

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_memory(const void *x, const void *y)
{
	const struct use *a = x, *b = y;
	int c = compare(a->x.device, b->x.device);

	if (!c)
		c = compare(a->x.inode, b->x.inode);
	return c ? c : compare(a->i, b->i);
}

static int add_rank(struct uses *all, const struct transaction *t, size_t i, struct gck_error *err)
{
	const json_t *one;
	size_t k;

	json_array_foreach(t->ranks[i].memory, k, one) {
		struct use *u = gck_grow(&all->v, &all->n, sizeof *u, err);

		if (!u)
			return -1;
		*u = (struct use){ memory_unpack(one), i };
	}
	return 0;
}

static int collect(struct uses *all, const struct transaction *t, struct gck_error *err)
{
	for (size_t i = 0; i < t->n; i++)
		if (!t->ranks[i].carried && add_rank(all, t, i, err) < 0)
			return -1;
	if (all->n)
		qsort(all->v, all->n, sizeof *all->v, by_memory);
	return 0;
}

/* How many of the uses from u on are of the same memory. */
static size_t count_same(const struct use *u, size_t most)
{
	size_t n = 1;

	while (n < most && u[n].x.device == u[0].x.device && u[n].x.inode == u[0].x.inode)
		n++;
	return n;
}

/* What all only read is the same for all after a restart, wherever they are. */
static bool is_shared(const struct use *u, size_t n)
{
	bool writes = false;

	for (size_t i = 0; i < n; i++)
		writes |= u[i].x.writes;
	return n > 1 && writes;
}

static uint64_t size_of(const struct use *u, size_t n)
{
	uint64_t size = 0;

	for (size_t i = 0; i < n; i++)
		size = u[i].x.size > size ? u[i].x.size : size;
	return size;
}

static bool can_give(const struct use *u, uint64_t size)
{
	return u->x.whole && u->x.size == size;
}

struct part {
	uint64_t from, to;
};

/* Which of the ranks that can give all is the i-th use's, from another one on for each memory. */
static size_t place_of(const struct use *u, size_t n, size_t i, uint32_t number, size_t *able)
{
	uint64_t size = size_of(u, n);
	size_t before = 0;

	*able = 0;
	for (size_t k = 0; k < n; k++) {
		before += k < i && can_give(&u[k], size);
		*able += can_give(&u[k], size);
	}
	return *able ? (before + number) % *able : 0;
}

/* What the i-th of its n ranks gives. A file is made by one rank. */
static struct part part_of(const struct use *u, size_t n, size_t i, uint32_t number)
{
	uint64_t size = size_of(u, n), most = size / PART_MIN, length;
	size_t able, place = place_of(u, n, i, number, &able);
	uint64_t parts = u[0].x.has_path || !most ? 1 : most < able ? most : able;

	if (!able)
		return (struct part){ 0, size };
	if (!can_give(&u[i], size) || place >= parts)
		return (struct part){ 0 };
	length = size / parts / GCK_GROUP_BYTES * GCK_GROUP_BYTES;
	return (struct part){ place * length, place + 1 == parts ? size : (place + 1) * length };
}

/* Bytes to copy if ranks share it; each may have touched a part of it. */
static uint64_t bytes_of(const struct use *u, size_t n)
{
	uint64_t bytes = 0, size = size_of(u, n);

	for (size_t i = 0; i < n; i++)
		bytes += u[i].x.bytes;
	return bytes < size ? bytes : size;
}

/* ---- reserve ------------------------------------------------------------------------------- */

static void count(struct transaction *t, const struct use *u, size_t n, uint32_t number,
		  uint64_t *bytes)
{
	uint64_t all = bytes_of(u, n), size = size_of(u, n), sum = 0;

	for (size_t i = 0; i < n; i++) {
		struct part x = part_of(u, n, i, number);

		sum += u[i].x.bytes;
		if (!is_shared(u, n))
			bytes[u[i].i] += u[i].x.bytes;
		else if (x.to)
			bytes[u[i].i] += (uint64_t)((double)all * (double)(x.to - x.from) /
						    (double)size);
	}
	t->counted_again += is_shared(u, n) ? sum - all : 0;
}

static void tell_reserve(struct transaction *t, const uint64_t *bytes)
{
	for (size_t i = 0; i < t->n; i++) {
		struct rank_checkpoint *m = &t->ranks[i];

		t->most_copied = bytes[i] > t->most_copied ? bytes[i] : t->most_copied;
		if (!bytes[i] || m->carried)
			continue;
		m->told_reserve = true;
		rank_checkpoint_tell(m, json_pack("{s:s, s:I}", "op", "reserve", "bytes",
						  (json_int_t)bytes[i]));
	}
}

static int reserve(struct transaction *t, struct gck_error *err)
{
	uint64_t *bytes = calloc(t->n + 1, sizeof *bytes);
	struct uses all = { .v = NULL };
	int rc = bytes ? collect(&all, t, err) : gck_fail(err, ENOMEM, "out of memory");
	uint32_t number = 0;

	for (size_t i = 0, n; i < all.n && rc == 0; i += n) {
		n = count_same(all.v + i, all.n - i);
		count(t, all.v + i, n, is_shared(all.v + i, n) ? ++number : 0, bytes);
	}
	if (rc == 0 && number > COMMON_MAX)
		rc = gck_fail(err, EOPNOTSUPP, "its ranks share %u areas of memory and System V "
			      "objects, at most %d can be in a checkpoint: use fewer and larger "
			      "ones", number, COMMON_MAX);
	if (rc == 0)
		tell_reserve(t, bytes);
	free(all.v);
	free(bytes);
	return rc;
}

static bool is_awaited(const struct transaction *t, enum phase p)
{
	for (size_t i = 0; i < t->n; i++)
		if (!rank_checkpoint_answered(&t->ranks[i], p))
			return true;
	return t->failed;
}

bool common_memory_reserve(struct transaction *t)
{
	struct gck_error err = { 0 };

	if (t->reserved)
		return false;
	t->reserved = true;
	if (reserve(t, &err) < 0)
		transaction_fail(t, NULL, &err, false);
	return is_awaited(t, PHASE_PREPARE);
}

uint64_t common_memory_hold_ms(const struct transaction *t)
{
	return (t->most_copied * COPY_MS_OF_GIB) >> 30;
}

/* ---- copy ---------------------------------------------------------------------------------- */

/* Ranks were looked at one after the other. */
static int check_names(const struct use *u, size_t n, struct gck_error *err)
{
	for (size_t i = 1; i < n; i++)
		if (u[i].x.has_path != u[0].x.has_path ||
		    (u[0].x.has_path && strcmp(u[i].x.name, u[0].x.name)))
			return gck_fail(err, EAGAIN, "shared memory \"%s\" got another name, or "
					"lost it, while its ranks were being held; try again",
					u[0].x.name);
	return 0;
}

/* A segment that others have attached would not be theirs any more. */
static int check_attached(const struct transaction *t, const struct use *u, size_t n,
			  struct gck_error *err)
{
	uint64_t attached = 0;

	for (size_t i = 0; i < n; i++)
		attached += u[i].x.attached;
	return u[0].x.device == GCK_SEGMENT
		       ? gck_segment_check((int32_t)u[0].x.inode, attached,
					   t->ranks[u[0].i].task->pid, err) : 0;
}

/* orders: one array for each rank. */
static int order(json_t **orders, const struct transaction *t, const struct use *u, size_t n,
		 uint32_t number, struct gck_error *err)
{
	struct gck_common_memory x = u[0].x;
	uint32_t *ranks = calloc(n, sizeof *ranks);
	char text[RANK_LIST_MAX];
	bool fits;

	for (size_t i = 0; ranks && i < n; i++)
		ranks[i] = t->ranks[u[i].i].task->rank;
	fits = ranks && rank_list_write(text, ranks, n);
	free(ranks);
	if (!fits)
		return gck_fail(err, EOPNOTSUPP, "shared memory \"%s\": its %zu ranks cannot be "
				"listed", x.name, n);
	x.size = size_of(u, n);
	for (size_t i = 0; i < n; i++) {
		struct part part = part_of(u, n, i, number);

		json_array_append_new(orders[u[i].i], json_pack("{s:o, s:s, s:I, s:I, s:I}",
				      "memory", memory_pack(&x), "ranks", text, "number",
				      (json_int_t)number, "from", (json_int_t)part.from, "to",
				      (json_int_t)part.to));
	}
	return 0;
}

static void tell_copy(struct rank_checkpoint *m, const json_t *orders)
{
	json_t *some = json_array();
	const json_t *one;
	size_t i;

	json_array_foreach(orders, i, one) {
		json_array_append(some, (json_t *)(uintptr_t)one);
		if (json_array_size(some) < MEMORIES_OF_PACKET && i + 1 < json_array_size(orders))
			continue;
		rank_checkpoint_tell(m, json_pack("{s:s, s:o}", "op", "common", "all", some));
		some = json_array();
	}
	json_decref(some);
	m->told_copy = true;
	rank_checkpoint_tell(m, json_pack("{s:s}", "op", "copy"));
}

static int copy(struct transaction *t, struct gck_error *err)
{
	json_t **orders = calloc(t->n + 1, sizeof(json_t *));
	struct uses all = { .v = NULL };
	int rc = orders ? collect(&all, t, err) : gck_fail(err, ENOMEM, "out of memory");
	uint32_t number = 0;

	for (size_t i = 0; i < t->n && rc == 0; i++)
		orders[i] = json_array();
	for (size_t i = 0, n; i < all.n && rc == 0; i += n) {
		n = count_same(all.v + i, all.n - i);
		rc = check_attached(t, all.v + i, n, err);
		if (rc == 0 && is_shared(all.v + i, n) && !(rc = check_names(all.v + i, n, err)))
			rc = order(orders, t, all.v + i, n, ++number, err);
	}
	for (size_t i = 0; i < t->n && rc == 0; i++)
		if (!t->ranks[i].carried && json_array_size(t->ranks[i].memory))
			tell_copy(&t->ranks[i], orders[i]);
	for (size_t i = 0; orders && i < t->n; i++)
		json_decref(orders[i]);
	free(orders);
	free(all.v);
	return rc;
}

bool common_memory_copy(struct transaction *t)
{
	struct gck_error err = { 0 };

	if (t->copied)
		return false;
	t->copied = true;
	if (copy(t, &err) < 0)
		transaction_fail(t, NULL, &err, false);
	return is_awaited(t, PHASE_FREEZE);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/records/records.h"

#include <stdlib.h>
#include <string.h>

#include "shim/cuda/base/handle_map.h"

static struct gck_record *first, *last;
static uint64_t clock_now; /* counts beginnings and ends */
static struct gck_cuda_handle_map by_handle, by_now; /* keys: kind and value */

struct gck_record *gck_records_first(void)
{
	return first;
}

/* Handles are addresses or small numbers. */
static uint64_t key(enum gck_record_kind kind, uint64_t handle)
{
	return handle ^ ((uint64_t)kind + 1) << 56;
}

static struct gck_record *get(const struct gck_cuda_handle_map *map, uint64_t k)
{
	const uint64_t *value = gck_cuda_handle_map_get(map, k);

	return value ? (struct gck_record *)(uintptr_t)*value : NULL;
}

static void put(struct gck_cuda_handle_map *map, uint64_t k, const struct gck_record *r)
{
	uint64_t *value = gck_cuda_handle_map_put(map, k);

	if (!value)
		abort();
	*value = (uintptr_t)r;
}

struct gck_record *gck_record_find(enum gck_record_kind kind, uint64_t handle)
{
	struct gck_record *r = get(&by_handle, key(kind, handle));

	if (!r && kind == GCK_RECORD_FUNCTION)
		r = get(&by_handle, key(GCK_RECORD_KERNEL, handle));
	return r;
}

struct gck_record *gck_record_find_now(enum gck_record_kind kind, uint64_t now)
{
	return get(&by_now, key(kind, now));
}

/* Whether its address must come out equal. */
static bool is_placed(enum gck_record_kind kind)
{
	return kind == GCK_RECORD_MODULE || kind == GCK_RECORD_RESERVATION;
}

/* Whether it may have a part of what later objects get theirs from. */
static bool takes_place(enum gck_record_kind kind)
{
	return kind != GCK_RECORD_EVENT && kind != GCK_RECORD_FUNCTION &&
	       kind != GCK_RECORD_KERNEL && kind != GCK_RECORD_GRAPH && kind != GCK_RECORD_USER &&
	       kind != GCK_RECORD_PHYSICAL && kind != GCK_RECORD_MAPPING;
}

static void doubt_later(const struct gck_record *ended)
{
	for (struct gck_record *r = takes_place(ended->kind) ? ended->next : NULL; r; r = r->next)
		r->doubted |= is_placed(r->kind);
}

struct gck_record *gck_record_add(enum gck_record_kind kind, uint64_t handle)
{
	struct gck_record *r = calloc(1, sizeof *r);

	if (!r)
		abort();
	*r = (struct gck_record){.kind = kind, .handle = handle, .now = handle, .uses = 1,
				 .before = last, .born = ++clock_now,
				 .doubted = is_placed(kind) && gck_record_maps_left()};
	*(last ? &last->next : &first) = r;
	last = r;
	put(&by_handle, key(kind, handle), r);
	put(&by_now, key(kind, handle), r);
	return r;
}

void gck_record_set_now(struct gck_record *r, uint64_t now)
{
	if (get(&by_now, key(r->kind, r->now)) == r)
		gck_cuda_handle_map_drop(&by_now, key(r->kind, r->now));
	r->now = now;
	put(&by_now, key(r->kind, now), r);
}

/* Its handle means it no longer. */
static void drop_handles(const struct gck_record *r)
{
	if (get(&by_handle, key(r->kind, r->handle)) == r)
		gck_cuda_handle_map_drop(&by_handle, key(r->kind, r->handle));
	if (get(&by_now, key(r->kind, r->now)) == r)
		gck_cuda_handle_map_drop(&by_now, key(r->kind, r->now));
}

static void forget(struct gck_record *r)
{
	struct gck_record_state *s;

	drop_handles(r);
	gck_record_maps_ended(r->maps);
	gck_record_host_forget(r);
	*(r->before ? &r->before->next : &first) = r->next;
	*(r->next ? &r->next->before : &last) = r->before;
	gck_record_forget_call(&r->made);
	while ((s = r->states)) {
		r->states = s->next;
		gck_record_forget_call(&s->call);
		free(s);
	}
	gck_record_variables_free(r->variables);
	gck_record_storage_forget(r);
	gck_record_graph_forget(r);
	free(r->user);
	free(r->data);
	free(r);
}

bool gck_record_is_library_part(const struct gck_record *r)
{
	return r->of && ((r->kind == GCK_RECORD_MODULE && r->of->kind == GCK_RECORD_LIBRARY) ||
			 (r->kind == GCK_RECORD_FUNCTION && r->of->kind == GCK_RECORD_KERNEL));
}

struct gck_record *gck_record_context_of(const struct gck_record *module)
{
	return gck_record_is_library_part(module) ? module->context : module->of;
}

/* All functions that load one have it in the same place. */
const char *gck_record_image_of(const struct gck_record *module)
{
	return gck_record_is_library_part(module) ? module->of->made.copies[1]
						  : module->made.copies[1];
}

/* One that ends with it. */
static struct gck_record *dependent(const struct gck_record *r)
{
	struct gck_record *d = first;

	while (d && (d->died || (d->of != r &&
				 !(d->context == r && gck_record_is_library_part(d)))))
		d = d->next;
	return d;
}

static bool has_dependents(enum gck_record_kind kind)
{
	return kind == GCK_RECORD_CONTEXT || kind == GCK_RECORD_MODULE ||
	       kind == GCK_RECORD_LIBRARY || kind == GCK_RECORD_KERNEL ||
	       kind == GCK_RECORD_RESERVATION || kind == GCK_RECORD_MIPMAP;
}

/* ---- contexts, modules and libraries that have ended ---------------------------------------- */

static bool has_place(enum gck_record_kind kind)
{
	return kind == GCK_RECORD_CONTEXT || kind == GCK_RECORD_MODULE ||
	       kind == GCK_RECORD_LIBRARY;
}

/* Whether `later` is a module that began while the other was there. */
static bool is_beside(const struct gck_record *later, const struct gck_record *other)
{
	return later->kind == GCK_RECORD_MODULE && later->born > other->born &&
	       (!other->died || later->born < other->died);
}

/* Forgets those beside which no module began that is still needed; a context's and a library's own
 * modules are beside it. A later one is looked at first. */
static void prune(void)
{
	struct gck_record *before;

	for (struct gck_record *r = last; r; r = before) {
		const struct gck_record *m = r->next;

		before = r->before;
		while (r->died && m && !is_beside(m, r))
			m = m->next;
		if (r->died && !m)
			forget(r);
	}
}

/* It cannot be made again: nor can modules that began beside it, nor those beside one of these that
 * has ended. */
static void give_up(struct gck_record *r)
{
	struct gck_record *m;

	for (m = r->next; m; m = m->next) {
		if (is_beside(m, r))
			m->unable = "it was loaded beside one that has ended";
	}
	forget(r);
	m = first;
	while (m && !(m->died && m->unable))
		m = m->next;
	if (m)
		give_up(m);
}

static void end_placed(struct gck_record *r)
{
	if (r->unable) {
		give_up(r);
	} else {
		drop_handles(r);
		gck_record_storage_forget(r);
		r->uses = 1; /* a context's, of which a reset may leave several */
		if (!r->died)
			r->died = ++clock_now;
	}
	prune();
}

/* ---- ends ------------------------------------------------------------------------------------ */

void gck_record_end(struct gck_record *r)
{
	struct gck_record *d, *physical = r->physical;

	doubt_later(r);
	while (has_dependents(r->kind) && (d = dependent(r)))
		gck_record_end(d);
	for (d = r->kind == GCK_RECORD_CONTEXT ? first : NULL; d; d = d->next) {
		if (d->context == r && !d->died)
			d->context = NULL;
	}
	if (has_place(r->kind))
		end_placed(r);
	else
		forget(r);
	if (physical && --physical->mappings == 0 && !physical->uses)
		forget(physical);
}

void gck_record_drop(struct gck_record *r)
{
	if (--r->uses)
		return;
	if (!r->mappings)
		gck_record_end(r);
	else if (get(&by_handle, key(r->kind, r->handle)) == r)
		gck_cuda_handle_map_drop(&by_handle, key(r->kind, r->handle));
}

void gck_record_hold(struct gck_record *r)
{
	if (r->uses++ == 0)
		put(&by_handle, key(r->kind, r->handle), r);
}

struct gck_record *gck_record_at(enum gck_record_kind kind, uint64_t address)
{
	struct gck_record *r = first;

	/* Their sizes are the second parameter of cuMemAddressReserve and of cuMemMap. */
	while (r && (r->kind != kind || address < r->handle ||
		     address >= r->handle + r->made.words[1]))
		r = r->next;
	return r;
}

uint64_t gck_record_now(enum gck_record_kind kind, uint64_t handle)
{
	const struct gck_record *r;

	gck_records_lock();
	r = gck_record_find(kind, handle);
	if (r)
		handle = r->now;
	else if (kind == GCK_RECORD_NODE || kind == GCK_RECORD_GRAPH)
		handle = gck_record_node_now(handle);
	else if (kind == GCK_RECORD_CONTEXT)
		handle = gck_record_primary_now(handle);
	gck_records_unlock();
	return handle;
}

/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: objects of the program that graphs hold. A copy of a graph holds what the graph
 * does. The destructor is called at the end of the call that dropped the last reference (by the
 * driver in a thread of its own); launches hold none. */
#include "test/support/driver/graph/graph.h"

#include <limits.h>
#include <stdlib.h>

struct CUuserObject_st {
	struct CUuserObject_st *next;
	CUhostFn destroy;
	void *ptr;
	uint64_t count;
};

struct fake_use {
	struct fake_use *next;
	CUuserObject object;
	uint64_t n;
};

static struct CUuserObject_st *objects, *ended;

static CUuserObject *place_of(CUuserObject object)
{
	CUuserObject *at = &objects;

	while (*at && *at != object)
		at = &(*at)->next;
	return at;
}

static bool is_good(CUuserObject object, unsigned n)
{
	return *place_of(object) && n && n <= INT_MAX;
}

/* Handles are not used again. */
static void drop(CUuserObject object, uint64_t n)
{
	object->count -= n < object->count ? n : object->count;
	if (object->count)
		return;
	*place_of(object) = object->next;
	object->next = ended;
	ended = object;
}

void fake_users_tell(void)
{
	CUuserObject object;

	for (;;) {
		fake_lock();
		object = ended;
		if (object)
			ended = object->next;
		fake_unlock();
		if (!object)
			return;
		object->destroy(object->ptr);
	}
}

void fake_users_anew(void)
{
	objects = NULL;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static struct fake_use **use_of(CUgraph g, CUuserObject object)
{
	struct fake_use **at = &g->uses;

	while (*at && (*at)->object != object)
		at = &(*at)->next;
	return at;
}

static void add(CUgraph g, CUuserObject object, uint64_t n)
{
	struct fake_use **at = use_of(g, object);

	if (!*at) {
		*at = calloc(1, sizeof **at);
		(*at)->object = object;
	}
	(*at)->n += n;
}

static void take(struct fake_use **at, uint64_t n)
{
	struct fake_use *use = *at;

	use->n -= n;
	drop(use->object, n);
	if (use->n)
		return;
	*at = use->next;
	free(use);
}

void fake_uses_copy(CUgraph from, CUgraph to)
{
	for (const struct fake_use *use = from->uses; use; use = use->next) {
		use->object->count += use->n;
		add(to, use->object, use->n);
	}
}

void fake_uses_end(CUgraph g)
{
	while (g->uses)
		take(&g->uses, g->uses->n);
}

/* ---- calls ----------------------------------------------------------------------------------- */

CUresult fake_cuUserObjectCreate(CUuserObject *object, void *ptr, CUhostFn destroy, unsigned int n,
				 unsigned int flags)
{
	if (!object || !destroy || !n || n > INT_MAX || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	*object = calloc(1, sizeof **object);
	fake_lock();
	**object = (struct CUuserObject_st){objects, destroy, ptr, n};
	objects = *object;
	fake_unlock();
	return CUDA_SUCCESS;
}

CUresult fake_cuUserObjectRetain(CUuserObject object, unsigned int n)
{
	bool good;

	fake_lock();
	good = is_good(object, n);
	if (good)
		object->count += n;
	fake_unlock();
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuUserObjectRelease(CUuserObject object, unsigned int n)
{
	bool good;

	fake_lock();
	good = is_good(object, n);
	if (good)
		drop(object, n);
	fake_unlock();
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int n,
				      unsigned int flags)
{
	bool good;

	fake_lock();
	good = fake_is_graph(graph) && is_good(object, n) && flags <= CU_GRAPH_USER_OBJECT_MOVE;
	if (good)
		add(graph, object, n);
	if (good && !flags)
		object->count += n;
	fake_unlock();
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int n)
{
	struct fake_use **at;
	bool good;

	fake_lock();
	good = fake_is_graph(graph) && is_good(object, n);
	at = good ? use_of(graph, object) : NULL;
	good = good && *at && (*at)->n >= n;
	if (good)
		take(at, n);
	fake_unlock();
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

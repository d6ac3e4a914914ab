/* SPDX-License-Identifier: Apache-2.0
 * Objects of the program that graphs hold (cuUserObjectCreate): a table of which graph has how many
 * references, since the driver does not tell. The driver calls an object's destructor by
 * gck_user_end, so that it is known which objects have ended. With the lock, but for that. */
#include "shim/cuda/records/records.h"

#include <limits.h>
#include <stdlib.h>

static struct reference {
	uint64_t graph; /* the driver's */
	struct gck_record *object;
	unsigned n;
} *list;
static size_t n_list, capacity;

/* ---- destructors ----------------------------------------------------------------------------- */

enum state { ALIVE, ENDING, ENDED };

struct gck_record_user *gck_user_new(CUhostFn destroy, void *ptr)
{
	struct gck_record_user *user = malloc(sizeof *user);

	if (!user)
		abort();
	*user = (struct gck_record_user){destroy, ptr, ALIVE};
	return user;
}

void gck_user_end(void *arg)
{
	struct gck_record_user *user = arg;

	atomic_store(&user->state, ENDING);
	user->destroy(user->ptr);
	atomic_store(&user->state, ENDED);
}

bool gck_user_has_ended(const struct gck_record *object)
{
	return atomic_load(&object->user->state) == ENDED;
}

/* Whoever holds no reference any more waits for a thread of the driver's to end it. */
const char *gck_record_user_unable(const struct gck_record *r)
{
	size_t i = 0;

	while (i < n_list && list[i].object != r)
		i++;
	return atomic_load(&r->user->state) != ALIVE || (i == n_list && !r->uses)
		       ? "its destructor has not ended" : NULL;
}

/* ---- references of graphs -------------------------------------------------------------------- */

bool gck_graph_any_holds(void)
{
	return n_list;
}

void gck_graph_hold(uint64_t graph, struct gck_record *object, unsigned n)
{
	size_t i = 0;

	while (i < n_list && (list[i].graph != graph || list[i].object != object))
		i++;
	if (n_list == capacity) {
		capacity = 2 * capacity + 16;
		list = realloc(list, capacity * sizeof *list);
		if (!list)
			abort();
	}
	if (i == n_list)
		list[n_list++] = (struct reference){graph, object, 0};
	list[i].n += n;
}

void gck_graph_let(uint64_t graph, const struct gck_record *object, unsigned n)
{
	for (size_t i = n_list; i-- > 0;) {
		if ((graph && list[i].graph != graph) || (object && list[i].object != object))
			continue;
		list[i].n -= n < list[i].n ? n : list[i].n;
		if (!list[i].n)
			list[i] = list[--n_list];
	}
}

void gck_graph_hold_alike(uint64_t from, uint64_t to)
{
	for (size_t i = 0, n = n_list; i < n; i++) {
		if (list[i].graph == from)
			gck_graph_hold(to, list[i].object, list[i].n);
	}
}

bool gck_graph_holds_older(uint64_t graph, uint64_t born)
{
	size_t i = 0;

	while (i < n_list && (list[i].graph != graph || list[i].object->born < born))
		i++;
	return i == n_list;
}

/* ---- in the driver --------------------------------------------------------------------------- */

#define GRAPH(g) ((CUgraph)(uintptr_t)(g))
#define OBJECT(r) ((CUuserObject)(uintptr_t)(r)->now)

void gck_graph_hold_same(uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < n_list; i++) {
		if (list[i].graph == to)
			gck_cuda_driver.cuGraphReleaseUserObject(GRAPH(to), OBJECT(list[i].object),
								 list[i].n);
	}
	gck_graph_let(to, NULL, UINT_MAX);
	gck_graph_hold_alike(from, to);
	for (size_t i = 0; i < n_list; i++) {
		if (list[i].graph == to)
			gck_cuda_driver.cuGraphRetainUserObject(GRAPH(to), OBJECT(list[i].object),
								list[i].n, 0);
	}
}

CUresult gck_graph_hold_again(uint64_t before, uint64_t now)
{
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; i < n_list && !rc; i++) {
		if (list[i].graph != before)
			continue;
		list[i].graph = now;
		rc = gck_cuda_driver.cuGraphRetainUserObject(GRAPH(now), OBJECT(list[i].object),
							     list[i].n, 0);
	}
	return rc;
}

/* One reference more, if the program has none, until graphs have theirs. */
CUresult gck_record_user_make(const struct gck_record *r, uint64_t *now)
{
	return gck_cuda_driver.cuUserObjectCreate((CUuserObject *)now, r->user, gck_user_end,
						  r->uses ? r->uses : 1,
						  CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
}

CUresult gck_record_user_let(const struct gck_record *r)
{
	return r->uses ? CUDA_SUCCESS : gck_cuda_driver.cuUserObjectRelease(OBJECT(r), 1);
}

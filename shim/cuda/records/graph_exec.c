/* SPDX-License-Identifier: Apache-2.0
 * What is kept of graphs and executable graphs as calls make and change them. */
#include "shim/cuda/records/records.h"

#include <limits.h>
#include <stdlib.h>

#define DRIVER gck_cuda_driver

/* ---- objects of the program ------------------------------------------------------------------ */

void gck_record_users_forget(void)
{
	struct gck_record *next;

	for (struct gck_record *r = gck_records_first(); r; r = next) {
		next = r->next;
		if (r->kind != GCK_RECORD_USER || !gck_user_has_ended(r))
			continue;
		gck_graph_let(0, r, UINT_MAX);
		gck_record_end(r); /* takes nothing with it */
	}
}

CUresult gck_record_user_create(CUuserObject *object, void *ptr, CUhostFn destroy, unsigned n,
				unsigned flags)
{
	struct gck_record_user *user;
	struct gck_record *r;
	CUresult rc;

	if (!object || !destroy)
		return DRIVER.cuUserObjectCreate(object, ptr, destroy, n, flags);
	user = gck_user_new(destroy, ptr);
	rc = DRIVER.cuUserObjectCreate(object, user, gck_user_end, n, flags);
	if (rc) {
		free(user);
		return rc;
	}
	gck_records_lock();
	gck_record_users_forget();
	r = gck_record_add(GCK_RECORD_USER, (uintptr_t)*object);
	r->user = user;
	r->uses = n;
	gck_records_unlock();
	return CUDA_SUCCESS;
}

/* References of the program: after their last one its handle may be another's. */
static void use(CUuserObject object, unsigned more, unsigned less)
{
	struct gck_record *r;

	gck_records_lock();
	r = gck_record_find(GCK_RECORD_USER, (uintptr_t)object);
	if (r)
		r->uses += more - less;
	gck_records_unlock();
}

#define NOW(kind, handle) \
	((__typeof__(handle))(uintptr_t)gck_now(GCK_RECORD_##kind, (uintptr_t)(handle)))

CUresult gck_record_user_retain(CUuserObject object, unsigned n)
{
	CUresult rc = DRIVER.cuUserObjectRetain(NOW(USER, object), n);

	if (!rc)
		use(object, n, 0);
	return rc;
}

CUresult gck_record_user_release(CUuserObject object, unsigned n)
{
	CUuserObject now = NOW(USER, object);
	CUresult rc;

	use(object, 0, n);
	rc = DRIVER.cuUserObjectRelease(now, n);
	if (rc)
		use(object, n, 0);
	return rc;
}

/* n references more, or less. */
static void hold(CUgraph now, CUuserObject object, unsigned n, bool more)
{
	struct gck_record *r;

	gck_records_lock();
	r = gck_record_find(GCK_RECORD_USER, (uintptr_t)object);
	if (r && more)
		gck_graph_hold((uintptr_t)now, r, n);
	else if (r)
		gck_graph_let((uintptr_t)now, r, n);
	gck_records_unlock();
}

CUresult gck_record_graph_retain(CUgraph graph, CUuserObject object, unsigned n, unsigned flags)
{
	CUgraph now = NOW(GRAPH, graph);
	CUresult rc = DRIVER.cuGraphRetainUserObject(now, NOW(USER, object), n, flags);

	if (!rc)
		hold(now, object, n, true);
	if (!rc && flags & CU_GRAPH_USER_OBJECT_MOVE)
		use(object, 0, n);
	return rc;
}

CUresult gck_record_graph_release(CUgraph graph, CUuserObject object, unsigned n)
{
	CUuserObject object_now = NOW(USER, object);
	CUgraph now = NOW(GRAPH, graph);
	CUresult rc;

	hold(now, object, n, false);
	rc = DRIVER.cuGraphReleaseUserObject(now, object_now, n);
	if (rc)
		hold(now, object, n, true);
	return rc;
}

/* A copy holds what its original holds, and so do graphs in nodes. */
static void hold_alike(uint64_t graph, uint64_t copy)
{
	size_t n = 0, ncopy = 0;
	CUgraphNode *nodes, *copies;

	if (!gck_graph_any_holds())
		return;
	gck_graph_hold_alike(graph, copy);
	nodes = gck_graph_nodes(graph, &n);
	copies = gck_graph_nodes(copy, &ncopy);
	for (size_t i = 0; nodes && copies && i < n && i < ncopy; i++) {
		if (gck_graph_child(nodes[i]) && gck_graph_child(copies[i]))
			hold_alike(gck_graph_child(nodes[i]), gck_graph_child(copies[i]));
	}
	free(nodes);
	free(copies);
}

void gck_record_child_added(CUgraphNode node, CUgraph child)
{
	uint64_t copy = gck_graph_child(NOW(NODE, node)), graph = (uintptr_t)NOW(GRAPH, child);

	gck_records_lock();
	hold_alike(graph, copy);
	gck_records_unlock();
}

void gck_record_node_added(CUgraphNode node, const CUgraphNodeParams *p,
			   gck_record_get_function *get)
{
	gck_record_kernel_known(node, get);
	if (p->type == CU_GRAPH_NODE_TYPE_GRAPH &&
	    p->graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
		gck_record_child_added(node, p->graph.graph);
}

static void let_all(uint64_t graph)
{
	size_t n = 0;
	CUgraphNode *nodes;

	if (!gck_graph_any_holds())
		return;
	gck_graph_let(graph, NULL, UINT_MAX);
	nodes = gck_graph_nodes(graph, &n);
	for (size_t i = 0; nodes && i < n; i++) {
		if (gck_graph_child(nodes[i]))
			let_all(gck_graph_child(nodes[i]));
	}
	free(nodes);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Nodes of a graph in a node are found by their places, since the driver finds only others. */
static CUgraphNode copy_of(CUgraphNode node, uint64_t copy, CUgraphNode at_place, bool is_child)
{
	CUgraphNode found = NULL;

	if (is_child)
		return gck_graph_type(node) == gck_graph_type(at_place) ? at_place : NULL;
	return DRIVER.cuGraphNodeFindInClone(&found, node, (CUgraph)(uintptr_t)copy) ? NULL : found;
}

/* Notes the copies of a graph's nodes. deep: also those of graphs in nodes. */
static void pair(struct gck_record *r, uint64_t graph, uint64_t copy, bool deep, bool is_child)
{
	size_t n = 0, ncopy = 0;
	CUgraphNode *nodes = gck_graph_nodes(graph, &n), *copies = gck_graph_nodes(copy, &ncopy);

	for (size_t i = 0; nodes && copies && i < n && n == ncopy; i++) {
		CUgraphNode found = copy_of(nodes[i], copy, copies[i], is_child);

		if (!found)
			continue;
		gck_graph_put(&r->graph->pairs, gck_record_node_handle((uintptr_t)nodes[i]),
			      (uintptr_t)found);
		if (deep && gck_graph_child(nodes[i]))
			pair(r, gck_graph_child(nodes[i]), gck_graph_child(found), deep, true);
	}
	free(nodes);
	free(copies);
}

void gck_record_graph_made(struct gck_record *r, uint64_t of)
{
	const struct gck_record *graph = of ? gck_record_find(GCK_RECORD_GRAPH, of) : NULL;
	uint64_t now = graph ? graph->now : gck_record_node_now(of);
	CUgraph own;

	r->graph = calloc(1, sizeof *r->graph);
	if (!r->graph)
		abort();
	if (!of)
		return;
	if (r->kind == GCK_RECORD_GRAPH) {
		pair(r, now, r->now, false, false);
	} else if (!DRIVER.cuGraphClone(&own, (CUgraph)(uintptr_t)now)) {
		r->graph->own = (uintptr_t)own;
		pair(r, now, r->graph->own, true, false);
	}
	if (r->kind == GCK_RECORD_GRAPH || r->graph->own)
		hold_alike(now, r->kind == GCK_RECORD_GRAPH ? r->now : r->graph->own);
}

void gck_record_graph_forget(struct gck_record *r)
{
	struct gck_record_graph *g = r->graph;

	if (!g)
		return;
	if (g->own) {
		let_all(g->own);
		DRIVER.cuGraphDestroy((CUgraph)(uintptr_t)g->own);
	}
	gck_graph_free(g->asked);
	free(g->pairs.entries);
	free(g->disabled.entries);
	free(g);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* NULL: none that is recorded, or it could not be copied. With the lock. */
static struct gck_record *find(CUgraphExec executable)
{
	struct gck_record *r = gck_record_find(GCK_RECORD_EXECUTABLE, (uintptr_t)executable);

	return r && r->graph->own ? r : NULL;
}

/* A node that has ended, or is none of its own, is not found, as the driver would not find it. */
CUgraphNode gck_record_executable_node(CUgraphExec executable, CUgraphNode node)
{
	uint64_t now = (uintptr_t)node;
	const struct gck_record *r;

	if (!atomic_load(&gck_records_age))
		return node;
	gck_records_lock();
	r = find(executable);
	now = gck_record_node_now((uintptr_t)node);
	if (r && r->graph->again && now != (uintptr_t)node)
		now = gck_graph_get(&r->graph->pairs, (uintptr_t)node);
	gck_records_unlock();
	return (CUgraphNode)(uintptr_t)now;
}

CUgraphNode gck_record_same_node(CUgraphExec executable, CUgraphNode node)
{
	const struct gck_record *r;
	uint64_t same = 0;

	gck_records_lock();
	r = find(executable);
	if (r)
		same = gck_graph_get(&r->graph->pairs, (uintptr_t)node);
	gck_records_unlock();
	return (CUgraphNode)(uintptr_t)same;
}

static void spoil(struct gck_record *r, CUresult rc)
{
	if (rc)
		r->unable = "a change that could not be made in its copy";
}

void gck_record_same_done(CUgraphExec executable, CUresult rc)
{
	gck_records_lock();
	if (rc)
		spoil(find(executable), rc);
	gck_records_unlock();
}

void gck_record_executable_enabled(CUgraphExec executable, CUgraphNode node, unsigned enabled)
{
	uint64_t same = (uintptr_t)gck_record_same_node(executable, node);
	struct gck_record *r;

	gck_records_lock();
	r = find(executable);
	if (r && same)
		gck_graph_put(&r->graph->disabled, same, !enabled);
	gck_records_unlock();
}

/* ---- changes of the whole -------------------------------------------------------------------- */

static CUresult take_kernel(CUgraphNode from, CUgraphNode to)
{
	CUDA_KERNEL_NODE_PARAMS p;
	CUresult rc = DRIVER.cuGraphKernelNodeGetParams_v2(from, &p);

	rc = rc ? rc : DRIVER.cuGraphKernelNodeSetParams_v2(to, &p);
	return rc ? rc : DRIVER.cuGraphKernelNodeCopyAttributes(to, from);
}

static CUresult take_event(CUgraphNode from, CUgraphNode to, bool wait)
{
	CUevent event;
	CUresult rc = wait ? DRIVER.cuGraphEventWaitNodeGetEvent(from, &event)
			   : DRIVER.cuGraphEventRecordNodeGetEvent(from, &event);

	if (rc)
		return rc;
	return wait ? DRIVER.cuGraphEventWaitNodeSetEvent(to, event)
		    : DRIVER.cuGraphEventRecordNodeSetEvent(to, event);
}

static CUresult take_graph(uint64_t from, uint64_t to);

static CUresult take(CUgraphNode from, CUgraphNode to)
{
	CUDA_MEMSET_NODE_PARAMS memset;
	CUDA_BATCH_MEM_OP_NODE_PARAMS values;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_MEMCPY3D copy;
	CUresult rc;

	if (gck_graph_type(from) != gck_graph_type(to))
		return CUDA_ERROR_INVALID_VALUE;
	switch (gck_graph_type(from)) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return take_kernel(from, to);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		rc = DRIVER.cuGraphMemcpyNodeGetParams(from, &copy);
		return rc ? rc : DRIVER.cuGraphMemcpyNodeSetParams(to, &copy);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		rc = DRIVER.cuGraphMemsetNodeGetParams(from, &memset);
		return rc ? rc : DRIVER.cuGraphMemsetNodeSetParams(to, &memset);
	case CU_GRAPH_NODE_TYPE_HOST:
		rc = DRIVER.cuGraphHostNodeGetParams(from, &host);
		return rc ? rc : DRIVER.cuGraphHostNodeSetParams(to, &host);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		rc = DRIVER.cuGraphBatchMemOpNodeGetParams(from, &values);
		return rc ? rc : DRIVER.cuGraphBatchMemOpNodeSetParams(to, &values);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return take_graph(gck_graph_child(from), gck_graph_child(to));
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return take_event(from, to,
				  gck_graph_type(from) == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

/* A graph's edges: a number for each, by the places of its nodes. False: they are not told. */
static bool find_edges(uint64_t graph, const CUgraphNode *nodes, size_t n,
		       struct gck_cuda_handle_map *edges)
{
	struct gck_cuda_handle_map places = {0};
	CUgraphNode *ends = NULL;
	CUgraphEdgeData *data = NULL;
	size_t count = 0;
	bool told = gck_graph_edges(graph, &ends, &data, &count);

	for (size_t i = 0; i < n; i++)
		gck_graph_put(&places, (uintptr_t)nodes[i], i);
	for (size_t i = 0; i < count && told; i++)
		gck_graph_put(edges, 1 + n * gck_graph_get(&places, (uintptr_t)ends[i]) +
				     gck_graph_get(&places, (uintptr_t)ends[count + i]), 1);
	free(places.entries);
	free(ends);
	free(data);
	return told;
}

/* Whether nodes at the same places depend on each other alike. */
static bool has_same_edges(uint64_t a, const CUgraphNode *anodes, uint64_t b,
			   const CUgraphNode *bnodes, size_t n)
{
	struct gck_cuda_handle_map one = {0}, other = {0};
	bool same = find_edges(a, anodes, n, &one) && find_edges(b, bnodes, n, &other) &&
		    one.n == other.n;

	for (size_t i = 0; i < one.capacity && same; i++)
		same = !one.entries[i].handle || gck_graph_get(&other, one.entries[i].handle);
	free(one.entries);
	free(other.entries);
	return same;
}

/* The parameters of the nodes at the same places, and references to objects. */
static CUresult take_graph(uint64_t from, uint64_t to)
{
	size_t n = 0, nto = 0;
	CUgraphNode *a = gck_graph_nodes(from, &n), *b = gck_graph_nodes(to, &nto);
	CUresult rc = a && b && n == nto && has_same_edges(from, a, to, b, n)
			      ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	for (size_t i = 0; i < n && !rc; i++)
		rc = take(a[i], b[i]);
	if (!rc)
		gck_graph_hold_same(from, to);
	free(a);
	free(b);
	return rc;
}

static uint64_t graph_now(CUgraph graph)
{
	const struct gck_record *r = gck_record_find(GCK_RECORD_GRAPH, (uintptr_t)graph);

	return r ? r->now : gck_record_node_now((uintptr_t)graph);
}

void gck_record_executable_child(CUgraphExec executable, CUgraphNode node, CUgraph child)
{
	CUgraphNode same = gck_record_same_node(executable, node);
	struct gck_record *r;

	gck_records_lock();
	r = find(executable);
	if (r && same)
		spoil(r, take_graph(graph_now(child), gck_graph_child(same)));
	gck_records_unlock();
}

void gck_record_executable_updated(CUgraphExec executable, CUgraph graph)
{
	struct gck_record *r;

	gck_records_lock();
	r = find(executable);
	if (r)
		spoil(r, take_graph(graph_now(graph), r->graph->own));
	gck_records_unlock();
}

/* SPDX-License-Identifier: Apache-2.0
 * What is kept of graphs and executable graphs as calls make and change them. */
#include "shim/cuda/records/records.h"

#include <stdlib.h>

#define DRIVER gck_cuda_driver

/* ---- objects of the program ------------------------------------------------------------------ */

static struct gck_cuda_handle_map held; /* the driver's graphs that hold some */

bool gck_graph_has_held(uint64_t now)
{
	return gck_graph_get(&held, now);
}

void gck_graph_drop_held(uint64_t now)
{
	gck_cuda_handle_map_drop(&held, now);
}

void gck_record_graph_holds(uint64_t graph)
{
	const struct gck_record *r = gck_record_find(GCK_RECORD_GRAPH, graph);

	gck_graph_put(&held, r ? r->now : gck_record_node_now(graph), 1);
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
	if (gck_graph_has_held(now))
		gck_graph_put(&held, r->kind == GCK_RECORD_GRAPH ? r->now : r->graph->own, 1);
}

void gck_record_graph_forget(struct gck_record *r)
{
	struct gck_record_graph *g = r->graph;

	if (!g)
		return;
	if (g->own) {
		DRIVER.cuGraphDestroy((CUgraph)(uintptr_t)g->own);
		gck_graph_drop_held(g->own);
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

/* The parameters of the nodes at the same places. */
static CUresult take_graph(uint64_t from, uint64_t to)
{
	size_t n = 0, nto = 0;
	CUgraphNode *a = gck_graph_nodes(from, &n), *b = gck_graph_nodes(to, &nto);
	CUresult rc = a && b && n == nto && has_same_edges(from, a, to, b, n)
			      ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	for (size_t i = 0; i < n && !rc; i++)
		rc = take(a[i], b[i]);
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

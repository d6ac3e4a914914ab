/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: the order of a graph's nodes. */
#include "test/support/driver/graph/graph.h"

#include <stdlib.h>
#include <string.h>

bool fake_is_before(CUgraph g, CUgraphNode a, CUgraphNode b)
{
	bool found = a == b;

	for (size_t i = 0; i < g->nedges && !found; i++)
		found = g->edges[i].to == b && fake_is_before(g, a, g->edges[i].from);
	return found;
}

static struct fake_edge *find(CUgraph g, CUgraphNode from, CUgraphNode to)
{
	for (size_t i = 0; i < g->nedges; i++) {
		if (g->edges[i].from == from && g->edges[i].to == to)
			return &g->edges[i];
	}
	return NULL;
}

static bool is_of(CUgraph g, CUgraphNode n)
{
	CUgraphNode i = g->first;

	while (i && i != n)
		i = i->next;
	return n && i;
}

/* Only kernels let what depends on them begin early. */
static bool is_good(CUgraphNode from, const CUgraphEdgeData *data)
{
	return !data || (!data->from_port && !data->type) ||
	       (from->type == CU_GRAPH_NODE_TYPE_KERNEL &&
		data->from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER);
}

static CUresult add(CUgraph g, CUgraphNode from, CUgraphNode to, const CUgraphEdgeData *data)
{
	struct fake_edge *edges;

	if (!is_of(g, from) || !is_of(g, to) || find(g, from, to) ||
	    fake_is_before(g, to, from) || !is_good(from, data))
		return CUDA_ERROR_INVALID_VALUE;
	edges = realloc(g->edges, (g->nedges + 1) * sizeof *edges);
	edges[g->nedges++] = (struct fake_edge){from, to,
						data ? *data : (CUgraphEdgeData){.type = 0}};
	g->edges = edges;
	return CUDA_SUCCESS;
}

static void remove_edge(CUgraph g, struct fake_edge *e)
{
	g->nedges--;
	memmove(e, e + 1, (size_t)(g->edges + g->nedges - e) * sizeof *e);
}

CUresult fake_edges_add(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
			const CUgraphEdgeData *data, size_t n)
{
	CUresult rc = CUDA_SUCCESS;
	size_t i;

	for (i = 0; i < n && !rc; i++)
		rc = add(g, from[i], to[i], data ? &data[i] : NULL);
	while (rc && --i > 0)
		remove_edge(g, &g->edges[g->nedges - 1]);
	return rc;
}

CUresult fake_edges_to(CUgraph g, CUgraphNode to, const CUgraphNode *from,
		       const CUgraphEdgeData *data, size_t n)
{
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; i < n && !rc; i++)
		rc = add(g, from[i], to, data ? &data[i] : NULL);
	return rc;
}

void fake_edges_end(CUgraph g, CUgraphNode n)
{
	for (size_t i = g->nedges; i-- > 0;) {
		if (g->edges[i].from == n || g->edges[i].to == n)
			remove_edge(g, &g->edges[i]);
	}
}

/* ---- calls ----------------------------------------------------------------------------------- */

CUresult fake_cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
					const CUgraphNode *to, const CUgraphEdgeData *data,
					size_t n)
{
	CUresult rc;

	fake_lock();
	rc = fake_is_graph(graph) ? fake_edges_add(graph, from, to, data, n)
				  : CUDA_ERROR_INVALID_VALUE;
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
					   const CUgraphNode *to, const CUgraphEdgeData *data,
					   size_t n)
{
	CUresult rc;

	(void)data;
	fake_lock();
	rc = fake_is_graph(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n && !rc; i++)
		rc = find(graph, from[i], to[i]) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n && !rc; i++)
		remove_edge(graph, find(graph, from[i], to[i]));
	fake_unlock();
	return rc;
}

struct lists {
	CUgraphNode *from, *to;
	CUgraphEdgeData *data;
	size_t *n;
};

/* The edges to and from a node; NULL: any. Room that is left gets NULL. */
static CUresult list(CUgraph g, CUgraphNode from, CUgraphNode to, const struct lists *l)
{
	bool wanted = l->from || l->to;
	size_t room = wanted ? *l->n : 0, n = 0;

	for (size_t i = 0; i < g->nedges; i++) {
		const struct fake_edge *e = &g->edges[i];

		if ((from && e->from != from) || (to && e->to != to) || (wanted && n == room))
			continue;
		if (wanted && l->from)
			l->from[n] = e->from;
		if (wanted && l->to)
			l->to[n] = e->to;
		if (wanted && l->data)
			l->data[n] = e->data;
		else if (wanted && (e->data.type || e->data.from_port))
			return CUDA_ERROR_LOSSY_QUERY;
		n++;
	}
	for (size_t i = n; i < room; i++) {
		if (l->from)
			l->from[i] = NULL;
		if (l->to)
			l->to[i] = NULL;
	}
	*l->n = n;
	return CUDA_SUCCESS;
}

CUresult fake_cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
				 CUgraphEdgeData *data, size_t *n)
{
	CUresult rc;

	fake_lock();
	rc = fake_is_graph(graph)
		     ? list(graph, NULL, NULL, &(const struct lists){from, to, data, n})
		     : CUDA_ERROR_INVALID_VALUE;
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes,
					    CUgraphEdgeData *data, size_t *n)
{
	CUresult rc;

	fake_lock();
	rc = fake_is_node(node) ? list(node->graph, NULL, node,
				       &(const struct lists){nodes, NULL, data, n})
				: CUDA_ERROR_INVALID_VALUE;
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
					      CUgraphEdgeData *data, size_t *n)
{
	CUresult rc;

	fake_lock();
	rc = fake_is_node(node) ? list(node->graph, node, NULL,
				       &(const struct lists){NULL, nodes, data, n})
				: CUDA_ERROR_INVALID_VALUE;
	fake_unlock();
	return rc;
}

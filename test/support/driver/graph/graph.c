/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: graphs and their nodes. */
#include "test/support/driver/graph/graph.h"

#include <stdlib.h>
#include <string.h>

static struct CUgraph_st *graphs;
static uint64_t ids;

/* ---- those that there are -------------------------------------------------------------------- */

static bool has_node(CUgraph g, CUgraphNode n)
{
	for (CUgraphNode i = g->first; i; i = i->next) {
		if (i == n || (i->child && has_node(i->child, n)))
			return true;
	}
	return false;
}

static bool has_graph(CUgraph g, CUgraph wanted)
{
	for (CUgraphNode i = g->first; i; i = i->next) {
		if (i->child && (i->child == wanted || has_graph(i->child, wanted)))
			return true;
	}
	return g == wanted;
}

bool fake_is_graph(CUgraph wanted)
{
	CUgraph g = graphs;

	while (g && !has_graph(g, wanted))
		g = g->next;
	return wanted && g;
}

bool fake_is_node(CUgraphNode n)
{
	CUgraph g = graphs;

	while (g && !has_node(g, n))
		g = g->next;
	return n && g;
}

size_t fake_graph_size(CUgraph g)
{
	size_t n = 0;

	for (CUgraphNode i = g->first; i; i = i->next)
		n++;
	return n;
}

CUgraphNode fake_graph_node(CUgraph g, size_t i)
{
	CUgraphNode n = g->first;

	while (i--)
		n = n->next;
	return n;
}

/* ---- making and ending ----------------------------------------------------------------------- */

CUgraph fake_graph_new(void)
{
	CUgraph g = calloc(1, sizeof *g);

	g->id = ++ids;
	return g;
}

void fake_graph_list(CUgraph g)
{
	g->next = graphs;
	graphs = g;
}

CUgraphNode fake_node_new(CUgraph g, CUgraphNodeType type)
{
	CUgraphNode n = calloc(1, sizeof *n), *at = &g->first;

	*n = (struct CUgraphNode_st){.graph = g, .type = type, .id = ++ids};
	while (*at)
		at = &(*at)->next;
	*at = n;
	return n;
}

static size_t place_of(CUgraph g, CUgraphNode n)
{
	size_t at = 0;

	for (CUgraphNode i = g->first; i != n; i = i->next)
		at++;
	return at;
}

CUgraph fake_graph_copy(CUgraph g, CUgraphNode parent)
{
	CUgraph copy = fake_graph_new();

	copy->from = g->id;
	copy->parent = parent;
	for (CUgraphNode i = g->first; i; i = i->next) {
		CUgraphNode n = fake_node_new(copy, i->type);

		n->from = i->id;
		fake_copy_params(n, i);
		n->child = i->child ? fake_graph_copy(i->child, n) : NULL;
	}
	fake_uses_copy(g, copy);
	copy->nedges = g->nedges;
	copy->edges = calloc(g->nedges + 1, sizeof *copy->edges);
	for (size_t i = 0; i < g->nedges; i++) {
		copy->edges[i] = g->edges[i];
		copy->edges[i].from = fake_graph_node(copy, place_of(g, g->edges[i].from));
		copy->edges[i].to = fake_graph_node(copy, place_of(g, g->edges[i].to));
	}
	return copy;
}

void fake_node_free(CUgraphNode n)
{
	if (n->child)
		fake_graph_free(n->child);
	free(n->op.block);
	free(n);
}

void fake_graph_free(CUgraph g)
{
	CUgraphNode n;

	while ((n = g->first)) {
		g->first = n->next;
		fake_node_free(n);
	}
	fake_uses_end(g);
	free(g->edges);
	free(g);
}

CUgraphNode fake_node_copy_of(CUgraph g, CUgraphNode n)
{
	CUgraphNode found = NULL;

	for (CUgraphNode i = g->first; i && !found; i = i->next) {
		found = i->from == n->id ? i
			: i->child	 ? fake_node_copy_of(i->child, n)
					 : NULL;
	}
	return found;
}

/* ---- calls ----------------------------------------------------------------------------------- */

CUresult fake_cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	fake_lock();
	*graph = fake_graph_new();
	fake_graph_list(*graph);
	fake_unlock();
	return CUDA_SUCCESS;
}

/* Graphs with memory nodes have none. */
static bool can_copy(CUgraph g)
{
	for (CUgraphNode i = g->first; i; i = i->next) {
		if (i->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
		    i->type == CU_GRAPH_NODE_TYPE_MEM_FREE || (i->child && !can_copy(i->child)))
			return false;
	}
	return true;
}

CUresult fake_cuGraphClone(CUgraph *clone, CUgraph graph)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	fake_lock();
	if (fake_is_graph(graph))
		rc = can_copy(graph) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
	if (!rc) {
		*clone = fake_graph_copy(graph, NULL);
		fake_graph_list(*clone);
	}
	fake_unlock();
	return rc;
}

bool fake_graph_move(CUgraph graph, CUgraphNode parent)
{
	struct CUgraph_st **at = &graphs;

	while (*at && *at != graph)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = graph->next;
	graph->parent = parent;
	return true;
}

/* Not one that a node owns. */
CUresult fake_cuGraphDestroy(CUgraph graph)
{
	bool good;

	fake_lock();
	good = fake_graph_move(graph, NULL);
	if (good)
		fake_graph_free(graph);
	fake_unlock();
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuGraphDestroyNode(CUgraphNode node)
{
	CUgraphNode *at;
	CUresult rc;

	fake_lock();
	rc = fake_is_node(node) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (!rc) {
		fake_edges_end(node->graph, node);
		at = &node->graph->first;
		while (*at != node)
			at = &(*at)->next;
		*at = node->next;
		fake_node_free(node);
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode node, CUgraph clone)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	fake_lock();
	if (fake_is_node(node) && fake_is_graph(clone) && !clone->parent &&
	    clone->from == node->graph->id) {
		*found = clone->first;
		while (*found && (*found)->from != node->id)
			*found = (*found)->next;
		rc = *found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	fake_lock();
	if (fake_is_node(node) && node->child) {
		*graph = node->child;
		rc = CUDA_SUCCESS;
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	CUresult rc;

	fake_lock();
	rc = fake_is_node(node) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		*type = node->type;
	fake_unlock();
	return rc;
}

static bool has_dependencies(CUgraphNode n)
{
	size_t i = 0;

	while (i < n->graph->nedges && n->graph->edges[i].to != n)
		i++;
	return i < n->graph->nedges;
}

/* All of them, or those without dependencies. Room that is left gets NULL. */
static CUresult list(CUgraph g, CUgraphNode *nodes, size_t *n, bool roots)
{
	size_t found = 0, room = nodes ? *n : 0;

	if (!fake_is_graph(g))
		return CUDA_ERROR_INVALID_VALUE;
	for (CUgraphNode i = g->first; i; i = i->next) {
		if (roots && has_dependencies(i))
			continue;
		if (found < room)
			nodes[found] = i;
		found += !nodes || found < room;
	}
	for (size_t i = found; i < room; i++)
		nodes[i] = NULL;
	*n = found;
	return CUDA_SUCCESS;
}

CUresult fake_cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
	CUresult rc;

	fake_lock();
	rc = list(graph, nodes, n, false);
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
	CUresult rc;

	fake_lock();
	rc = list(graph, nodes, n, true);
	fake_unlock();
	return rc;
}

/* Handles are not used again. */
void fake_graphs_anew(void)
{
	graphs = NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: executable graphs. A launch gives the nodes to the stream one after the other,
 * in an order that the edges allow. */
#include "test/support/driver/graph/graph.h"

#include <stdlib.h>
#include <string.h>


struct CUgraphExec_st {
	struct CUgraphExec_st *next;
	CUgraph graph;
	unsigned long long flags;
};

static struct CUgraphExec_st *executables;

static bool is_executable(CUgraphExec wanted)
{
	CUgraphExec e = executables;

	while (e && e != wanted)
		e = e->next;
	return wanted && e;
}

/* ---- making and ending ----------------------------------------------------------------------- */

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	fake_lock();
	if (fake_is_graph(graph) && flags < 16) {
		*exec = calloc(1, sizeof **exec);
		**exec = (struct CUgraphExec_st){executables, fake_graph_copy(graph, NULL), flags};
		executables = *exec;
		rc = CUDA_SUCCESS;
	}
	fake_unlock();
	return rc;
}

/* To upload it, a stream is needed. */
CUresult fake_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
					  unsigned long long flags)
{
	return flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD ? CUDA_ERROR_INVALID_VALUE
							  : instantiate(exec, graph, flags);
}

CUresult fake_cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	CUresult rc = instantiate(exec, graph, p->flags);

	p->hErrNode_out = NULL;
	p->result_out = rc ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
	return rc || !(p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		       ? rc : fake_cuGraphUpload(*exec, p->hUploadStream);
}

CUresult fake_cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
	CUresult rc;

	fake_lock();
	rc = is_executable(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	*flags = rc ? 0 : exec->flags;
	fake_unlock();
	return rc;
}

/* A launch runs a copy, so this is safe. */
CUresult fake_cuGraphExecDestroy(CUgraphExec exec)
{
	struct CUgraphExec_st **at = &executables;
	CUresult rc;

	fake_lock();
	while (*at && *at != exec)
		at = &(*at)->next;
	rc = *at ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (!rc) {
		*at = exec->next;
		fake_graph_free(exec->graph);
		free(exec);
	}
	fake_unlock();
	return rc;
}

void fake_executables_anew(void)
{
	executables = NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

static CUresult run_node(CUgraphNode n, struct CUstream_st *s)
{
	if (n->disabled)
		return CUDA_SUCCESS;
	if (n->child)
		return fake_run_graph(n->child, s);
	if (n->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || n->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
		return fake_give_event(n->of.event, s, n->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
	return n->op.run ? fake_give(s, &n->op) : CUDA_SUCCESS;
}

/* Whether all that the node depends on has been run. */
static bool is_next(CUgraph g, CUgraphNode n, const bool *done)
{
	size_t at;

	for (size_t i = 0; i < g->nedges; i++) {
		if (g->edges[i].to != n)
			continue;
		at = 0;
		for (CUgraphNode j = g->first; j != g->edges[i].from; j = j->next)
			at++;
		if (!done[at])
			return false;
	}
	return true;
}

CUresult fake_run_graph(CUgraph g, struct CUstream_st *s)
{
	size_t n = fake_graph_size(g);
	bool *done = calloc(n + 1, sizeof *done);
	CUresult rc = s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;

	for (size_t run = 0; run < n && !rc;) {
		size_t i = 0;

		for (CUgraphNode node = g->first; node && !rc; node = node->next, i++) {
			if (done[i] || !is_next(g, node, done))
				continue;
			rc = run_node(node, s);
			done[i] = true;
			run++;
		}
	}
	free(done);
	return rc;
}

CUresult fake_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	struct CUstream_st *s;

	fake_lock();
	s = fake_stream(stream);
	if (is_executable(exec) && s && s->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE)
		rc = fake_capture_graph(s, exec->graph);
	else if (is_executable(exec))
		rc = fake_run_graph(exec->graph, s);
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	CUresult rc;

	fake_lock();
	rc = is_executable(exec) && fake_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	fake_unlock();
	return rc;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Its own node for one of the graph that it was made of; NULL: none. */
static CUgraphNode own_node(CUgraphExec exec, CUgraphNode n, CUgraphNodeType type)
{
	CUgraphNode own = NULL;

	fake_lock();
	if (is_executable(exec) && fake_is_node(n) && n->type == type)
		own = fake_node_copy_of(exec->graph, n);
	fake_unlock();
	return own;
}

/* Copies and fills stay on their devices. */
static bool is_same(CUgraphNode own, CUcontext ctx)
{
	ctx = ctx ? ctx : fake_current();
	return ctx && own->context->device == ctx->device;
}

#define OF_EXECUTABLE(name, type, parameters, call) \
	CUresult fake_##name parameters \
	{ \
		CUgraphNode own = own_node(exec, n, type); \
		return own ? (call) : CUDA_ERROR_INVALID_VALUE; \
	}
#define WHERE CUgraphExec exec, CUgraphNode n

OF_EXECUTABLE(cuGraphExecKernelNodeSetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL,
	      (WHERE, const CUDA_KERNEL_NODE_PARAMS *p), fake_set_kernel(own, p))
OF_EXECUTABLE(cuGraphExecMemcpyNodeSetParams, CU_GRAPH_NODE_TYPE_MEMCPY,
	      (WHERE, const CUDA_MEMCPY3D *p, CUcontext ctx),
	      is_same(own, ctx) ? fake_set_memcpy(own, p, ctx) : CUDA_ERROR_INVALID_VALUE)
OF_EXECUTABLE(cuGraphExecMemsetNodeSetParams, CU_GRAPH_NODE_TYPE_MEMSET,
	      (WHERE, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx),
	      p->height == 1 && own->of.memset.height == 1 && is_same(own, ctx)
		      ? fake_set_memset(own, p, ctx) : CUDA_ERROR_INVALID_VALUE)
OF_EXECUTABLE(cuGraphExecHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST,
	      (WHERE, const CUDA_HOST_NODE_PARAMS *p), fake_set_host(own, p))
OF_EXECUTABLE(cuGraphExecEventRecordNodeSetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
	      (WHERE, CUevent event), fake_set_event(own, event))
OF_EXECUTABLE(cuGraphExecEventWaitNodeSetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
	      (WHERE, CUevent event), fake_set_event(own, event))
OF_EXECUTABLE(cuGraphExecBatchMemOpNodeSetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	      (WHERE, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p), fake_set_values(own, p))
OF_EXECUTABLE(cuGraphExecNodeSetParams, p->type, (WHERE, CUgraphNodeParams *p),
	      p->type == CU_GRAPH_NODE_TYPE_GRAPH
		      ? fake_cuGraphExecChildGraphNodeSetParams(exec, n, p->graph.graph)
		      : fake_set_params(own, p))

static bool can_be_disabled(CUgraphNode n)
{
	bool yes;

	fake_lock();
	yes = fake_is_node(n) && n->type <= CU_GRAPH_NODE_TYPE_MEMSET;
	fake_unlock();
	return yes;
}

CUresult fake_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode n, unsigned int enabled)
{
	CUgraphNode own = can_be_disabled(n) ? own_node(exec, n, n->type) : NULL;

	if (own)
		own->disabled = !enabled;
	return own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode n, unsigned int *enabled)
{
	CUgraphNode own = can_be_disabled(n) ? own_node(exec, n, n->type) : NULL;

	if (own)
		*enabled = !own->disabled;
	return own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- changes of the whole -------------------------------------------------------------------- */

static size_t place_of(CUgraph g, CUgraphNode n)
{
	size_t i = 0;

	for (CUgraphNode j = g->first; j != n; j = j->next)
		i++;
	return i;
}

/* Whether the nodes, in the order in which they were made, are of the same types and depend on each
 * other alike. */
static CUgraphExecUpdateResult compare(CUgraph g, CUgraph other, CUgraphNode *error)
{
	CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
	CUgraphNode b = other->first;

	*error = NULL;
	if (fake_graph_size(g) != fake_graph_size(other) || g->nedges != other->nedges)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	for (CUgraphNode a = g->first; a && !result; a = a->next, b = b->next) {
		if (a->type != b->type) {
			*error = b;
			return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
		}
		if (a->child)
			result = compare(a->child, b->child, error);
	}
	for (size_t i = 0; i < g->nedges && !result; i++) {
		const struct fake_edge *e = &g->edges[i], *f = &other->edges[i];

		if (place_of(g, e->from) == place_of(other, f->from) &&
		    place_of(g, e->to) == place_of(other, f->to))
			continue;
		*error = f->to;
		result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	}
	return result;
}

static void take_params(CUgraph g, CUgraph other)
{
	CUgraphNode b = other->first;

	fake_uses_end(g);
	fake_uses_copy(other, g);
	for (CUgraphNode a = g->first; a; a = a->next, b = b->next) {
		if (a->child)
			take_params(a->child, b->child);
		else
			fake_copy_params(a, b);
	}
}

CUresult fake_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
				   CUgraphExecUpdateResultInfo *info)
{
	CUgraphExecUpdateResultInfo found = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	fake_lock();
	if (is_executable(exec) && fake_is_graph(graph)) {
		found.result = compare(exec->graph, graph, &found.errorNode);
		rc = found.result ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : CUDA_SUCCESS;
	}
	if (!rc)
		take_params(exec->graph, graph);
	*info = found;
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode n, CUgraph child)
{
	CUgraphNode own = own_node(exec, n, CU_GRAPH_NODE_TYPE_GRAPH), error;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	fake_lock();
	if (own && fake_is_graph(child) && !compare(own->child, child, &error)) {
		take_params(own->child, child);
		rc = CUDA_SUCCESS;
	}
	fake_unlock();
	return rc;
}

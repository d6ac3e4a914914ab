/* SPDX-License-Identifier: Apache-2.0
 * Making graphs and executable graphs again. */
#include "shim/cuda/records/records.h"

#include <stdlib.h>
#include <string.h>

#define DRIVER gck_cuda_driver

/* ---- what cannot be made again, and what graphs hold ----------------------------------------- */

static const char *flags_of(const struct gck_record *r)
{
	cuuint64_t flags = 0;

	if (DRIVER.cuGraphExecGetFlags((CUgraphExec)(uintptr_t)r->now, &flags))
		return "its flags are not known";
	return flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH
		       ? "a graph that the device launches" : NULL;
}

/* The program's nodes by those of an executable graph's own graph. */
static struct gck_cuda_handle_map handles_of(const struct gck_record_graph *g)
{
	struct gck_cuda_handle_map handles = {0};

	for (size_t i = 0; i < g->pairs.capacity; i++) {
		if (g->pairs.entries[i].handle)
			gck_graph_put(&handles, g->pairs.entries[i].value,
				      g->pairs.entries[i].handle);
	}
	return handles;
}

static void ask_disabled(struct gck_graph *asked, const struct gck_cuda_handle_map *disabled)
{
	for (size_t i = 0; i < asked->n; i++) {
		struct gck_graph_node *n = &asked->nodes[i];

		n->disabled = gck_graph_get(disabled, n->now);
		if (n->child)
			ask_disabled(n->child, disabled);
	}
}

static struct gck_graph *ask_executable(const struct gck_record *r, const char **why)
{
	struct gck_cuda_handle_map handles = handles_of(r->graph);
	struct gck_graph *asked = NULL;

	*why = r->graph->own ? flags_of(r) : "it could not be copied";
	if (!*why)
		asked = gck_graph_ask(r->graph->own, r, &handles, why);
	if (asked)
		ask_disabled(asked, &r->graph->disabled);
	free(handles.entries);
	return asked;
}

static struct gck_graph *ask(const struct gck_record *r, const char **why)
{
	return r->kind == GCK_RECORD_EXECUTABLE ? ask_executable(r, why)
						: gck_graph_ask(r->now, r, NULL, why);
}

const char *gck_record_graph_unable(struct gck_record *r)
{
	cuuint64_t flags = 0;
	const char *why;

	gck_graph_free(r->graph->asked);
	r->graph->asked = ask(r, &why);
	if (r->kind == GCK_RECORD_EXECUTABLE && !why)
		DRIVER.cuGraphExecGetFlags((CUgraphExec)(uintptr_t)r->now, &flags);
	r->graph->flags = flags & ~(cuuint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	return why;
}

/* ---- order ----------------------------------------------------------------------------------- */

static bool is_older(const struct gck_record *what, const struct gck_record *r)
{
	return !what || what->born < r->born;
}

static bool has_variable(const struct gck_record *module, uint64_t at)
{
	const struct gck_record_variable *v = module->variables;

	while (v && at - v->address >= v->size)
		v = v->next;
	return v;
}

/* Memory that has no record is there again when all objects are (records.h). */
static bool is_memory_older(CUmemorytype type, CUdeviceptr at, const struct gck_record *r)
{
	const struct gck_record *module = gck_records_first();
	const struct gck_record *mapping = gck_record_at(GCK_RECORD_MAPPING, at);
	const struct gck_record *host = gck_record_at(GCK_RECORD_HOST, at);

	if (type == CU_MEMORYTYPE_ARRAY)
		return true;
	while (module && !(module->kind == GCK_RECORD_MODULE && has_variable(module, at)))
		module = module->next;
	return (module || mapping || host) && is_older(module, r) && is_older(mapping, r) &&
	       is_older(host, r);
}

/* srcHost and dstHost are addresses, too. */
static bool is_copy_older(const CUDA_MEMCPY3D *p, const struct gck_record *r)
{
	return is_memory_older(p->srcMemoryType, p->srcMemoryType == CU_MEMORYTYPE_HOST
				       ? (uintptr_t)p->srcHost : p->srcDevice, r) &&
	       is_memory_older(p->dstMemoryType, p->dstMemoryType == CU_MEMORYTYPE_HOST
				       ? (uintptr_t)p->dstHost : p->dstDevice, r);
}

static bool are_values_older(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, const struct gck_record *r)
{
	unsigned i = 0;

	while (i < p->count && (!gck_graph_value_at(&p->paramArray[i]) ||
				is_memory_older(CU_MEMORYTYPE_DEVICE,
						gck_graph_value_at(&p->paramArray[i]), r)))
		i++;
	return i == p->count;
}

static bool is_ready(const struct gck_graph *g, const struct gck_record *r)
{
	if (!gck_graph_holds_older(g->now, r->born))
		return false;
	for (size_t i = 0; i < g->n; i++) {
		const struct gck_graph_node *n = &g->nodes[i];

		if (!is_older(n->function, r) || !is_older(n->event, r) ||
		    !is_older(n->source, r) || !is_older(n->target, r) ||
		    !is_older(n->context, r) || (n->child && !is_ready(n->child, r)) ||
		    (n->type == CU_GRAPH_NODE_TYPE_MEMCPY && !is_copy_older(&n->of.memcpy, r)) ||
		    (n->type == CU_GRAPH_NODE_TYPE_MEMSET &&
		     !is_memory_older(CU_MEMORYTYPE_DEVICE, n->of.memset.dst, r)) ||
		    (n->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP &&
		     !are_values_older(&n->of.values, r)))
			return false;
	}
	return true;
}

bool gck_record_graph_is_ready(const struct gck_record *r)
{
	return !r->graph->asked || is_ready(r->graph->asked, r);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* A value that the new node has anyway need not be set, and may not be. */
static CUresult make_attributes(CUgraphNode node, const struct gck_graph_attributes *a)
{
	CUresult rc = CUDA_SUCCESS;

	for (int i = 1; i < GCK_GRAPH_ATTRIBUTES && !rc; i++) {
		CUkernelNodeAttrValue is = {{0}};

		if (!a->known[i] ||
		    (!DRIVER.cuGraphKernelNodeGetAttribute(node, (CUkernelNodeAttrID)i, &is) &&
		     !memcmp(&is, &a->v[i], sizeof is)))
			continue;
		rc = DRIVER.cuGraphKernelNodeSetAttribute(node, (CUkernelNodeAttrID)i, &a->v[i]);
	}
	return rc;
}

static CUcontext context_of(const struct gck_graph_node *n)
{
	return n->context ? (CUcontext)(uintptr_t)n->context->now : NULL;
}

static CUresult make_kernel(CUgraph g, const struct gck_graph_node *n, CUgraphNode *node)
{
	CUDA_KERNEL_NODE_PARAMS p = n->of.kernel;
	size_t bytes = n->bytes;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, n->arguments + n->narguments,
			 CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
	bool is_kernel = n->function->kind == GCK_RECORD_KERNEL;
	CUresult rc;

	p.func = is_kernel ? NULL : (CUfunction)(uintptr_t)n->function->now;
	p.kern = is_kernel ? (CUkernel)(uintptr_t)n->function->now : NULL;
	p.ctx = is_kernel ? context_of(n) : NULL;
	p.extra = p.kernelParams || !p.extra ? NULL : extra;
	p.kernelParams = p.extra ? NULL : n->arguments;
	rc = DRIVER.cuGraphAddKernelNode_v2(node, g, NULL, 0, &p);
	return rc ? rc : make_attributes(*node, n->attributes);
}

static CUresult make_memcpy(CUgraph g, const struct gck_graph_node *n, CUgraphNode *node)
{
	CUDA_MEMCPY3D p = n->of.memcpy;

	if (n->source)
		p.srcArray = (CUarray)(uintptr_t)n->source->now;
	if (n->target)
		p.dstArray = (CUarray)(uintptr_t)n->target->now;
	return DRIVER.cuGraphAddMemcpyNode(node, g, NULL, 0, &p, context_of(n));
}

static CUresult make_values(CUgraph g, const struct gck_graph_node *n, CUgraphNode *node)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS p = n->of.values;

	p.ctx = context_of(n);
	return DRIVER.cuGraphAddBatchMemOpNode(node, g, NULL, 0, &p);
}

static CUresult make_nodes(struct gck_graph *asked, bool known);

/* The graph in a node can be changed there. */
static CUresult make_child(CUgraph g, const struct gck_graph_node *n, CUgraphNode *node, bool known)
{
	CUgraph nothing, child;
	CUresult rc = DRIVER.cuGraphCreate(&nothing, 0);

	if (rc)
		return rc;
	rc = DRIVER.cuGraphAddChildGraphNode(node, g, NULL, 0, nothing);
	DRIVER.cuGraphDestroy(nothing);
	rc = rc ? rc : DRIVER.cuGraphChildGraphNodeGetGraph(*node, &child);
	rc = rc ? rc : gck_graph_hold_again(n->child->now, (uintptr_t)child);
	if (rc)
		return rc;
	n->child->now = (uintptr_t)child;
	if (known)
		gck_record_node_set(n->child->handle, n->child->now);
	return make_nodes(n->child, known);
}

static CUresult make_node(CUgraph g, const struct gck_graph_node *n, CUgraphNode *node, bool known)
{
	switch (n->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return make_kernel(g, n, node);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return make_memcpy(g, n, node);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return DRIVER.cuGraphAddMemsetNode(node, g, NULL, 0, &n->of.memset, context_of(n));
	case CU_GRAPH_NODE_TYPE_HOST:
		return DRIVER.cuGraphAddHostNode(node, g, NULL, 0, &n->of.host);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return make_values(g, n, node);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return make_child(g, n, node, known);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return DRIVER.cuGraphAddEventWaitNode(node, g, NULL, 0,
						      (CUevent)(uintptr_t)n->event->now);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return DRIVER.cuGraphAddEventRecordNode(node, g, NULL, 0,
							(CUevent)(uintptr_t)n->event->now);
	default:
		return DRIVER.cuGraphAddEmptyNode(node, g, NULL, 0);
	}
}

static CUresult make_edges(const struct gck_graph *asked)
{
	size_t n = asked->nedges;
	CUgraphNode *ends = calloc(2 * n + 1, sizeof *ends);
	CUgraphEdgeData *data = calloc(n + 1, sizeof *data);
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

	for (size_t i = 0; i < n && ends && data; i++) {
		ends[i] = (CUgraphNode)(uintptr_t)asked->nodes[asked->edges[i].from].now;
		ends[n + i] = (CUgraphNode)(uintptr_t)asked->nodes[asked->edges[i].to].now;
		data[i] = asked->edges[i].data;
	}
	if (ends && data)
		rc = n ? DRIVER.cuGraphAddDependencies_v2((CUgraph)(uintptr_t)asked->now, ends,
							  ends + n, data, n)
		       : CUDA_SUCCESS;
	free(ends);
	free(data);
	return rc;
}

/* known: the program knows the nodes by their handles. */
static CUresult make_nodes(struct gck_graph *asked, bool known)
{
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; i < asked->n && !rc; i++) {
		struct gck_graph_node *n = &asked->nodes[i];
		CUgraphNode node = NULL;

		rc = make_node((CUgraph)(uintptr_t)asked->now, n, &node, known);
		n->now = (uintptr_t)node;
		if (known && !rc)
			gck_record_node_set(n->handle, n->now);
	}
	return rc ? rc : make_edges(asked);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static CUresult make_graph(struct gck_graph *asked, bool known)
{
	CUgraph graph;
	CUresult rc = DRIVER.cuGraphCreate(&graph, 0);

	rc = rc ? rc : gck_graph_hold_again(asked->now, (uintptr_t)graph);
	if (rc)
		return rc;
	asked->now = (uintptr_t)graph;
	return make_nodes(asked, known);
}

/* The executable graph's nodes are found by those of its own graph from now on. */
static CUresult pair(struct gck_record_graph *g, const struct gck_graph *asked,
		     CUgraphExec executable)
{
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; i < asked->n && !rc; i++) {
		const struct gck_graph_node *n = &asked->nodes[i];

		if (n->handle)
			gck_graph_put(&g->pairs, n->handle, n->now);
		if (n->child)
			rc = pair(g, n->child, executable);
		if (!n->disabled)
			continue;
		gck_graph_put(&g->disabled, n->now, 1);
		rc = DRIVER.cuGraphNodeSetEnabled(executable, (CUgraphNode)(uintptr_t)n->now, 0);
	}
	return rc;
}

static void empty(struct gck_cuda_handle_map *map)
{
	free(map->entries);
	*map = (struct gck_cuda_handle_map){0};
}

static CUresult make_executable(struct gck_record_graph *g, uint64_t *now)
{
	CUgraphExec executable;
	CUresult rc = make_graph(g->asked, false);

	if (rc)
		return rc;
	g->own = g->asked->now;
	rc = DRIVER.cuGraphInstantiateWithFlags(&executable, (CUgraph)(uintptr_t)g->own, g->flags);
	if (rc)
		return rc;
	*now = (uintptr_t)executable;
	empty(&g->disabled); /* nodes of the driver that has ended */
	return pair(g, g->asked, executable);
}

CUresult gck_record_graph_make(struct gck_record *r, uint64_t *now)
{
	struct gck_record_graph *g = r->graph;
	CUresult rc = r->kind == GCK_RECORD_EXECUTABLE ? make_executable(g, now)
							: make_graph(g->asked, true);

	if (r->kind == GCK_RECORD_GRAPH)
		*now = g->asked->now;
	gck_graph_free(g->asked);
	g->asked = NULL;
	g->again = true;
	return rc;
}

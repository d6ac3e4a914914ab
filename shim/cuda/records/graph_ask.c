/* SPDX-License-Identifier: Apache-2.0
 * Asking the driver what a graph holds. */
#include "shim/cuda/records/records.h"

#include <stdlib.h>
#include <string.h>

#define DRIVER gck_cuda_driver

static void *zeros(size_t n, size_t size)
{
	void *p = calloc(n + 1, size);

	if (!p)
		abort();
	return p;
}

CUgraphNode *gck_graph_nodes(uint64_t graph, size_t *n)
{
	CUgraphNode *nodes = NULL;

	*n = 0;
	if (DRIVER.cuGraphGetNodes((CUgraph)(uintptr_t)graph, NULL, n))
		return NULL;
	nodes = zeros(*n, sizeof *nodes);
	if (*n && DRIVER.cuGraphGetNodes((CUgraph)(uintptr_t)graph, nodes, n)) {
		free(nodes);
		return NULL;
	}
	return nodes;
}

bool gck_graph_edges(uint64_t graph, CUgraphNode **ends, CUgraphEdgeData **data, size_t *n)
{
	CUgraph g = (CUgraph)(uintptr_t)graph;

	if (!DRIVER.cuGraphGetEdges_v2 || DRIVER.cuGraphGetEdges_v2(g, NULL, NULL, NULL, n))
		return false;
	*ends = zeros(2 * *n, sizeof **ends);
	*data = zeros(*n, sizeof **data);
	return !*n || !DRIVER.cuGraphGetEdges_v2(g, *ends, *ends + *n, *data, n);
}

CUgraphNodeType gck_graph_type(CUgraphNode node)
{
	CUgraphNodeType type;

	return DRIVER.cuGraphNodeGetType(node, &type) ? CU_GRAPH_NODE_TYPE_EMPTY : type;
}

uint64_t gck_graph_child(CUgraphNode node)
{
	CUgraph child = NULL;

	if (gck_graph_type(node) != CU_GRAPH_NODE_TYPE_GRAPH ||
	    DRIVER.cuGraphChildGraphNodeGetGraph(node, &child))
		return 0;
	return (uintptr_t)child;
}

void gck_graph_free(struct gck_graph *g)
{
	for (size_t i = 0; g && i < g->n; i++) {
		gck_graph_free(g->nodes[i].child);
		free(g->nodes[i].arguments);
		free(g->nodes[i].attributes);
	}
	if (g) {
		free(g->nodes);
		free(g->edges);
	}
	free(g);
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* Where a node can run that the driver knows by its context, which it does not tell. Any context of
 * the device does the same: that in which the graph was made, if it is one. */
static const struct gck_record *context_on(const struct gck_record *r, int device)
{
	const struct gck_record *c = r->context;

	if (c && (device < 0 || gck_record_device_of(c) == (uint64_t)device))
		return c;
	for (c = gck_records_first(); c; c = c->next) {
		if (c->kind == GCK_RECORD_CONTEXT && !c->died &&
		    (device < 0 || gck_record_device_of(c) == (uint64_t)device))
			break;
	}
	return c;
}

/* The device that has the memory; -1: none has. */
static int device_of_memory(CUdeviceptr at)
{
	CUmemorytype type = CU_MEMORYTYPE_HOST;
	int device = -1;

	if (DRIVER.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ||
	    type != CU_MEMORYTYPE_DEVICE ||
	    DRIVER.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at))
		return -1;
	return device;
}

/* Whether a copy in the context can use the memory. */
static bool is_usable(const struct gck_record *context, CUmemorytype type, CUdeviceptr at)
{
	return type == CU_MEMORYTYPE_ARRAY || type == CU_MEMORYTYPE_HOST ||
	       gck_record_memory_usable(context, at);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static bool param_info(const struct gck_record *f, size_t i, size_t *offset, size_t *size)
{
	if (f->kind == GCK_RECORD_KERNEL)
		return DRIVER.cuKernelGetParamInfo &&
		       !DRIVER.cuKernelGetParamInfo((CUkernel)(uintptr_t)f->now, i, offset, size);
	return DRIVER.cuFuncGetParamInfo &&
	       !DRIVER.cuFuncGetParamInfo((CUfunction)(uintptr_t)f->now, i, offset, size);
}

/* All arguments behind each other; NULL: there is no such list. */
static const char *buffer_of(void **extra)
{
	while (extra && *extra != CU_LAUNCH_PARAM_END && *extra != CU_LAUNCH_PARAM_BUFFER_POINTER)
		extra += 2;
	return extra && *extra ? extra[1] : NULL;
}

/* False: the driver gives neither. */
static bool copy_arguments(struct gck_graph_node *n)
{
	const CUDA_KERNEL_NODE_PARAMS *p = &n->of.kernel;
	const char *buffer = buffer_of(p->extra);
	size_t offset, size;
	char *data;

	for (; param_info(n->function, n->narguments, &offset, &size); n->narguments++)
		n->bytes = offset + size > n->bytes ? offset + size : n->bytes;
	if (!n->narguments || (!p->kernelParams && !buffer))
		return !n->narguments && !p->kernelParams && !buffer;
	n->arguments = zeros(1, n->narguments * sizeof *n->arguments + n->bytes);
	data = (char *)(n->arguments + n->narguments);
	for (size_t i = 0; i < n->narguments && param_info(n->function, i, &offset, &size); i++) {
		n->arguments[i] = memcpy(data + offset,
					 p->kernelParams ? p->kernelParams[i] : buffer + offset,
					 size);
	}
	return true;
}

static bool is_of_nodes(int which)
{
	return which != CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY &&
	       which != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT &&
	       which != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
}

/* False: it has one that cannot be made again. */
static bool ask_attributes(struct gck_graph_node *n)
{
	struct gck_graph_attributes *a = zeros(1, sizeof *a);

	n->attributes = a;
	for (int i = 1; i < GCK_GRAPH_ATTRIBUTES; i++)
		a->known[i] = is_of_nodes(i) &&
			      !DRIVER.cuGraphKernelNodeGetAttribute(
				      (CUgraphNode)(uintptr_t)n->now, (CUkernelNodeAttrID)i,
				      &a->v[i]);
	return !a->known[CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE] ||
	       !a->v[CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE]
			.deviceUpdatableKernelNode.deviceUpdatable;
}

static const char *ask_kernel(struct gck_graph_node *n, const struct gck_record *r)
{
	CUDA_KERNEL_NODE_PARAMS *p = &n->of.kernel;

	if (DRIVER.cuGraphKernelNodeGetParams_v2((CUgraphNode)(uintptr_t)n->now, p))
		return "a kernel's node that the driver does not tell";
	n->function = gck_record_find_now(GCK_RECORD_FUNCTION, (uintptr_t)p->func);
	if (!n->function)
		n->function = gck_record_find_now(GCK_RECORD_KERNEL,
						  (uintptr_t)(p->func ? (CUkernel)p->func
								      : p->kern));
	if (!n->function)
		return "the function of one of its kernels has ended";
	n->context = gck_record_find_now(GCK_RECORD_CONTEXT, (uintptr_t)p->ctx);
	n->context = n->context ? n->context : context_on(r, -1);
	if (!copy_arguments(n))
		return "a kernel whose parameters are not known";
	return ask_attributes(n) ? NULL : "a kernel's node that the device can change";
}

/* ---- others ---------------------------------------------------------------------------------- */

/* False: the array has ended. */
static bool find_array(CUmemorytype type, CUarray now, const struct gck_record **array)
{
	if (type == CU_MEMORYTYPE_ARRAY)
		*array = gck_record_find_now(GCK_RECORD_ARRAY, (uintptr_t)now);
	return type != CU_MEMORYTYPE_ARRAY || *array;
}

static bool is_copy_usable(const struct gck_graph_node *n)
{
	const CUDA_MEMCPY3D *p = &n->of.memcpy;

	return n->context && is_usable(n->context, p->srcMemoryType, p->srcDevice) &&
	       is_usable(n->context, p->dstMemoryType, p->dstDevice);
}

static int device_of(CUmemorytype type, CUdeviceptr at)
{
	return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_ARRAY ? -1
									 : device_of_memory(at);
}

/* An array's, or one on the device of the target or of the source, or any. */
static void find_context(struct gck_graph_node *n, const struct gck_record *r)
{
	const CUDA_MEMCPY3D *p = &n->of.memcpy;
	const int devices[] = {device_of(p->dstMemoryType, p->dstDevice),
			       device_of(p->srcMemoryType, p->srcDevice), -1};

	if (n->source || n->target)
		n->context = (n->target ? n->target : n->source)->context;
	for (int i = 0; i < 3 && !is_copy_usable(n); i++) {
		if (devices[i] >= 0 || i == 2)
			n->context = context_on(r, devices[i]);
	}
}

static const char *ask_memcpy(struct gck_graph_node *n, const struct gck_record *r)
{
	CUDA_MEMCPY3D *p = &n->of.memcpy;

	if (DRIVER.cuGraphMemcpyNodeGetParams((CUgraphNode)(uintptr_t)n->now, p))
		return "a copy's node that the driver does not tell";
	if (!find_array(p->srcMemoryType, p->srcArray, &n->source) ||
	    !find_array(p->dstMemoryType, p->dstArray, &n->target))
		return "an array of one of its copies has ended";
	find_context(n, r);
	return is_copy_usable(n) ? NULL
				 : "memory of one of its copies, or a context, is not there";
}

static const char *ask_memset(struct gck_graph_node *n, const struct gck_record *r)
{
	if (DRIVER.cuGraphMemsetNodeGetParams((CUgraphNode)(uintptr_t)n->now, &n->of.memset))
		return "a memset's node that the driver does not tell";
	n->context = context_on(r, device_of_memory(n->of.memset.dst));
	if (!n->context)
		return "the context of one of its nodes has ended";
	return is_usable(n->context, CU_MEMORYTYPE_DEVICE, n->of.memset.dst)
		       ? NULL : "memory that it sets is not there";
}

CUdeviceptr gck_graph_value_at(const CUstreamBatchMemOpParams *p)
{
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return p->waitValue.address;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return p->writeValue.address;
	default:
		return 0;
	}
}

static bool is_known_operation(CUstreamBatchMemOpType type)
{
	return type >= CU_STREAM_MEM_OP_WAIT_VALUE_32 && type <= CU_STREAM_MEM_OP_BARRIER;
}

static const char *ask_values(struct gck_graph_node *n)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS *p = &n->of.values;

	if (DRIVER.cuGraphBatchMemOpNodeGetParams((CUgraphNode)(uintptr_t)n->now, p))
		return "a node of values in memory that the driver does not tell";
	n->context = gck_record_find_now(GCK_RECORD_CONTEXT, (uintptr_t)p->ctx);
	if (!n->context)
		return "the context of one of its nodes has ended";
	n->arguments = zeros(p->count, sizeof *p->paramArray);
	p->paramArray = memcpy(n->arguments, p->paramArray, p->count * sizeof *p->paramArray);
	for (unsigned i = 0; i < p->count; i++) {
		CUdeviceptr at = gck_graph_value_at(&p->paramArray[i]);

		if (!is_known_operation(p->paramArray[i].operation))
			return "an operation on values in memory that is not known";
		if (at && !gck_record_memory_usable(n->context, at))
			return "memory of a value that it waits for or writes is not there";
	}
	return NULL;
}

static const char *ask_event(struct gck_graph_node *n)
{
	CUgraphNode node = (CUgraphNode)(uintptr_t)n->now;
	CUevent event = NULL;
	CUresult rc = n->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD
			      ? DRIVER.cuGraphEventRecordNodeGetEvent(node, &event)
			      : DRIVER.cuGraphEventWaitNodeGetEvent(node, &event);

	n->event = rc ? NULL : gck_record_find_now(GCK_RECORD_EVENT, (uintptr_t)event);
	return n->event ? NULL : "an event of one of its nodes has ended";
}

static const char *ask_node(struct gck_graph_node *n, const struct gck_record *r,
			    const struct gck_cuda_handle_map *handles)
{
	const char *why = NULL;

	switch (n->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return ask_kernel(n, r);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return ask_memcpy(n, r);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return ask_memset(n, r);
	case CU_GRAPH_NODE_TYPE_HOST:
		return DRIVER.cuGraphHostNodeGetParams((CUgraphNode)(uintptr_t)n->now, &n->of.host)
			       ? "a host function's node that the driver does not tell" : NULL;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		n->child = gck_graph_ask(gck_graph_child((CUgraphNode)(uintptr_t)n->now), r,
					 handles, &why);
		return why;
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return NULL;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return ask_event(n);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return "it has memory of its own";
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return "it has a conditional node";
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return ask_values(n);
	default:
		return "it has a node of another kind";
	}
}

/* ---- edges ----------------------------------------------------------------------------------- */

static const char *ask_edges(struct gck_graph *g, const struct gck_cuda_handle_map *places)
{
	CUgraphNode *ends = NULL;
	CUgraphEdgeData *data = NULL;
	size_t n = 0;
	bool told = gck_graph_edges(g->now, &ends, &data, &n);

	g->edges = zeros(n, sizeof *g->edges);
	g->nedges = told ? n : 0;
	for (size_t i = 0; i < g->nedges; i++)
		g->edges[i] = (struct gck_graph_edge){
			gck_graph_get(places, (uintptr_t)ends[i]) - 1,
			gck_graph_get(places, (uintptr_t)ends[n + i]) - 1, data[i]};
	free(ends);
	free(data);
	return told ? NULL : "edges that the driver does not tell";
}

struct gck_graph *gck_graph_ask(uint64_t now, const struct gck_record *r,
				const struct gck_cuda_handle_map *handles, const char **why)
{
	struct gck_graph *g = zeros(1, sizeof *g);
	struct gck_cuda_handle_map places = {0};
	CUgraphNode *nodes = gck_graph_nodes(now, &g->n);

	g->now = now;
	g->handle = gck_record_node_handle(now);
	*why = nodes ? NULL : "a graph that the driver does not tell";
	g->nodes = zeros(g->n, sizeof *g->nodes);
	for (size_t i = 0; i < g->n && !*why; i++) {
		uint64_t node = (uintptr_t)nodes[i];

		gck_graph_put(&places, node, i + 1);
		g->nodes[i] = (struct gck_graph_node){
			.handle = handles ? gck_graph_get(handles, node)
					  : gck_record_node_handle(node),
			.now = node, .type = gck_graph_type(nodes[i])};
		*why = ask_node(&g->nodes[i], r, handles);
	}
	*why = *why ? *why : ask_edges(g, &places);
	free(places.entries);
	free(nodes);
	if (!*why)
		return g;
	gck_graph_free(g);
	return NULL;
}

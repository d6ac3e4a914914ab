/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: what nodes do. Without the lock, which calls of modules and arrays take. */
#include "test/support/driver/graph/graph.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PARAMS 11

/* ---- kernels --------------------------------------------------------------------------------- */

/* Its function in a context, NULL: the current one; NULL: there is none. */
static CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS *p)
{
	bool pushed = !p->func && p->ctx && !fake_cuCtxPushCurrent_v2(p->ctx);
	CUfunction f = p->func ? p->func : (CUfunction)p->kern;

	f = f && (p->func || pushed || !p->ctx) ? fake_function(f) : NULL;
	if (pushed)
		fake_cuCtxPopCurrent_v2(NULL);
	return f && fake_is_function(f) ? f : NULL;
}

/* The arguments behind each other; NULL: there are none. */
static const char *buffer_of(void **extra)
{
	while (extra && *extra != CU_LAUNCH_PARAM_END && *extra != CU_LAUNCH_PARAM_BUFFER_POINTER)
		extra += 2;
	return extra && *extra ? extra[1] : NULL;
}

CUresult fake_set_kernel(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p)
{
	CUfunction f = function_of(p);
	const char *buffer = buffer_of(p->extra);

	if (!f || f->params > MOST_PARAMS || !p->gridDimX || !p->blockDimX ||
	    (f->params && !p->kernelParams && !buffer))
		return CUDA_ERROR_INVALID_VALUE;
	n->op = (struct fake_op){.run = fake_run_kernel, .args = {(uintptr_t)f},
				 .grid = {{p->gridDimX, p->gridDimY, p->gridDimZ},
					  {p->blockDimX, p->blockDimY, p->blockDimZ},
					  p->sharedMemBytes}};
	n->extra_size = p->kernelParams ? 0 : 8 * (size_t)f->params;
	for (int i = 0; i < f->params; i++)
		memcpy(&n->op.args[1 + i],
		       p->kernelParams ? p->kernelParams[i] : buffer + 8 * i, 8);
	return CUDA_SUCCESS;
}

static CUresult get_kernel(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS *p)
{
	CUfunction f = (void *)(uintptr_t)n->op.args[0];
	const struct fake_grid *g = &n->op.grid;

	for (int i = 0; i < f->params; i++)
		n->kernel_params[i] = &n->op.args[1 + i];
	*p = (CUDA_KERNEL_NODE_PARAMS){f, g->grid[0], g->grid[1], g->grid[2], g->block[0],
				       g->block[1], g->block[2], g->shared, n->kernel_params,
				       NULL, NULL, NULL};
	if (n->extra_size) {
		p->kernelParams = NULL;
		p->extra = memcpy(n->extra, (void *[]){CU_LAUNCH_PARAM_BUFFER_SIZE, &n->extra_size,
				  CU_LAUNCH_PARAM_BUFFER_POINTER, &n->op.args[1],
				  CU_LAUNCH_PARAM_END}, sizeof n->extra);
	}
	return CUDA_SUCCESS;
}

/* ---- copies and fills ------------------------------------------------------------------------ */

static void run_copy(struct fake_op *op)
{
	fake_copy_3d(op->block);
}

static void run_fill(struct fake_op *op)
{
	const CUDA_MEMSET_NODE_PARAMS *p = op->block;

	for (size_t y = 0; y < p->height; y++) {
		char *to = (void *)(uintptr_t)(p->dst + y * p->pitch);

		for (size_t x = 0; x < p->width; x++)
			memcpy(to + x * p->elementSize, &p->value, p->elementSize);
	}
}

static void set_block(CUgraphNode n, void (*run)(struct fake_op *op), const void *block,
		      size_t size)
{
	free(n->op.block);
	n->op = (struct fake_op){.run = run, .block = malloc(size), .block_size = size};
	memcpy(n->op.block, block, size);
}

/* Memory has to be the driver's. */
static bool may(CUcontext ctx, CUmemorytype type, CUdeviceptr at)
{
	CUdevice device;
	bool yes;

	fake_lock();
	yes = fake_find(at) ? fake_may_use(ctx, at)
			    : fake_is_variable(at, &device) && device == ctx->device;
	fake_unlock();
	return yes || type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_ARRAY;
}

static bool is_alive(CUcontext ctx)
{
	bool yes;

	fake_lock();
	yes = ctx && fake_is_alive(ctx);
	fake_unlock();
	return yes;
}

CUresult fake_set_memcpy(CUgraphNode n, const CUDA_MEMCPY3D *p, CUcontext ctx)
{
	ctx = ctx ? ctx : fake_current();
	if (!is_alive(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if ((p->srcMemoryType == CU_MEMORYTYPE_ARRAY &&
	     !fake_is_array_on(p->srcArray, ctx->device)) ||
	    (p->dstMemoryType == CU_MEMORYTYPE_ARRAY &&
	     !fake_is_array_on(p->dstArray, ctx->device)) ||
	    !may(ctx, p->srcMemoryType, p->srcDevice) || !may(ctx, p->dstMemoryType, p->dstDevice))
		return CUDA_ERROR_INVALID_VALUE;
	n->of.memcpy = *p;
	n->context = ctx;
	set_block(n, run_copy, p, sizeof *p);
	return CUDA_SUCCESS;
}

CUresult fake_set_memset(CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
	ctx = ctx ? ctx : fake_current();
	if (!is_alive(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width ||
	    !p->height || !may(ctx, CU_MEMORYTYPE_DEVICE, p->dst))
		return CUDA_ERROR_INVALID_VALUE;
	n->of.memset = *p;
	n->context = ctx;
	set_block(n, run_fill, p, sizeof *p);
	return CUDA_SUCCESS;
}

/* ---- values in memory ------------------------------------------------------------------------ */

static void run_values(struct fake_op *op)
{
	const CUstreamBatchMemOpParams *p = op->block;

	for (size_t i = 0; i < op->block_size / sizeof *p; i++)
		fake_value(&p[i]);
}

static bool is_value_good(CUcontext ctx, const CUstreamBatchMemOpParams *p)
{
	return (p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
		p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ||
		((p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
		  p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64) &&
		 p->waitValue.flags <= CU_STREAM_WAIT_VALUE_AND)) &&
	       may(ctx, CU_MEMORYTYPE_DEVICE, p->waitValue.address);
}

CUresult fake_set_values(CUgraphNode n, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	if (!is_alive(p->ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!p->count || p->count > 256 || p->flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < p->count; i++) {
		if (!is_value_good(p->ctx, &p->paramArray[i]))
			return CUDA_ERROR_INVALID_VALUE;
	}
	n->context = p->ctx;
	set_block(n, run_values, p->paramArray, p->count * sizeof *p->paramArray);
	return CUDA_SUCCESS;
}

static CUresult get_values(CUgraphNode n, CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	*p = (CUDA_BATCH_MEM_OP_NODE_PARAMS){n->context, 0, n->op.block, 0};
	p->count = (unsigned)(n->op.block_size / sizeof *p->paramArray);
	return CUDA_SUCCESS;
}

/* ---- others ---------------------------------------------------------------------------------- */

CUresult fake_set_host(CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p)
{
	if (!p->fn)
		return CUDA_ERROR_INVALID_VALUE;
	n->of.host = *p;
	n->op = (struct fake_op){.run = fake_run_host,
				 .args = {(uintptr_t)p->fn, (uintptr_t)p->userData}};
	return CUDA_SUCCESS;
}

CUresult fake_set_event(CUgraphNode n, CUevent event)
{
	if (!fake_is_event(event))
		return CUDA_ERROR_INVALID_VALUE;
	n->of.event = event;
	return CUDA_SUCCESS;
}

CUresult fake_set_params(CUgraphNode n, const CUgraphNodeParams *p)
{
	const CUDA_MEMSET_NODE_PARAMS_v2 *m = &p->memset;

	if (p->type != n->type)
		return CUDA_ERROR_INVALID_VALUE;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return fake_set_kernel(n, (const CUDA_KERNEL_NODE_PARAMS *)&p->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return fake_set_memcpy(n, &p->memcpy.copyParams, p->memcpy.copyCtx);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return fake_set_memset(n, &(const CUDA_MEMSET_NODE_PARAMS){
			m->dst, m->pitch, m->value, m->elementSize, m->width, m->height}, m->ctx);
	case CU_GRAPH_NODE_TYPE_HOST:
		return fake_set_host(n, (const CUDA_HOST_NODE_PARAMS *)&p->host);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return fake_set_event(n, p->eventWait.event);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return fake_set_values(n, (const CUDA_BATCH_MEM_OP_NODE_PARAMS *)&p->memOp);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

void fake_copy_params(CUgraphNode n, CUgraphNode other)
{
	free(n->op.block);
	n->of = other->of;
	n->op = other->op;
	n->context = other->context;
	n->extra_size = other->extra_size;
	memcpy(n->attributes, other->attributes, sizeof n->attributes);
	if (n->op.block) {
		n->op.block = malloc(n->op.block_size);
		memcpy(n->op.block, other->op.block, n->op.block_size);
	}
}

/* A copy from memory that is not pinned cannot be one. */
CUresult fake_node_of_op(CUgraphNode n, const struct fake_op *op)
{
	const uint64_t *a = op->args;
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = a[1],
			   .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = a[0],
			   .WidthInBytes = a[2], .Height = 1, .Depth = 1};
	CUDA_MEMSET_NODE_PARAMS m = {a[0], 0, (unsigned)a[1], (unsigned)a[3], a[2], 1};

	if (op->block)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	n->op = *op;
	if (n->type == CU_GRAPH_NODE_TYPE_HOST)
		n->of.host = (CUDA_HOST_NODE_PARAMS){(CUhostFn)(uintptr_t)a[0],
						     (void *)(uintptr_t)a[1]};
	if (n->type == CU_GRAPH_NODE_TYPE_MEMCPY) {
		n->of.memcpy = c;
		set_block(n, run_copy, &c, sizeof c);
	} else if (n->type == CU_GRAPH_NODE_TYPE_MEMSET) {
		n->of.memset = m;
		set_block(n, run_fill, &m, sizeof m);
	} else if (n->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
		set_block(n, run_values, a, sizeof(CUstreamBatchMemOpParams));
	}
	return CUDA_SUCCESS;
}

/* ---- calls: a new node ----------------------------------------------------------------------- */

/* A new node gets its edges; without success it goes. */
static CUresult finish(CUgraphNode *node, CUgraphNode n, const CUgraphNode *from,
		       const CUgraphEdgeData *data, size_t nfrom, CUresult rc)
{
	CUgraph g = n->graph;
	CUgraphNode *at;

	fake_lock();
	rc = rc ? rc : fake_edges_to(g, n, from, data, nfrom);
	if (rc) {
		fake_edges_end(g, n);
		for (at = &g->first; *at != n;)
			at = &(*at)->next;
		*at = n->next;
		fake_node_free(n);
	} else {
		*node = n;
	}
	fake_unlock();
	return rc;
}

static CUgraphNode begin(CUgraph g, CUgraphNodeType type)
{
	CUgraphNode n = NULL;

	fake_lock();
	if (fake_is_graph(g))
		n = fake_node_new(g, type);
	fake_unlock();
	return n;
}

#define ADD(name, type, parameters, call) \
	CUresult fake_##name parameters \
	{ \
		CUgraphNode n = begin(graph, type); \
		return n ? finish(node, n, from, NULL, nfrom, call) : CUDA_ERROR_INVALID_VALUE; \
	}
#define TO CUgraphNode *node, CUgraph graph, const CUgraphNode *from, size_t nfrom

ADD(cuGraphAddKernelNode_v2, CU_GRAPH_NODE_TYPE_KERNEL,
    (TO, const CUDA_KERNEL_NODE_PARAMS *p), fake_set_kernel(n, p))
ADD(cuGraphAddMemcpyNode, CU_GRAPH_NODE_TYPE_MEMCPY,
    (TO, const CUDA_MEMCPY3D *p, CUcontext ctx), fake_set_memcpy(n, p, ctx))
ADD(cuGraphAddMemsetNode, CU_GRAPH_NODE_TYPE_MEMSET,
    (TO, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx), fake_set_memset(n, p, ctx))
ADD(cuGraphAddHostNode, CU_GRAPH_NODE_TYPE_HOST,
    (TO, const CUDA_HOST_NODE_PARAMS *p), fake_set_host(n, p))
ADD(cuGraphAddEmptyNode, CU_GRAPH_NODE_TYPE_EMPTY, (TO), CUDA_SUCCESS)
ADD(cuGraphAddEventRecordNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
    (TO, CUevent event), fake_set_event(n, event))
ADD(cuGraphAddEventWaitNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
    (TO, CUevent event), fake_set_event(n, event))

/* The copy lacks the node, which is the last one of its graph, if that graph is in the child. */
static CUresult set_child(CUgraphNode n, CUgraph child)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	CUgraphNode *at = &n->graph->first;

	fake_lock();
	if (fake_is_graph(child) && child != n->graph) {
		while (*at != n)
			at = &(*at)->next;
		*at = NULL;
		n->child = fake_graph_copy(child, n);
		*at = n;
		rc = CUDA_SUCCESS;
	}
	fake_unlock();
	return rc;
}

/* The graph itself, no copy. */
static CUresult take_child(CUgraphNode n, CUgraph child)
{
	bool good;

	fake_lock();
	good = child != n->graph && fake_graph_move(child, n);
	if (good)
		n->child = child;
	fake_unlock();
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ADD(cuGraphAddChildGraphNode, CU_GRAPH_NODE_TYPE_GRAPH, (TO, CUgraph child), set_child(n, child))
ADD(cuGraphAddBatchMemOpNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
    (TO, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p), fake_set_values(n, p))

CUresult fake_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *from,
				const CUgraphEdgeData *data, size_t nfrom, CUgraphNodeParams *p)
{
	CUgraphNode n = begin(graph, p->type);
	CUresult rc;

	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->type != CU_GRAPH_NODE_TYPE_GRAPH)
		rc = fake_set_params(n, p);
	else if (p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
		rc = take_child(n, p->graph.graph);
	else
		rc = set_child(n, p->graph.graph);
	return finish(node, n, from, data, nfrom, rc);
}

/* ---- calls: questions and changes ------------------------------------------------------------ */

static bool is_node(CUgraphNode n, CUgraphNodeType type)
{
	bool yes;

	fake_lock();
	yes = fake_is_node(n) && n->type == type;
	fake_unlock();
	return yes;
}

#define OF_NODE(name, type, parameters, call) \
	CUresult fake_##name parameters \
	{ \
		return is_node(n, type) ? (call) : CUDA_ERROR_INVALID_VALUE; \
	}

OF_NODE(cuGraphKernelNodeGetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL,
	(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS *p), get_kernel(n, p))
OF_NODE(cuGraphMemcpyNodeGetParams, CU_GRAPH_NODE_TYPE_MEMCPY,
	(CUgraphNode n, CUDA_MEMCPY3D *p), (*p = n->of.memcpy, CUDA_SUCCESS))
OF_NODE(cuGraphMemsetNodeGetParams, CU_GRAPH_NODE_TYPE_MEMSET,
	(CUgraphNode n, CUDA_MEMSET_NODE_PARAMS *p), (*p = n->of.memset, CUDA_SUCCESS))
OF_NODE(cuGraphHostNodeGetParams, CU_GRAPH_NODE_TYPE_HOST,
	(CUgraphNode n, CUDA_HOST_NODE_PARAMS *p), (*p = n->of.host, CUDA_SUCCESS))
OF_NODE(cuGraphEventRecordNodeGetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
	(CUgraphNode n, CUevent *event), (*event = n->of.event, CUDA_SUCCESS))
OF_NODE(cuGraphEventWaitNodeGetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
	(CUgraphNode n, CUevent *event), (*event = n->of.event, CUDA_SUCCESS))
OF_NODE(cuGraphBatchMemOpNodeGetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	(CUgraphNode n, CUDA_BATCH_MEM_OP_NODE_PARAMS *p), get_values(n, p))
OF_NODE(cuGraphBatchMemOpNodeSetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	(CUgraphNode n, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p), fake_set_values(n, p))
OF_NODE(cuGraphKernelNodeSetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL,
	(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p), fake_set_kernel(n, p))
OF_NODE(cuGraphMemcpyNodeSetParams, CU_GRAPH_NODE_TYPE_MEMCPY,
	(CUgraphNode n, const CUDA_MEMCPY3D *p), fake_set_memcpy(n, p, n->context))
OF_NODE(cuGraphMemsetNodeSetParams, CU_GRAPH_NODE_TYPE_MEMSET,
	(CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p), fake_set_memset(n, p, n->context))
OF_NODE(cuGraphHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST,
	(CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p), fake_set_host(n, p))
OF_NODE(cuGraphEventRecordNodeSetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
	(CUgraphNode n, CUevent event), fake_set_event(n, event))
OF_NODE(cuGraphEventWaitNodeSetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
	(CUgraphNode n, CUevent event), fake_set_event(n, event))
OF_NODE(cuGraphNodeSetParams, p->type, (CUgraphNode n, CUgraphNodeParams *p),
	fake_set_params(n, p))

/* The default of a cluster's extents cannot be set. */
static CUresult set_attribute(CUgraphNode n, CUkernelNodeAttrID which,
			      const CUkernelNodeAttrValue *value)
{
	if (which != CU_LAUNCH_ATTRIBUTE_PRIORITY && which != CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
	    (which != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION || !value->clusterDim.x))
		return CUDA_ERROR_INVALID_VALUE;
	n->attributes[which] = *value;
	return CUDA_SUCCESS;
}

static CUresult get_attribute(CUgraphNode n, CUkernelNodeAttrID which, CUkernelNodeAttrValue *value)
{
	if (which != CU_LAUNCH_ATTRIBUTE_PRIORITY && which != CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
	    which != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
		return CUDA_ERROR_INVALID_VALUE;
	*value = n->attributes[which];
	return CUDA_SUCCESS;
}

OF_NODE(cuGraphKernelNodeSetAttribute, CU_GRAPH_NODE_TYPE_KERNEL,
	(CUgraphNode n, CUkernelNodeAttrID which, const CUkernelNodeAttrValue *value),
	set_attribute(n, which, value))
OF_NODE(cuGraphKernelNodeGetAttribute, CU_GRAPH_NODE_TYPE_KERNEL,
	(CUgraphNode n, CUkernelNodeAttrID which, CUkernelNodeAttrValue *value),
	get_attribute(n, which, value))
OF_NODE(cuGraphKernelNodeCopyAttributes, CU_GRAPH_NODE_TYPE_KERNEL,
	(CUgraphNode n, CUgraphNode from),
	!is_node(from, CU_GRAPH_NODE_TYPE_KERNEL) ? CUDA_ERROR_INVALID_VALUE
	: (memcpy(n->attributes, from->attributes, sizeof n->attributes), CUDA_SUCCESS))

/* SPDX-License-Identifier: Apache-2.0
 * Single cases of graphs behind the hooks of records/, for records.c. */
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/test/records_look.h"
#include "shim/cuda/test/records_model.h"

#define E (&worlds[ENGINE])
#define GRANULE ((size_t)16 << 10)
#define MANY 12 /* of which some come where others were */

static bool (*restarted)(void);
static void (*refuses)(const char *text, const char *what);
static const void *image;

/* ---- what is refused ------------------------------------------------------------------------- */

static CUgraphNodeType type_seen;

static CUresult see_type(CUgraphNode node, CUgraphNodeType *type)
{
	(void)node;
	*type = type_seen;
	return CUDA_SUCCESS;
}

/* Kinds of nodes, as the driver tells them. */
static void refuse_nodes(void)
{
	static const struct {
		CUgraphNodeType type;
		const char *why;
	} cases[] = {
		{CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, "a node of another kind"},
		{CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, "a node of another kind"},
		{CU_GRAPH_NODE_TYPE_MEM_ALLOC, "memory of its own"},
		{CU_GRAPH_NODE_TYPE_MEM_FREE, "memory of its own"},
		{CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, "the driver does not tell"},
		{CU_GRAPH_NODE_TYPE_CONDITIONAL, "a conditional node"},
		{CU_GRAPH_NODE_TYPE_KERNEL, "the driver does not tell"},
		{CU_GRAPH_NODE_TYPE_HOST, "the driver does not tell"},
		{CU_GRAPH_NODE_TYPE_EVENT_RECORD, "an event of one of its nodes has ended"},
	};
	const struct gck_cuda_real before = gck_cuda_driver;
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph;

	E->cuGraphCreate(&graph, 0);
	E->cuGraphAddEmptyNode(&node, graph, NULL, 0);
	claim_str(gck_cuda_records_unable(), NULL, "an empty node can be made again");
	gck_cuda_driver.cuGraphNodeGetType = see_type;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		type_seen = cases[i].type;
		refuses(cases[i].why, "a node of such a kind");
	}
	gck_cuda_driver = before;
	E->cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
	refuses("that the device launches", "a graph for launches from the device");
	E->cuGraphExecDestroy(exec);
	E->cuGraphDestroy(graph);
	claim_str(gck_cuda_records_unable(), NULL, "without them all can be made again");
}

static CUresult updatable(CUgraphNode node, CUkernelNodeAttrID which, CUkernelNodeAttrValue *value)
{
	(void)node;
	(void)which;
	value->deviceUpdatableKernelNode.deviceUpdatable = 1;
	return CUDA_SUCCESS;
}

static CUresult no_copy(CUgraph *clone, CUgraph graph)
{
	(void)clone;
	(void)graph;
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult no_setting(CUgraphNode node, CUgraphNodeParams *params)
{
	(void)node;
	(void)params;
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult no_attributes(CUgraphNode node, CUgraphNode from)
{
	(void)node;
	(void)from;
	return CUDA_ERROR_NOT_SUPPORTED;
}

static int ends;

static CUresult count_end(CUgraph graph)
{
	(void)graph;
	ends++;
	return CUDA_SUCCESS;
}

static CUresult always_updated(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	(void)exec;
	(void)graph;
	(void)info;
	return CUDA_SUCCESS;
}

/* A driver may take a graph for the same whose nodes are in another order. */
static void refuse_order(CUgraph graph, CUgraphNode a, CUgraphNode b)
{
	const struct gck_cuda_real before = gck_cuda_driver;
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec;

	E->cuGraphAddDependencies_v2(graph, &a, &b, NULL, 1);
	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	E->cuGraphRemoveDependencies_v2(graph, &a, &b, NULL, 1);
	E->cuGraphAddDependencies_v2(graph, &b, &a, NULL, 1);
	gck_cuda_driver.cuGraphExecUpdate_v2 = always_updated;
	E->cuGraphExecUpdate_v2(exec, graph, &info);
	gck_cuda_driver = before;
	refuses("could not be made in its copy", "an update with nodes in another order");
	E->cuGraphExecDestroy(exec);
}

/* What a graph holds ends, or is such that it cannot be made again. */
static void refuse_graphs(CUmodule module, CUfunction f)
{
	const struct gck_cuda_real before = gck_cuda_driver;
	uint64_t v[2] = {0};
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
	CUDA_KERNEL_NODE_PARAMS kernel = {f, 1, 1, 1, 1, 1, 1, 0, (void *[]){&v[0], &v[1]}, NULL,
					  NULL, NULL};
	CUgraphExecUpdateResultInfo info;
	CUgraphNode node, empty;
	CUgraphExec exec;
	CUgraph graph;

	E->cuGraphCreate(&graph, 0);
	E->cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &kernel);
	E->cuGraphAddEmptyNode(&empty, graph, NULL, 0);
	claim_str(gck_cuda_records_unable(), NULL, "a kernel's node can be made again");
	gck_cuda_driver.cuGraphKernelNodeGetAttribute = updatable;
	refuses("that the device can change", "one that the device can update");
	gck_cuda_driver = before;
	gck_cuda_driver.cuFuncGetParamInfo = NULL;
	refuses("whose parameters are not known", "one of an older driver");
	gck_cuda_driver = before;
	gck_cuda_driver.cuGraphGetEdges_v2 = NULL;
	refuses("edges that the driver does not tell", "a graph of an older driver");
	gck_cuda_driver = before;
	gck_cuda_driver.cuGraphClone = no_copy;
	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	gck_cuda_driver = before;
	refuses("could not be copied", "an executable graph without a copy");
	E->cuGraphExecDestroy(exec);
	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	gck_cuda_driver.cuGraphNodeSetParams = no_setting;
	E->cuGraphExecNodeSetParams(exec, empty, &p);
	gck_cuda_driver = before;
	refuses("could not be made in its copy", "one with a change that its copy lacks");
	E->cuGraphExecDestroy(exec);
	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	gck_cuda_driver.cuGraphKernelNodeCopyAttributes = no_attributes;
	E->cuGraphExecUpdate_v2(exec, graph, &info);
	gck_cuda_driver = before;
	refuses("could not be made in its copy", "one whose new attributes its copy lacks");
	E->cuGraphExecDestroy(exec);
	refuse_order(graph, node, empty);
	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	gck_cuda_driver.cuGraphDestroy = count_end;
	E->cuGraphExecDestroy(exec);
	gck_cuda_driver = before;
	claim_int(ends, 1, "its copy ends with it");
	E->cuModuleUnload(module);
	refuses("the function of one of its kernels has ended", "a graph without its module");
	E->cuGraphDestroy(graph);
}

/* Ended memory of a graph. */
static void refuse_memory(void)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUDA_MEMSET_NODE_PARAMS set = {.value = 1, .elementSize = 4, .width = 1, .height = 1};
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE, .WidthInBytes = 8,
			      .Height = 1, .Depth = 1};
	CUmemGenericAllocationHandle memory;
	CUgraph sets, reads, writes; /* the last reads what is unmapped later */
	CUgraphNode node;
	CUdeviceptr at;

	E->cuMemAddressReserve(&at, 2 * GRANULE, 0, 0, 0);
	E->cuMemCreate(&memory, GRANULE, &prop, 0);
	E->cuMemMap(at, GRANULE, 0, memory, 0);
	E->cuMemMap(at + GRANULE, GRANULE, 0, memory, 0);
	E->cuMemSetAccess(at, 2 * GRANULE, &access, 1);
	set.dst = at;
	E->cuGraphCreate(&sets, 0);
	E->cuGraphAddMemsetNode(&node, sets, NULL, 0, &set, NULL);
	copy.srcDevice = at;
	copy.dstDevice = at + GRANULE;
	E->cuGraphCreate(&reads, 0);
	E->cuGraphAddMemcpyNode(&node, reads, NULL, 0, &copy, NULL);
	copy.srcDevice = at + GRANULE;
	copy.dstDevice = at;
	E->cuGraphCreate(&writes, 0);
	E->cuGraphAddMemcpyNode(&node, writes, NULL, 0, &copy, NULL);
	claim_str(gck_cuda_records_unable(), NULL, "copies and memsets can be made again");
	E->cuMemUnmap(at, GRANULE);
	refuses("memory that it sets is not there", "a memset of memory that is not mapped");
	E->cuGraphDestroy(sets);
	E->cuGraphDestroy(writes);
	refuses("memory of one of its copies", "a copy from it");
	E->cuMemMap(at, GRANULE, 0, memory, 0);
	E->cuMemSetAccess(at, GRANULE, &access, 1);
	E->cuMemUnmap(at + GRANULE, GRANULE);
	refuses("memory of one of its copies", "a copy to it");
	E->cuGraphDestroy(reads);
	E->cuMemUnmap(at, GRANULE);
	E->cuMemRelease(memory);
	E->cuMemAddressFree(at, 2 * GRANULE);
}

static void refuse_all(void)
{
	CUmodule module;
	CUfunction f;
	CUcontext context;
	CUstream stream;
	CUgraph graph;
	CUdeviceptr at;

	E->cuCtxCreate_v2(&context, 0, 0);
	E->cuStreamCreate(&stream, 0);
	E->cuModuleLoadData(&module, image);
	E->cuModuleGetFunction(&f, module, "add");
	refuse_nodes();
	refuse_graphs(module, f);
	refuse_memory();
	E->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	E->cuMemAllocAsync(&at, 100, stream);
	E->cuMemFreeAsync(at, stream);
	E->cuStreamEndCapture(stream, &graph);
	E->cuMemFree_v2(at);
	refuses("memory of its own", "a graph that allocates memory");
	E->cuGraphDestroy(graph);
	claim_str(gck_cuda_records_unable(), NULL, "without them all can be made again");
	E->cuCtxDestroy_v2(context);
}

/* ---- handles --------------------------------------------------------------------------------- */

static bool has_nodes(CUgraph graph, const CUgraphNode *nodes, size_t n)
{
	CUgraphNode found[2 * MANY];
	size_t count = 2 * MANY;

	return !E->cuGraphGetNodes(graph, found, &count) && count == n &&
	       !memcmp(found, nodes, n * sizeof *nodes);
}

/* A new node may come where one was that had another handle. inside: they were in a node. */
static void reuse_nodes(bool inside)
{
	CUgraphNode nodes[MANY], parent;
	CUgraph graph, holds;
	bool good = true;

	E->cuGraphCreate(&graph, 0);
	holds = graph;
	if (inside) {
		CUgraph nothing;

		E->cuGraphCreate(&nothing, 0);
		E->cuGraphAddChildGraphNode(&parent, graph, NULL, 0, nothing);
		E->cuGraphDestroy(nothing);
		E->cuGraphChildGraphNodeGetGraph(parent, &holds);
	}
	for (int i = 0; i < MANY; i++)
		E->cuGraphAddEmptyNode(&nodes[i], holds, NULL, 0);
	claim(restarted() && has_nodes(holds, nodes, MANY), "nodes %shave their handles",
	      inside ? "in a node " : "");
	if (inside)
		E->cuGraphDestroyNode(parent);
	for (int i = 0; i < MANY && !inside; i++)
		good &= !E->cuGraphDestroyNode(nodes[i]);
	for (int i = 0; i < MANY; i++)
		E->cuGraphAddEmptyNode(&nodes[i], graph, NULL, 0);
	claim(good && has_nodes(graph, nodes, MANY), "new ones after them, too");
	E->cuGraphDestroy(graph);
}

static CUgraphNodeParams given;

static CUresult take_params(CUgraphNode *node, CUgraph graph, const CUgraphNode *from,
			    const CUgraphEdgeData *data, size_t n, CUgraphNodeParams *p)
{
	(void)node;
	(void)graph;
	(void)from;
	(void)data;
	(void)n;
	given = *p;
	if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		p->alloc.dptr = 77;
	if (p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		p->conditional.phGraph_out = (CUgraph *)&given;
	return CUDA_SUCCESS;
}

static CUkernelNodeAttrValue attribute;

static CUresult set_attribute(CUgraphNode node, CUkernelNodeAttrID which,
			      const CUkernelNodeAttrValue *value)
{
	(void)node;
	(void)which;
	attribute = *value;
	return CUDA_SUCCESS;
}

static CUresult get_attribute(CUgraphNode node, CUkernelNodeAttrID which,
			      CUkernelNodeAttrValue *value)
{
	(void)node;
	(void)which;
	*value = attribute;
	return CUDA_SUCCESS;
}

/* Kinds of nodes and attributes that the fake driver lacks. */
static void structures(CUcontext context, CUevent event)
{
	const struct gck_cuda_real before = gck_cuda_driver;
	uint64_t now = records_now("context", (uintptr_t)context);
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .memOp.ctx = context};
	CUkernelNodeAttrValue value = {{0}};
	CUgraphNode node;

	gck_cuda_driver.cuGraphAddNode_v2 = take_params;
	E->cuGraphAddNode_v2(&node, NULL, NULL, NULL, 0, &p);
	claim((uintptr_t)given.memOp.ctx == now && p.memOp.ctx == context, "operations in memory");
	p = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_CONDITIONAL, .conditional.ctx = context};
	E->cuGraphAddNode_v2(&node, NULL, NULL, NULL, 0, &p);
	claim((uintptr_t)given.conditional.ctx == now && p.conditional.ctx == context &&
	      p.conditional.phGraph_out == (CUgraph *)&given, "a conditional node");
	p = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	E->cuGraphAddNode_v2(&node, NULL, NULL, NULL, 0, &p);
	claim(p.alloc.dptr == 77, "memory of a graph");
	gck_cuda_driver.cuGraphKernelNodeSetAttribute = set_attribute;
	gck_cuda_driver.cuGraphKernelNodeGetAttribute = get_attribute;
	now = records_now("event", (uintptr_t)event);
	for (int i = 0; i < 2; i++) {
		CUkernelNodeAttrID which = i ? CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
					     : CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
		CUevent *at = i ? &value.programmaticEvent.event
				: &value.launchCompletionEvent.event;

		*at = event;
		E->cuGraphKernelNodeSetAttribute(NULL, which, &value);
		memcpy(at, &attribute, sizeof *at);
		claim((uintptr_t)*at == now, "an event that is an attribute");
		E->cuGraphKernelNodeGetAttribute(NULL, which, &value);
		claim(*at == event, "and back");
	}
	gck_cuda_driver = before;
}

/* ---- what is made again ---------------------------------------------------------------------- */

static CUkernel kernel_now;
static CUcontext context_now;

/* As a driver might tell it: with the kernel as a function, and with its context. */
static CUresult tell_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p)
{
	static uint64_t v[2];
	static void *pointers[] = {&v[0], &v[1]};

	(void)node;
	*p = (CUDA_KERNEL_NODE_PARAMS){(CUfunction)kernel_now, 1, 1, 1, 1, 1, 1, 0, pointers, NULL,
				       NULL, context_now};
	return CUDA_SUCCESS;
}

static CUcontext added_in;
static CUresult (*add_kernel)(CUgraphNode *node, CUgraph graph, const CUgraphNode *from, size_t n,
			      const CUDA_KERNEL_NODE_PARAMS *p);

static CUresult see_kernel(CUgraphNode *node, CUgraph graph, const CUgraphNode *from, size_t n,
			   const CUDA_KERNEL_NODE_PARAMS *p)
{
	added_in = p->ctx;
	return add_kernel(node, graph, from, n, p);
}

static void told_as_kernel(CUcontext first)
{
	const struct gck_cuda_real before = gck_cuda_driver;
	uint64_t v[2] = {0};
	CUDA_KERNEL_NODE_PARAMS p = {NULL, 1, 1, 1, 1, 1, 1, 0, (void *[]){&v[0], &v[1]}, NULL,
				     NULL, first};
	CUcontext other;
	CUlibrary library;
	CUkernel kernel;
	CUgraphNode node;
	CUgraph graph;

	E->cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0);
	E->cuLibraryGetKernel(&p.kern, library, "add");
	E->cuCtxCreate_v2(&other, 0, 0);
	E->cuGraphCreate(&graph, 0);
	E->cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &p);
	kernel = p.kern;
	kernel_now = (CUkernel)(uintptr_t)records_now("kernel", (uintptr_t)kernel);
	context_now = (CUcontext)(uintptr_t)records_now("context", (uintptr_t)first);
	gck_cuda_driver.cuGraphKernelNodeGetParams_v2 = tell_kernel;
	add_kernel = gck_cuda_driver.cuGraphAddKernelNode_v2;
	gck_cuda_driver.cuGraphAddKernelNode_v2 = see_kernel;
	claim(restarted() &&
	      (uintptr_t)added_in == records_now("context", (uintptr_t)first),
	      "a kernel's node is made in the context that the driver tells");
	kernel_now = (CUkernel)(uintptr_t)records_now("kernel", (uintptr_t)kernel);
	E->cuGraphKernelNodeGetParams_v2(node, &p);
	claim(p.func == (CUfunction)kernel && kernel != kernel_now,
	      "the kernel that is told is the program's");
	gck_cuda_driver = before;
	E->cuGraphDestroy(graph);
	E->cuLibraryUnload(library);
	E->cuCtxDestroy_v2(other);
}

/* An edge that lets what follows a kernel begin early. */
static void early_edge(CUfunction f)
{
	uint64_t v[2] = {0};
	CUDA_KERNEL_NODE_PARAMS kernel = {f, 1, 1, 1, 1, 1, 1, 0, (void *[]){&v[0], &v[1]}, NULL,
					  NULL, NULL};
	CUgraphEdgeData data = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
				.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC}, found;
	CUgraphNode nodes[2], from, to;
	CUgraph graph;
	size_t n = 1;

	E->cuGraphCreate(&graph, 0);
	for (int i = 0; i < 2; i++)
		E->cuGraphAddKernelNode_v2(&nodes[i], graph, NULL, 0, &kernel);
	E->cuGraphAddDependencies_v2(graph, &nodes[1], &nodes[0], &data, 1);
	claim(restarted(), "a restart with a graph");
	E->cuGraphGetEdges_v2(graph, &from, &to, &found, &n);
	claim(from == nodes[1] && to == nodes[0] && !memcmp(&found, &data, sizeof data),
	      "an edge has what was said of it");
	E->cuGraphDestroy(graph);
}

static int graphs_made;
static CUresult (*make_graph)(CUgraph *graph, unsigned flags);

static CUresult count_graph(CUgraph *graph, unsigned flags)
{
	graphs_made++;
	return make_graph(graph, flags);
}

static CUresult (*end_graph)(CUgraph graph);

static CUresult count_end_of_graph(CUgraph graph)
{
	graphs_made--;
	return end_graph(graph);
}

/* A graph with two graphs in nodes is one of the driver's after a restart. */
static void count_graphs(void)
{
	const struct gck_cuda_real before = gck_cuda_driver;

	make_graph = gck_cuda_driver.cuGraphCreate;
	end_graph = gck_cuda_driver.cuGraphDestroy;
	gck_cuda_driver.cuGraphCreate = count_graph;
	gck_cuda_driver.cuGraphDestroy = count_end_of_graph;
	claim(restarted(), "a restart");
	claim_int(graphs_made, 1, "no graph is left over from it");
	gck_cuda_driver = before;
}

static char calls[8];
static CUresult (*instantiate)(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
static CUresult (*load_module)(CUmodule *module, const void *of);

static CUresult see_instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	strcat(calls, "e");
	return instantiate(exec, graph, flags);
}

static CUresult see_load(CUmodule *module, const void *of)
{
	strcat(calls, "m");
	return load_module(module, of);
}

/* Addresses of later modules may depend on an executable graph. */
static void keep_order(void)
{
	const struct gck_cuda_real before = gck_cuda_driver;
	CUmodule module;
	CUgraphExec exec;
	CUgraph graph;

	E->cuGraphCreate(&graph, 0);
	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	E->cuModuleLoadData(&module, image);
	instantiate = gck_cuda_driver.cuGraphInstantiateWithFlags;
	load_module = gck_cuda_driver.cuModuleLoadData;
	gck_cuda_driver.cuGraphInstantiateWithFlags = see_instantiate;
	gck_cuda_driver.cuModuleLoadData = see_load;
	claim(restarted(), "a restart with an executable graph between modules");
	claim_str(calls, "mem", "it is made between them");
	gck_cuda_driver = before;
	E->cuModuleUnload(module);
	E->cuGraphExecDestroy(exec);
	E->cuGraphDestroy(graph);
}

/* A graph that is moved into a node keeps its handle, and is made again once. */
static void moved_graph(void)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH,
			       .graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
	CUgraph graph, found = NULL;
	CUgraphNode node, parents[2];

	E->cuGraphCreate(&graph, 0);
	for (int i = 0; i < 2; i++) {
		E->cuGraphCreate(&p.graph.graph, 0);
		E->cuGraphAddEmptyNode(&node, p.graph.graph, NULL, 0);
		if (i)
			claim(restarted(), "a graph that is moved after a restart");
		E->cuGraphAddNode_v2(&parents[i], graph, NULL, NULL, 0, &p);
		claim_int(records_count("graph"), 1, "it is no graph by itself");
		claim(restarted(), "a restart with a graph that was moved into a node");
		E->cuGraphChildGraphNodeGetGraph(parents[i], &found);
		claim(found == p.graph.graph && has_nodes(found, &node, 1),
		      "it is that of the node, with its own");
	}
	count_graphs();
	E->cuGraphDestroy(graph);
}

static void add_one(void *number)
{
	++*(int *)number;
}

/* Nodes in a node of an executable graph: one is changed, one is disabled, twice over a restart. */
static void inside_executable(CUdeviceptr at, CUstream stream)
{
	CUDA_MEMSET_NODE_PARAMS set = {at, 0, 1, 4, 1, 1};
	int counts[2] = {0};
	CUDA_HOST_NODE_PARAMS host = {add_one, &counts[0]};
	CUgraphNode nodes[3], parent;
	CUgraph child, graph;
	CUgraphExec exec;
	CUevent events[2];
	unsigned enabled = 1, v = 7;

	E->cuGraphCreate(&child, 0);
	E->cuGraphCreate(&graph, 0);
	E->cuGraphAddMemsetNode(&nodes[0], child, NULL, 0, &set, NULL);
	E->cuGraphAddHostNode(&nodes[1], child, NULL, 0, &host);
	E->cuEventCreate(&events[0], 0);
	E->cuGraphAddEventRecordNode(&nodes[2], child, NULL, 0, events[0]);
	E->cuGraphAddChildGraphNode(&parent, graph, NULL, 0, child);
	E->cuGraphDestroy(child);
	E->cuGraphChildGraphNodeGetGraph(parent, &child);
	E->cuGraphGetNodes(child, nodes, &(size_t){3});
	E->cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
	host.userData = &counts[1];
	E->cuGraphNodeSetEnabled(exec, nodes[0], 0);
	E->cuEventCreate(&events[1], 0);
	claim_int(E->cuGraphExecEventRecordNodeSetEvent(exec, nodes[2], events[1]), 0,
		  "a node in a node gets a later event");
	for (int i = 0; i < 2; i++) {
		cuuint64_t flags = 0;

		claim(restarted(), "a restart with a graph in a node");
		claim_int(E->cuGraphExecHostNodeSetParams(exec, nodes[1], &host), 0,
			  "its node can be changed");
		E->cuGraphNodeGetEnabled(exec, nodes[0], &enabled);
		claim_int((int)enabled, 0, "one that was disabled still is");
		E->cuGraphExecGetFlags(exec, &flags);
		claim_int((int)flags, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY,
			  "so are flags");
		E->cuMemcpyHtoD_v2(at, &v, sizeof v);
		E->cuGraphLaunch(exec, stream);
		E->cuStreamSynchronize(stream);
		E->cuMemcpyDtoH_v2(&enabled, at, sizeof enabled);
		claim(enabled == 7 && counts[0] == 0 && counts[1] == i + 1, "it runs so");
	}
	E->cuGraphDestroyNode(nodes[0]);
	claim_int(E->cuGraphNodeSetEnabled(exec, nodes[0], 1), CUDA_ERROR_INVALID_VALUE,
		  "a node that has ended is none of the executable graph's");
	E->cuGraphExecDestroy(exec);
	E->cuGraphDestroy(graph);
	for (int i = 0; i < 2; i++)
		E->cuEventDestroy_v2(events[i]);
}

static CUdeviceptr map_on(int device)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
						       .id = device}};
	const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle memory;
	CUdeviceptr at;

	E->cuMemAddressReserve(&at, GRANULE, 0, 0, 0);
	E->cuMemCreate(&memory, GRANULE, &prop, 0);
	E->cuMemMap(at, GRANULE, 0, memory, 0);
	E->cuMemSetAccess(at, GRANULE, &access, 1);
	E->cuMemRelease(memory);
	return at;
}

static void unmap(CUdeviceptr at)
{
	E->cuMemUnmap(at, GRANULE);
	E->cuMemAddressFree(at, GRANULE);
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr to, const void *from)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = from,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = to,
			       .WidthInBytes = 8, .Height = 1, .Depth = 1};
}

/* A graph with a node of each kind, and what they leave: a sum, a word, a copy, three counts. */
static struct {
	CUgraphNode kernel, set, copy, host, child;
	CUgraph inside;
	uint64_t by, value;
	int counts[3];
} all;

static CUDA_KERNEL_NODE_PARAMS all_kernel(CUfunction f, CUdeviceptr *at)
{
	static void *params[2];

	params[0] = at;
	params[1] = &all.by;
	return (CUDA_KERNEL_NODE_PARAMS){f, 1, 1, 1, 1, 1, 1, 0, params, NULL, NULL, NULL};
}

static CUDA_MEMSET_NODE_PARAMS all_set(CUdeviceptr at)
{
	return (CUDA_MEMSET_NODE_PARAMS){at + 8, 0, (unsigned)all.by, 4, 1, 1};
}

static CUgraph make_of_all(CUfunction f, CUdeviceptr at, CUgraph child, CUDA_HOST_NODE_PARAMS *host)
{
	CUDA_KERNEL_NODE_PARAMS kernel = all_kernel(f, &at);
	CUDA_MEMSET_NODE_PARAMS set = all_set(at);
	CUDA_MEMCPY3D copy = copy_of(at + 16, &all.by);
	CUgraph graph;

	E->cuGraphCreate(&graph, 0);
	E->cuGraphAddKernelNode_v2(&all.kernel, graph, NULL, 0, &kernel);
	E->cuGraphAddMemsetNode(&all.set, graph, NULL, 0, &set, NULL);
	E->cuGraphAddMemcpyNode(&all.copy, graph, NULL, 0, &copy, NULL);
	E->cuGraphAddHostNode(&all.host, graph, NULL, 0, host);
	E->cuGraphAddChildGraphNode(&all.child, graph, NULL, 0, child);
	E->cuGraphChildGraphNodeGetGraph(all.child, &all.inside);
	return graph;
}

/* Runs it, with the sum at 0 before: what is left. */
static bool runs(CUgraphExec exec, CUdeviceptr at, CUstream stream, const uint64_t left[3])
{
	uint64_t v[3] = {0};

	E->cuMemcpyHtoD_v2(at, v, sizeof v);
	E->cuGraphLaunch(exec, stream);
	E->cuStreamSynchronize(stream);
	E->cuMemcpyDtoH_v2(v, at, sizeof v);
	return !memcmp(v, left, sizeof v);
}

/* New nodes come where others were that had copies, in a clone and in an executable graph. */
static void dead_copies(void)
{
	CUDA_HOST_NODE_PARAMS host = {add_one, &all.counts[0]};
	CUgraphNode nodes[MANY], copies[MANY], found;
	CUgraph graph, clone;
	CUgraphExec exec;
	int n = 0;

	E->cuGraphCreate(&graph, 0);
	for (int i = 0; i < MANY; i++)
		E->cuGraphAddHostNode(&nodes[i], graph, NULL, 0, &host);
	E->cuGraphClone(&clone, graph);
	E->cuGraphGetNodes(clone, copies, &(size_t){MANY});
	for (int i = 0; i < MANY; i++)
		E->cuGraphDestroyNode(copies[i]);
	for (int i = 0; i < MANY; i++)
		E->cuGraphAddHostNode(&copies[i], clone, NULL, 0, &host);
	claim(restarted(), "a restart with new nodes in a clone");
	for (int i = 0; i < MANY; i++)
		n += !E->cuGraphNodeFindInClone(&found, nodes[i], clone);
	claim_int(n, 0, "they are no copies");
	E->cuGraphInstantiateWithFlags(&exec, clone, 0);
	for (int i = 0; i < MANY; i++)
		E->cuGraphDestroyNode(copies[i]);
	for (int i = 0; i < MANY; i++)
		E->cuGraphAddHostNode(&copies[i], clone, NULL, 0, &host);
	E->cuGraphExecDestroy(exec);
	E->cuGraphInstantiateWithFlags(&exec, clone, 0);
	for (int i = 0; i < MANY; i++)
		E->cuGraphDestroyNode(copies[i]);
	for (int i = 0; i < MANY; i++)
		E->cuGraphAddHostNode(&copies[i], clone, NULL, 0, &host);
	claim(restarted(), "a restart with new nodes in a graph that was instantiated");
	for (int i = 0; i < MANY; i++)
		n += !E->cuGraphExecHostNodeSetParams(exec, copies[i], &host);
	claim_int(n, 0, "they are none of the executable graph's");
	E->cuGraphExecDestroy(exec);
	E->cuGraphDestroy(clone);
	E->cuGraphDestroy(graph);
}

/* The executable graph's nodes are changed one by one, all by an update, then one in a node. */
static void changed(CUfunction f, CUdeviceptr at, CUstream stream)
{
	CUDA_HOST_NODE_PARAMS host = {add_one, &all.counts[0]};
	uint64_t other = 20;
	CUDA_MEMCPY3D copy = copy_of(at + 16, &other);
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS set;
	CUgraphExecUpdateResultInfo info;
	CUgraph graph, child;
	CUgraphNode node;
	CUgraphExec exec;

	all.by = 10;
	E->cuGraphCreate(&child, 0);
	E->cuGraphAddHostNode(&node, child, NULL, 0, &host);
	graph = make_of_all(f, at, child, &host);
	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	all.by = 30;
	kernel = all_kernel(f, &at);
	set = all_set(at);
	host.userData = &all.counts[1];
	E->cuGraphExecKernelNodeSetParams_v2(exec, all.kernel, &kernel);
	E->cuGraphExecMemsetNodeSetParams(exec, all.set, &set, NULL);
	E->cuGraphExecMemcpyNodeSetParams(exec, all.copy, &copy, NULL);
	E->cuGraphExecHostNodeSetParams(exec, all.host, &host);
	claim(restarted() && runs(exec, at, stream, (const uint64_t[]){31, 30, 20}) &&
	      all.counts[0] == 1 && all.counts[1] == 1, "each node has been changed");
	all.by = 50;
	kernel = all_kernel(f, &at);
	set = all_set(at);
	copy = copy_of(at + 16, &all.by);
	host.userData = &all.counts[2];
	E->cuGraphKernelNodeSetParams_v2(all.kernel, &kernel);
	E->cuGraphMemsetNodeSetParams(all.set, &set);
	E->cuGraphMemcpyNodeSetParams(all.copy, &copy);
	E->cuGraphHostNodeSetParams(all.host, &host);
	E->cuGraphGetNodes(all.inside, &node, &(size_t){1});
	E->cuGraphHostNodeSetParams(node, &host);
	claim_int(E->cuGraphExecUpdate_v2(exec, graph, &info), 0, "an update");
	claim(restarted() && runs(exec, at, stream, (const uint64_t[]){51, 50, 50}) &&
	      all.counts[2] == 2, "it has changed each node, and one in a node");
	claim_int(E->cuGraphExecChildGraphNodeSetParams(exec, all.child, child), 0,
		  "another graph for a node");
	claim(restarted() && runs(exec, at, stream, (const uint64_t[]){51, 50, 50}) &&
	      all.counts[0] == 2, "it is used");
	E->cuGraphExecDestroy(exec);
	E->cuGraphDestroy(graph);
	E->cuGraphDestroy(child);
}

/* An executable graph is changed to hold objects that were made after it. */
static void later_objects(CUdeviceptr at, CUstream stream)
{
	const CUDA_ARRAY_DESCRIPTOR flat = {4, 4, CU_AD_FORMAT_UNSIGNED_INT32, 2};
	uint64_t value = 5, v = 0;
	CUDA_MEMCPY3D copies[2] = {copy_of(at, &value), copy_of(at, &value)};
	CUgraphNode nodes[2];
	CUgraph graph;
	CUgraphExec exec;
	CUarray array;

	E->cuGraphCreate(&graph, 0);
	E->cuGraphAddMemcpyNode(&nodes[0], graph, NULL, 0, &copies[0], NULL);
	E->cuGraphAddMemcpyNode(&nodes[1], graph, &nodes[0], 1, &copies[1], NULL);
	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	E->cuArrayCreate_v2(&array, &flat);
	copies[0].dstMemoryType = copies[1].srcMemoryType = CU_MEMORYTYPE_ARRAY;
	copies[0].dstArray = copies[1].srcArray = array;
	copies[1].dstDevice = at + 8;
	for (int i = 0; i < 2; i++)
		claim_int(E->cuGraphExecMemcpyNodeSetParams(exec, nodes[i], &copies[i], NULL), 0,
		       "a copy to or from a later array");
	claim(restarted(), "it is made again after the array");
	E->cuGraphLaunch(exec, stream);
	E->cuStreamSynchronize(stream);
	E->cuMemcpyDtoH_v2(&v, at + 8, sizeof v);
	claim_int((int)v, 5, "and works");
	for (int i = 0; i < 2; i++) {
		CUDA_MEMCPY3D plain = copy_of(at, &value);

		E->cuGraphExecMemcpyNodeSetParams(exec, nodes[i], &plain, NULL);
		E->cuGraphExecMemcpyNodeSetParams(exec, nodes[1 - i], &copies[1 - i], NULL);
		claim(restarted(), "one of them alone");
	}
	E->cuGraphExecDestroy(exec);
	E->cuGraphDestroy(graph);
	E->cuArrayDestroy(array);
}

static CUresult set_memory(CUgraphExec exec, CUgraphNode node, CUdeviceptr at)
{
	return E->cuGraphExecMemsetNodeSetParams(
		exec, node, &(const CUDA_MEMSET_NODE_PARAMS){at, 0, 1, 4, 1, 1}, NULL);
}

/* The same of memory, in all that is later each by itself: a context, a mapping, a variable, pinned
 * memory of the host. */
static void later_memory(CUdeviceptr first, CUdeviceptr on_second, CUcontext *second)
{
	uint64_t value = 5;
	CUDA_MEMCPY3D copy = copy_of(first, &value);
	CUgraphNode sets, copies;
	CUdeviceptr mapped, variable;
	CUcontext gone;
	CUgraphExec exec;
	CUmodule module;
	CUgraph graph;
	size_t size;
	void *host;

	E->cuCtxCreate_v2(&gone, 0, 1);
	copy.dstDevice = on_second;
	E->cuGraphCreate(&graph, 0);
	E->cuGraphAddMemcpyNode(&copies, graph, NULL, 0, &copy, NULL);
	E->cuCtxDestroy_v2(gone);
	refuses("memory of one of its copies, or a context", "a copy without a context");
	E->cuGraphDestroy(graph);
	E->cuCtxCreate_v2(&gone, 0, 1);
	E->cuGraphCreate(&graph, 0);
	E->cuGraphAddMemsetNode(&sets, graph, NULL, 0,
				&(const CUDA_MEMSET_NODE_PARAMS){on_second, 0, 1, 4, 1, 1}, NULL);
	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	E->cuGraphDestroy(graph);
	E->cuCtxDestroy_v2(gone);
	copy.dstDevice = first;
	refuses("the context of one of its nodes has ended", "a memset without a context");
	E->cuCtxCreate_v2(second, 0, 1);
	E->cuCtxPopCurrent_v2(NULL);
	claim(restarted(), "with a later context it can be made again");
	E->cuGraphExecDestroy(exec);
	E->cuGraphCreate(&graph, 0);
	E->cuGraphAddMemsetNode(&sets, graph, NULL, 0,
				&(const CUDA_MEMSET_NODE_PARAMS){first, 0, 1, 4, 1, 1}, NULL);
	E->cuGraphAddMemcpyNode(&copies, graph, NULL, 0, &copy, NULL);
	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	mapped = map_on(0);
	claim(!set_memory(exec, sets, mapped) && restarted(), "a later mapping");
	E->cuModuleLoadData(&module, image);
	E->cuModuleGetGlobal_v2(&variable, &size, module, "first");
	claim(!set_memory(exec, sets, variable) && restarted(), "a later variable");
	set_memory(exec, sets, first);
	copy.dstDevice = mapped;
	claim(!E->cuGraphExecMemcpyNodeSetParams(exec, copies, &copy, NULL) && restarted(),
	      "a copy to a later mapping");
	E->cuMemAllocHost_v2(&host, 4096);
	copy.dstDevice = first;
	copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	copy.srcDevice = (uintptr_t)host;
	claim(!E->cuGraphExecMemcpyNodeSetParams(exec, copies, &copy, NULL) && restarted(),
	      "a copy from later memory of the host");
	E->cuGraphExecDestroy(exec);
	E->cuGraphDestroy(graph);
	E->cuMemFreeHost(host);
	E->cuModuleUnload(module);
	unmap(mapped);
}

static const CUDA_BATCH_MEM_OP_NODE_PARAMS *value_of(CUcontext context, CUdeviceptr at,
						      uint64_t value)
{
	static CUDA_BATCH_MEM_OP_NODE_PARAMS p;
	static CUstreamBatchMemOpParams operations[2];

	operations[0] = operations[1] = (CUstreamBatchMemOpParams){
		.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, at, {0}, 0, 0}};
	operations[0].writeValue.value64 = value + 1;
	operations[1].writeValue.value64 = value;
	p = (CUDA_BATCH_MEM_OP_NODE_PARAMS){context, 2, operations, 0};
	return &p;
}

/* What is in memory after a run. */
static int left_by(CUgraphExec exec, CUdeviceptr at, CUstream stream)
{
	uint64_t value = 0;

	E->cuMemcpyHtoD_v2(at, &value, sizeof value);
	E->cuGraphLaunch(exec, stream);
	E->cuStreamSynchronize(stream);
	E->cuMemcpyDtoH_v2(&value, at, sizeof value);
	return (int)value;
}

/* Values in memory: changed in an executable graph, by an update, to later memory. */
static void values_in_memory(CUcontext context, CUdeviceptr at, CUstream stream)
{
	CUgraphExecUpdateResultInfo info;
	CUdeviceptr mapped;
	CUgraphNode node;
	CUcontext gone;
	CUgraphExec exec;
	CUgraph graph;

	E->cuGraphCreate(&graph, 0);
	claim_int(E->cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, value_of(context, at, 1)), 0,
		  "a node that writes values");
	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	E->cuGraphExecBatchMemOpNodeSetParams(exec, node, value_of(context, at, 2));
	claim(restarted() && left_by(exec, at, stream) == 2, "it writes that of its last change");
	E->cuGraphBatchMemOpNodeSetParams(node, value_of(context, at, 3));
	claim(!E->cuGraphExecUpdate_v2(exec, graph, &info) && restarted() &&
	      left_by(exec, at, stream) == 3, "that of an update");
	mapped = map_on(0);
	E->cuGraphExecBatchMemOpNodeSetParams(exec, node, value_of(context, mapped, 4));
	claim(restarted() && left_by(exec, mapped, stream) == 4, "one in later memory");
	unmap(mapped);
	refuses("memory of a value", "one without its memory");
	E->cuGraphExecDestroy(exec);
	E->cuCtxCreate_v2(&gone, 0, 0);
	E->cuGraphBatchMemOpNodeSetParams(node, value_of(gone, at, 5));
	E->cuCtxDestroy_v2(gone);
	refuses("the context of one of its nodes has ended", "one without its context");
	E->cuGraphDestroy(graph);
}

/* ---- objects that graphs hold ---------------------------------------------------------------- */

static int destroyed;

static void destroy(void *n)
{
	++*(int *)n;
}

static CUresult no_release(CUuserObject object, unsigned n)
{
	(void)object;
	(void)n;
	return CUDA_SUCCESS;
}

/* A graph, to which the program has given an object. */
static CUgraph holder(CUuserObject *object)
{
	CUgraph graph;

	destroyed = 0;
	E->cuGraphCreate(&graph, 0);
	claim(!E->cuUserObjectCreate(object, &destroyed, destroy, 1,
				     CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) &&
	      !E->cuGraphRetainUserObject(graph, *object, 1, CU_GRAPH_USER_OBJECT_MOVE) &&
	      restarted() && !destroyed, "a graph holds an object over a restart");
	return graph;
}

static void held_in_node(void)
{
	CUuserObject object;
	CUgraph graph = holder(&object), parent;
	CUgraphNode node;

	E->cuGraphCreate(&parent, 0);
	E->cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph);
	E->cuGraphDestroy(graph);
	claim(restarted() && !destroyed, "a copy in a node does");
	E->cuGraphDestroyNode(node);
	claim_int(destroyed, 1, "until the node ends");
	E->cuGraphDestroy(parent);
	graph = holder(&object);
	E->cuGraphClone(&parent, graph);
	E->cuGraphDestroy(graph);
	claim(restarted() && !destroyed, "a copy of a graph does");
	claim_int(E->cuGraphReleaseUserObject(parent, object, 1), 0, "it is taken from it");
	claim_int(destroyed, 1, "and ends");
	E->cuGraphDestroy(parent);
}

static void held_by_executable(void)
{
	CUuserObject object;
	CUgraph graph = holder(&object), other;
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec;

	E->cuGraphInstantiateWithFlags(&exec, graph, 0);
	E->cuGraphDestroy(graph);
	claim(restarted() && !destroyed, "an executable graph does");
	E->cuGraphCreate(&other, 0);
	claim(!E->cuGraphExecUpdate_v2(exec, other, &info) && destroyed == 1,
	      "until an update by a graph without it");
	E->cuGraphExecDestroy(exec);
	graph = holder(&object);
	E->cuGraphInstantiateWithFlags(&exec, other, 0);
	E->cuGraphExecUpdate_v2(exec, graph, &info);
	E->cuGraphDestroy(graph);
	claim(restarted() && !destroyed, "that of an update does");
	E->cuGraphExecDestroy(exec);
	claim_int(destroyed, 1, "until it ends");
	E->cuGraphInstantiateWithFlags(&exec, other, 0);
	graph = holder(&object);
	E->cuGraphExecUpdate_v2(exec, graph, &info);
	E->cuGraphDestroy(graph);
	claim(restarted() && !destroyed, "an older executable graph gets a later object");
	E->cuGraphExecDestroy(exec);
	claim_int(destroyed, 1, "which ends with it");
	E->cuGraphDestroy(other);
}

/* New graphs come where others were that held an object, or copies of these. */
static void held_no_more(void)
{
	CUgraphExec execs[MANY];
	CUgraph graphs[MANY];
	CUuserObject object;

	destroyed = 0;
	E->cuUserObjectCreate(&object, &destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	for (int i = 0; i < MANY; i++) {
		E->cuGraphCreate(&graphs[i], 0);
		E->cuGraphRetainUserObject(graphs[i], object, 1, 0);
		E->cuGraphInstantiateWithFlags(&execs[i], graphs[i], 0);
	}
	for (int i = 0; i < MANY; i++) {
		E->cuGraphExecDestroy(execs[i]);
		E->cuGraphDestroy(graphs[i]);
	}
	for (int i = 0; i < MANY; i++)
		E->cuGraphCreate(&graphs[i], 0);
	claim(restarted() && !E->cuUserObjectRelease(object, 1) && destroyed == 1,
	      "new graphs do not hold what those before them held");
	for (int i = 0; i < MANY; i++)
		E->cuGraphDestroy(graphs[i]);
}

static void held(void)
{
	const struct gck_cuda_real before = gck_cuda_driver;
	CUuserObject object;
	CUgraph graph = holder(&object);

	E->cuGraphDestroy(graph);
	claim_int(destroyed, 1, "it ends with the graph, once");
	claim(restarted() && destroyed == 1, "and is not made again");
	held_in_node();
	held_by_executable();
	held_no_more();
	destroyed = 1;
	E->cuUserObjectCreate(&object, &destroyed, destroy, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	E->cuUserObjectRelease(object, 1);
	claim(restarted() && !E->cuUserObjectRelease(object, 1) && destroyed == 2,
	      "an object that no graph holds is made again with what the program has of it");
	E->cuUserObjectCreate(&object, &destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	gck_cuda_driver.cuUserObjectRelease = no_release;
	E->cuUserObjectRelease(object, 1);
	gck_cuda_driver = before;
	refuses("its destructor has not ended", "an object that is about to end");
	gck_cuda_driver.cuUserObjectRelease(object, 1);
	claim_str(gck_cuda_records_unable(), NULL, "without it all can be made again");
}

/* Contexts of nodes, which the driver does not tell. */
static void contexts(CUdeviceptr second_device, CUcontext on_second)
{
	const CUDA_ARRAY_DESCRIPTOR flat = {4, 4, CU_AD_FORMAT_UNSIGNED_INT32, 2};
	uint64_t value = 5, back = 0;
	CUDA_MEMCPY3D to = copy_of(second_device, &value), from = copy_of(0, NULL), array_copy;
	CUcontext other, gone;
	CUgraphNode node;
	CUgraph graph, made_elsewhere;
	CUarray array;

	from.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	from.srcDevice = second_device;
	from.dstMemoryType = CU_MEMORYTYPE_HOST;
	from.dstHost = &back;
	E->cuGraphCreate(&graph, 0);
	claim_int(E->cuGraphAddMemcpyNode(&node, graph, NULL, 0, &to, on_second), 0, "a copy to");
	claim_int(E->cuGraphAddMemcpyNode(&node, graph, NULL, 0, &from, on_second), 0,
	       "and from another device");
	E->cuCtxCreate_v2(&other, 0, 1);
	E->cuArrayCreate_v2(&array, &flat);
	E->cuCtxPopCurrent_v2(NULL);
	array_copy = to;
	array_copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	array_copy.dstArray = array;
	claim_int(E->cuGraphAddMemcpyNode(&node, graph, NULL, 0, &array_copy, other), 0,
	       "a copy to an array of another context");
	E->cuCtxCreate_v2(&gone, 0, 0);
	E->cuGraphCreate(&made_elsewhere, 0);
	to = copy_of(0, &value);
	to.dstMemoryType = CU_MEMORYTYPE_HOST;
	to.dstHost = &back;
	E->cuGraphAddMemcpyNode(&node, made_elsewhere, NULL, 0, &to, gone);
	E->cuCtxDestroy_v2(gone);
	claim(restarted(), "each is made again in such a context");
	E->cuGraphDestroy(graph);
	E->cuCtxDestroy_v2(other);
	E->cuGraphDestroy(made_elsewhere);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void make_again(void)
{
	CUcontext context, second;
	CUdeviceptr at[2];
	CUstream stream;
	CUmodule module;
	CUfunction f;
	CUevent event;

	E->cuCtxCreate_v2(&context, 0, 0);
	E->cuStreamCreate(&stream, 0);
	E->cuEventCreate(&event, 0);
	E->cuModuleLoadData(&module, image);
	E->cuModuleGetFunction(&f, module, "add");
	for (int i = 0; i < 2; i++)
		at[i] = map_on(i);
	later_memory(at[0], at[1], &second);
	reuse_nodes(false);
	reuse_nodes(true);
	structures(context, event);
	told_as_kernel(context);
	early_edge(f);
	keep_order();
	moved_graph();
	inside_executable(at[0], stream);
	changed(f, at[0], stream);
	dead_copies();
	later_objects(at[0], stream);
	values_in_memory(context, at[0], stream);
	held();
	contexts(at[1], second);
	for (int i = 0; i < 2; i++)
		unmap(at[i]);
	E->cuCtxDestroy_v2(context);
	E->cuCtxDestroy_v2(second);
}

void graph_cases(bool (*restart)(void), void (*refuse)(const char *text, const char *what),
		 const void *module)
{
	restarted = restart;
	refuses = refuse;
	image = module;
	refuse_all();
	make_again();
}

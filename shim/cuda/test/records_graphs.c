/* SPDX-License-Identifier: Apache-2.0
 * Graphs in the random programs of records.c: they are made, captured, changed, copied,
 * instantiated, updated, run and destroyed. */
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/test/records_model.h"

#define MOST_NODES 8
#define MOST_REFS 40

/* The objects that a node needs. */
struct refs {
	int n, v[MOST_REFS];
};

/* What a node does: objects, and numbers. */
struct spec {
	CUgraphNodeType type;
	int function, memory, other, event, context, child;
	uint64_t offset, other_offset, value;
	bool back; /* a copy from the array `other` to memory, not to it */
	struct refs refs;
};

static struct spec specs[MOST]; /* of nodes, by object */

/* Of executable graphs, by object. */
static struct executable {
	int source, n;
	struct part {
		int node;
		struct refs refs;
	} parts[2 * MOST_NODES];
} executables[MOST];

/* ---- what nodes need ------------------------------------------------------------------------- */

static void add_ref(struct refs *r, int i)
{
	if (i >= 0 && r->n < MOST_REFS)
		r->v[r->n++] = i;
}

static bool are_there(const struct refs *r)
{
	for (int i = 0; i < r->n; i++) {
		const struct object *o = &objects[r->v[i]];

		if (!o->alive || (!strcmp(o->kind, "mapping") && !o->open))
			return false;
	}
	return r->n < MOST_REFS;
}

static bool is_node_sound(int node);

static bool is_graph_sound(int graph)
{
	for (int i = 0; i < n_objects; i++) {
		if (is(i, "node") && objects[i].of == graph && !is_node_sound(i))
			return false;
	}
	return true;
}

/* The graph in a node; -1: it is not known. */
static int inner_of(int node)
{
	return any_of("inner", node);
}

static bool is_node_sound(int node)
{
	return are_there(&specs[node].refs) &&
	       (inner_of(node) < 0 || is_graph_sound(inner_of(node)));
}

static bool is_executable_sound(int i)
{
	for (int k = 0; k < executables[i].n; k++) {
		if (!are_there(&executables[i].parts[k].refs))
			return false;
	}
	return true;
}

static void add_refs_of_graph(struct refs *r, int graph)
{
	for (int i = 0; i < n_objects; i++) {
		if (!is(i, "node") || objects[i].of != graph)
			continue;
		for (int k = 0; k < specs[i].refs.n; k++)
			add_ref(r, specs[i].refs.v[k]);
		if (inner_of(i) >= 0)
			add_refs_of_graph(r, inner_of(i));
	}
}

bool graphs_are_sound(void)
{
	for (int i = 0; i < n_objects; i++) {
		if ((is(i, "graph") && !is_graph_sound(i)) ||
		    (is(i, "executable") && !is_executable_sound(i)))
			return false;
	}
	return true;
}

void clear_graph(int i)
{
	if (is(i, "executable") && !BOTH(cuGraphExecDestroy(H(CUgraphExec, i))))
		end(i);
	if (is(i, "graph") && !BOTH(cuGraphDestroy(H(CUgraph, i))))
		end(i);
}

void tidy_graphs(void)
{
	for (int i = 0; i < n_objects; i++) {
		if ((is(i, "graph") && !is_graph_sound(i)) ||
		    (is(i, "executable") && !is_executable_sound(i)))
			clear_graph(i);
	}
}

static int nodes_of(int graph)
{
	int n = 0;

	for (int i = 0; i < n_objects; i++)
		n += is(i, "node") && objects[i].of == graph;
	return n;
}

/* A graph that can be used: of the program, or in a node. */
static int any_graph(void)
{
	int i = rand() % 5 ? any("graph") : any("inner");

	return i >= 0 && is_graph_sound(i) ? i : -1;
}

static int any_node(void)
{
	int i = any("node");

	return i >= 0 && is_graph_sound(objects[i].of) ? i : -1;
}

/* ---- what nodes do --------------------------------------------------------------------------- */

static uint64_t host_sums[WORLDS];

static void add_to_sum(void *sum)
{
	*(uint64_t *)sum = *(uint64_t *)sum * 3 + 1;
}

static void add_more(void *sum)
{
	*(uint64_t *)sum = *(uint64_t *)sum * 5 + 2;
}

/* Memory for copies, also of the host. */
static int any_other(uint64_t *offset)
{
	*offset = 8u * (unsigned)(rand() % 4);
	return rand() % 2 ? any("host") : any_place(offset);
}

/* An array in the context, or a level of one; -1: none. */
static int any_array(int context)
{
	int mipmap = rand() % 3 ? -1 : any_of("mipmap", context);

	return any_of("array", mipmap >= 0 ? mipmap : context);
}

/* False: there is nothing of which it could be. */
static bool choose(struct spec *s, CUgraphNodeType type)
{
	*s = (struct spec){.type = type, .function = -1, .memory = -1, .other = -1, .event = -1,
			   .context = current(), .child = -1, .value = (uint64_t)rand() % 1000,
			   .back = rand() % 2};
	if (s->context < 0)
		return false;
	add_ref(&s->refs, s->context);
	switch (type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		s->function = any(rand() % 2 ? "function" : "kernel");
		s->memory = any_place(&s->offset);
		add_ref(&s->refs, s->function);
		add_ref(&s->refs, s->memory);
		return s->function >= 0 && s->memory >= 0;
	case CU_GRAPH_NODE_TYPE_MEMSET:
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		s->memory = any_place(&s->offset);
		add_ref(&s->refs, s->memory);
		return s->memory >= 0;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		s->memory = any_place(&s->offset);
		s->other = rand() % 2 ? any_other(&s->other_offset)
				      : any_array(s->context);
		add_ref(&s->refs, s->memory);
		add_ref(&s->refs, s->other);
		return s->memory >= 0 && s->other >= 0;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		s->event = any_of("event", s->context);
		add_ref(&s->refs, s->event);
		return s->event >= 0;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		s->child = any("graph");
		if (s->child >= 0)
			add_refs_of_graph(&s->refs, s->child);
		return s->child >= 0 && is_graph_sound(s->child) && s->refs.n < MOST_REFS / 4;
	default:
		return true;
	}
}

/* The arguments of a world's kernel, by pointers or behind each other. */
static struct {
	uint64_t v[2];
	size_t size;
	void *pointers[2], *extra[5];
} arguments[WORLDS];

static CUDA_KERNEL_NODE_PARAMS kernel_of(const struct spec *s, int W)
{
	CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = 1 + (unsigned)(s->value % 5), .gridDimY = 1,
				     .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1,
				     .blockDimZ = 1};

	arguments[W].v[0] = H(uint64_t, s->memory) + s->offset;
	arguments[W].v[1] = s->value;
	arguments[W].size = sizeof arguments[W].v;
	for (int i = 0; i < 2; i++)
		arguments[W].pointers[i] = &arguments[W].v[i];
	memcpy(arguments[W].extra, (void *[]){CU_LAUNCH_PARAM_BUFFER_POINTER, arguments[W].v,
					      CU_LAUNCH_PARAM_BUFFER_SIZE, &arguments[W].size,
					      CU_LAUNCH_PARAM_END}, sizeof arguments[W].extra);
	if (s->value % 2)
		p.kernelParams = arguments[W].pointers;
	else
		p.extra = arguments[W].extra;
	if (is(s->function, "function")) {
		p.func = H(CUfunction, s->function);
	} else {
		p.kern = H(CUkernel, s->function);
		p.ctx = H(CUcontext, s->context);
	}
	return p;
}

static CUDA_MEMSET_NODE_PARAMS memset_of(const struct spec *s, int W)
{
	return (CUDA_MEMSET_NODE_PARAMS){H(uint64_t, s->memory) + s->offset, 64,
					 (unsigned)s->value, 4, 2, 1};
}

static CUDA_MEMCPY3D memcpy_of(const struct spec *s, int W)
{
	uint64_t memory = H(uint64_t, s->memory) + s->offset;
	CUDA_MEMCPY3D p = {.WidthInBytes = 8, .Height = 1, .Depth = 1};

	if (s->back) {
		p.dstMemoryType = s->value % 2 ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
		p.dstDevice = memory;
	} else {
		p.srcMemoryType = s->value % 2 ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
		p.srcDevice = memory;
	}
	if (is(s->other, "array")) {
		*(s->back ? &p.srcMemoryType : &p.dstMemoryType) = CU_MEMORYTYPE_ARRAY;
		*(s->back ? &p.srcArray : &p.dstArray) = H(CUarray, s->other);
	} else if (is(s->other, "host") && s->value % 4 < 2) {
		*(s->back ? &p.srcMemoryType : &p.dstMemoryType) = CU_MEMORYTYPE_HOST;
		*(s->back ? (void **)&p.srcHost : &p.dstHost) =
			(char *)H(void *, s->other) + s->other_offset;
	} else {
		*(s->back ? &p.srcMemoryType : &p.dstMemoryType) =
			is(s->other, "host") ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
		*(s->back ? &p.srcDevice : &p.dstDevice) =
			H(uint64_t, s->other) + s->other_offset;
	}
	return p;
}

static CUDA_HOST_NODE_PARAMS host_of(const struct spec *s, int W)
{
	return (CUDA_HOST_NODE_PARAMS){s->value % 2 ? add_to_sum : add_more, &host_sums[W]};
}

/* Two values are written, the last of which is then there. */
static CUDA_BATCH_MEM_OP_NODE_PARAMS values_of(const struct spec *s, int W)
{
	static CUstreamBatchMemOpParams list[WORLDS][3];
	uint64_t at = H(uint64_t, s->memory) + s->offset;

	memset(list[W], 0, sizeof list[W]);
	list[W][0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	list[W][1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	list[W][2].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	list[W][0].writeValue.value64 = s->value << 32;
	list[W][1].writeValue.value = list[W][2].waitValue.value = (unsigned)s->value;
	for (int i = 0; i < 3; i++)
		list[W][i].writeValue.address = at;
	list[W][2].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	return (CUDA_BATCH_MEM_OP_NODE_PARAMS){H(CUcontext, s->context),
					       1 + (unsigned)(s->value % 3), list[W], 0};
}

static CUgraphNodeParams params_of(const struct spec *s, int W)
{
	CUgraphNodeParams p = {.type = s->type};
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS set;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_BATCH_MEM_OP_NODE_PARAMS values;

	switch (s->type) {
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		values = values_of(s, W);
		memcpy(&p.memOp, &values, sizeof p.memOp);
		break;
	case CU_GRAPH_NODE_TYPE_KERNEL:
		kernel = kernel_of(s, W);
		memcpy(&p.kernel, &kernel, sizeof p.kernel);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		set = memset_of(s, W);
		p.memset = (CUDA_MEMSET_NODE_PARAMS_v2){set.dst, set.pitch, set.value,
							set.elementSize, set.width, set.height,
							H(CUcontext, s->context)};
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		p.memcpy.copyParams = memcpy_of(s, W);
		p.memcpy.copyCtx = H(CUcontext, s->context);
		break;
	case CU_GRAPH_NODE_TYPE_HOST:
		host = host_of(s, W);
		memcpy(&p.host, &host, sizeof p.host);
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		p.graph.graph = H(CUgraph, s->child);
		break;
	default:
		if (s->event >= 0)
			p.eventWait.event = H(CUevent, s->event);
		break;
	}
	return p;
}

/* ---- graphs and nodes ------------------------------------------------------------------------ */

static void create_graph(void)
{
	uint64_t v[WORLDS] = {0};

	if (!BOTH(cuGraphCreate((CUgraph *)&v[W], 0)))
		add_object("graph", v, -1);
}

static void destroy_graph(void)
{
	int i = any("graph");

	if (i >= 0 && rand() % 3 == 0)
		clear_graph(i);
}

static CUgraphNode given[WORLDS][MOST_NODES];

/* Some of a graph's nodes, on which a new one is to depend. */
static size_t choose_nodes(int graph)
{
	size_t n = 0;

	for (int i = 0; i < n_objects && n < 3; i++) {
		if (!is(i, "node") || objects[i].of != graph || rand() % 3)
			continue;
		for (int W = 0; W < WORLDS; W++)
			given[W][n] = H(CUgraphNode, i);
		n++;
	}
	return n;
}

static CUresult add_by_type(const struct spec *s, int g, size_t n, uint64_t v[WORLDS])
{
#define TO (CUgraphNode *)&v[W], H(CUgraph, g), given[W], n
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS set;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_MEMCPY3D copy;
	CUDA_BATCH_MEM_OP_NODE_PARAMS values;

	switch (s->type) {
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return BOTH(cuGraphAddBatchMemOpNode(TO, (values = values_of(s, W), &values)));
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return BOTH(cuGraphAddKernelNode_v2(TO, (kernel = kernel_of(s, W), &kernel)));
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return BOTH(cuGraphAddMemsetNode(TO, (set = memset_of(s, W), &set),
						 H(CUcontext, s->context)));
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return BOTH(cuGraphAddMemcpyNode(TO, (copy = memcpy_of(s, W), &copy),
						 H(CUcontext, s->context)));
	case CU_GRAPH_NODE_TYPE_HOST:
		return BOTH(cuGraphAddHostNode(TO, (host = host_of(s, W), &host)));
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return BOTH(cuGraphAddChildGraphNode(TO, H(CUgraph, s->child)));
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return BOTH(cuGraphAddEventWaitNode(TO, H(CUevent, s->event)));
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return BOTH(cuGraphAddEventRecordNode(TO, H(CUevent, s->event)));
	default:
		return BOTH(cuGraphAddEmptyNode(TO));
	}
}

static CUgraphNodeType any_type(void)
{
	static const CUgraphNodeType types[] = {
		CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL,
		CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET,
		CU_GRAPH_NODE_TYPE_HOST, CU_GRAPH_NODE_TYPE_EMPTY, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_GRAPH,
		CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	};

	return types[(size_t)rand() % (sizeof types / sizeof *types)];
}

static int known_node(const struct spec *s, const uint64_t v[WORLDS], int graph)
{
	int i = object_of("node", v[PLAIN], PLAIN) < 0 ? add_object("node", v, graph)
						       : returned("node", v);

	if (i >= 0 && s)
		specs[i] = *s;
	return i;
}

/* Edges of which a kernel's may begin early. */
static CUgraphEdgeData edges[3];

static void add_node(void)
{
	int g = any_graph();
	uint64_t v[WORLDS] = {0};
	CUgraphNodeParams p;
	struct spec s;
	size_t n;

	if (g < 0 || nodes_of(g) >= MOST_NODES || !choose(&s, any_type()) || s.child == g)
		return;
	n = choose_nodes(g);
	for (size_t i = 0; i < n; i++)
		edges[i] = (CUgraphEdgeData){.from_port = rand() % 6 == 0, .type = 0};
	if (rand() % 3 ? add_by_type(&s, g, n, v)
		       : BOTH(cuGraphAddNode_v2((CUgraphNode *)&v[W], H(CUgraph, g), given[W],
						edges, n, (p = params_of(&s, W), &p))))
		return;
	known_node(&s, v, g);
}

static void destroy_node(void)
{
	int i = any_node();

	if (i >= 0 && rand() % 3 == 0 && !BOTH(cuGraphDestroyNode(H(CUgraphNode, i))))
		end(i);
}

static void change_edges(void)
{
	int g = any_graph(), a = g < 0 ? -1 : any_of("node", g), b = g < 0 ? -1 : any_of("node", g);
	CUgraphNode from, to;

	if (a < 0 || b < 0)
		return;
	if (rand() % 2)
		BOTH(cuGraphAddDependencies_v2(H(CUgraph, g), (from = H(CUgraphNode, a), &from),
					       (to = H(CUgraphNode, b), &to), NULL, 1));
	else
		BOTH(cuGraphRemoveDependencies_v2(H(CUgraph, g),
						  (from = H(CUgraphNode, a), &from),
						  (to = H(CUgraphNode, b), &to), NULL, 1));
}

static void change_node(void)
{
	int i = any_node();
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS set;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_MEMCPY3D copy;
	CUDA_BATCH_MEM_OP_NODE_PARAMS values;
	CUgraphNodeParams p;
	struct spec s;
	CUresult rc = CUDA_ERROR_UNKNOWN;

	if (i < 0 || specs[i].type == CU_GRAPH_NODE_TYPE_GRAPH || !choose(&s, specs[i].type))
		return;
	/* Copies and fills stay in their contexts. */
	if (s.type == CU_GRAPH_NODE_TYPE_MEMSET || s.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
		if (s.context != specs[i].context)
			return;
	}
	if (rand() % 3 == 0)
		rc = BOTH(cuGraphNodeSetParams(H(CUgraphNode, i), (p = params_of(&s, W), &p)));
	else if (s.type == CU_GRAPH_NODE_TYPE_KERNEL)
		rc = BOTH(cuGraphKernelNodeSetParams_v2(H(CUgraphNode, i),
							(kernel = kernel_of(&s, W), &kernel)));
	else if (s.type == CU_GRAPH_NODE_TYPE_MEMSET)
		rc = BOTH(cuGraphMemsetNodeSetParams(H(CUgraphNode, i),
						     (set = memset_of(&s, W), &set)));
	else if (s.type == CU_GRAPH_NODE_TYPE_MEMCPY)
		rc = BOTH(cuGraphMemcpyNodeSetParams(H(CUgraphNode, i),
						     (copy = memcpy_of(&s, W), &copy)));
	else if (s.type == CU_GRAPH_NODE_TYPE_HOST)
		rc = BOTH(cuGraphHostNodeSetParams(H(CUgraphNode, i),
						   (host = host_of(&s, W), &host)));
	else if (s.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
		rc = BOTH(cuGraphBatchMemOpNodeSetParams(H(CUgraphNode, i),
							 (values = values_of(&s, W), &values)));
	else if (s.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		rc = BOTH(cuGraphEventRecordNodeSetEvent(H(CUgraphNode, i), H(CUevent, s.event)));
	else if (s.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
		rc = BOTH(cuGraphEventWaitNodeSetEvent(H(CUgraphNode, i), H(CUevent, s.event)));
	if (!rc)
		specs[i] = s;
}

static void change_attributes(void)
{
	static const CUkernelNodeAttrID ids[] = {CU_LAUNCH_ATTRIBUTE_PRIORITY,
						 CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
						 CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
	CUkernelNodeAttrValue value = {{0}};
	int i = any_node(), from = any_node(), which = rand() % 3;

	if (i < 0 || specs[i].type != CU_GRAPH_NODE_TYPE_KERNEL)
		return;
	value.priority = rand() % 5;
	if (rand() % 4)
		BOTH(cuGraphKernelNodeSetAttribute(H(CUgraphNode, i), ids[which], &value));
	else if (from >= 0)
		BOTH(cuGraphKernelNodeCopyAttributes(H(CUgraphNode, i), H(CUgraphNode, from)));
}

/* ---- looking --------------------------------------------------------------------------------- */

static void same_object(const char *kind, const uint64_t v[WORLDS], int i)
{
	if (returned(kind, v) != i && i >= 0 && !wrong)
		wrong = "another object of a node";
}

static void look_at_kernel(int i)
{
	CUDA_KERNEL_NODE_PARAMS p[WORLDS];
	CUkernelNodeAttrValue a[WORLDS];
	uint64_t v[WORLDS], first[WORLDS], second[WORLDS];

	if (BOTH(cuGraphKernelNodeGetParams_v2(H(CUgraphNode, i), &p[W])))
		return;
	for (int W = 0; W < WORLDS; W++) {
		const uint64_t *buffer = p[W].extra ? p[W].extra[3] : NULL;

		v[W] = p[W].gridDimX;
		first[W] = buffer ? buffer[0] : *(uint64_t *)p[W].kernelParams[0];
		first[W] -= H(uint64_t, specs[i].memory);
		second[W] = buffer ? buffer[1] : *(uint64_t *)p[W].kernelParams[1];
	}
	same(v, "a kernel's extents");
	if (!p[PLAIN].extra != !p[ENGINE].extra)
		wrong = "how a kernel is given its arguments";
	if (specs[i].memory >= 0)
		same(first, "a kernel's first argument");
	same(second, "a kernel's second argument");
	for (int W = 0; W < WORLDS; W++)
		v[W] = (uintptr_t)p[W].func;
	if (specs[i].function >= 0 && is(specs[i].function, "function"))
		same_object("function", v, specs[i].function);
	for (int k = 0; k < 3; k++) {
		memset(a, 0, sizeof a);
		BOTH(cuGraphKernelNodeGetAttribute(
			H(CUgraphNode, i), k == 0 ? CU_LAUNCH_ATTRIBUTE_PRIORITY
			: k == 1 ? CU_LAUNCH_ATTRIBUTE_COOPERATIVE
				 : CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &a[W]));
		if (memcmp(&a[PLAIN], &a[ENGINE], sizeof *a))
			wrong = "a kernel's attributes";
	}
}

static void look_at_values(int i)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS p[WORLDS] = {{0}};
	uint64_t v[WORLDS] = {0}, count[WORLDS];

	if (BOTH(cuGraphBatchMemOpNodeGetParams(H(CUgraphNode, i), &p[W])))
		return;
	for (int W = 0; W < WORLDS; W++) {
		count[W] = p[W].count;
		v[W] = p[W].paramArray[0].writeValue.value64;
	}
	same(count, "how many values a node writes");
	same(v, "a value that a node writes");
	for (int W = 0; W < WORLDS; W++)
		v[W] = (uintptr_t)p[W].ctx;
	same_object("context", v, specs[i].context);
}

static void look_at_params(int i)
{
	CUDA_MEMSET_NODE_PARAMS set[WORLDS] = {{0}};
	CUDA_MEMCPY3D copy[WORLDS] = {{0}};
	CUDA_HOST_NODE_PARAMS host[WORLDS] = {{0}};
	uint64_t v[WORLDS] = {0};

	BOTH(cuGraphNodeGetType(H(CUgraphNode, i), (CUgraphNodeType *)&v[W]));
	same(v, "a node's type");
	if (specs[i].type == CU_GRAPH_NODE_TYPE_KERNEL) {
		look_at_kernel(i);
	} else if (specs[i].type == CU_GRAPH_NODE_TYPE_MEMSET) {
		BOTH(cuGraphMemsetNodeGetParams(H(CUgraphNode, i), &set[W]));
		for (int W = 0; W < WORLDS; W++)
			v[W] = set[W].dst - H(uint64_t, specs[i].memory) + set[W].value;
		if (specs[i].memory >= 0)
			same(v, "what a node sets");
	} else if (specs[i].type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
		look_at_values(i);
	} else if (specs[i].type == CU_GRAPH_NODE_TYPE_MEMCPY) {
		BOTH(cuGraphMemcpyNodeGetParams(H(CUgraphNode, i), &copy[W]));
		for (int W = 0; W < WORLDS; W++)
			v[W] = (uintptr_t)copy[W].srcArray + (uintptr_t)copy[W].dstArray;
		if (specs[i].other >= 0 && is(specs[i].other, "array"))
			same_object("array", v, specs[i].other);
	} else if (specs[i].type == CU_GRAPH_NODE_TYPE_HOST) {
		BOTH(cuGraphHostNodeGetParams(H(CUgraphNode, i), &host[W]));
		for (int W = 0; W < WORLDS; W++) {
			if (host[W].userData != &host_sums[W])
				wrong = "what a host function is given";
		}
	} else if (specs[i].type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
		BOTH(cuGraphEventWaitNodeGetEvent(H(CUgraphNode, i), (CUevent *)&v[W]));
		same_object("event", v, specs[i].event);
	} else if (specs[i].type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
		BOTH(cuGraphEventRecordNodeGetEvent(H(CUgraphNode, i), (CUevent *)&v[W]));
		same_object("event", v, specs[i].event);
	}
}

/* All nodes of a graph are known from now on, if they were not; of those this is what they do. */
static void know_nodes(int g, const struct spec *s)
{
	CUgraphNode v[WORLDS][4 * MOST_NODES];
	size_t n[WORLDS] = {4 * MOST_NODES, 4 * MOST_NODES};
	uint64_t one[WORLDS];

	if (BOTH(cuGraphGetNodes(H(CUgraph, g), v[W], &n[W])))
		return;
	if (n[PLAIN] != n[ENGINE])
		wrong = "how many nodes there are";
	for (size_t i = 0; i < n[PLAIN] && !wrong; i++) {
		bool is_new;
		int node;

		for (int W = 0; W < WORLDS; W++)
			one[W] = (uintptr_t)v[W][i];
		is_new = object_of("node", one[PLAIN], PLAIN) < 0;
		node = known_node(NULL, one, g);
		if (!is_new || node < 0)
			continue;
		specs[node] = *s;
		BOTH(cuGraphNodeGetType(H(CUgraphNode, node), &specs[node].type));
	}
}

static void same_lists(CUgraphNode v[WORLDS][MOST_NODES * 4], const size_t n[WORLDS])
{
	if (n[PLAIN] != n[ENGINE])
		wrong = "how many nodes or edges there are";
	for (size_t i = 0; i < n[PLAIN] && !wrong; i++)
		returned("node", (const uint64_t[]){(uintptr_t)v[PLAIN][i],
						    (uintptr_t)v[ENGINE][i]});
}

static void look_at_graph(void)
{
	CUgraphNode from[WORLDS][MOST_NODES * 4], to[WORLDS][MOST_NODES * 4];
	CUgraphEdgeData data[WORLDS][MOST_NODES * 4];
	size_t n[WORLDS] = {4 * MOST_NODES, 4 * MOST_NODES}, roots[WORLDS] = {4, 4};
	int g = any(rand() % 2 ? "graph" : "inner"), i = any("node");
	const struct spec unknown = {.function = -1, .memory = -1, .other = -1, .event = -1,
				     .refs.n = MOST_REFS};

	if (g < 0)
		return;
	know_nodes(g, &unknown);
	if (!BOTH(cuGraphGetEdges_v2(H(CUgraph, g), from[W], to[W], data[W], &n[W]))) {
		same_lists(from, n);
		same_lists(to, n);
		if (memcmp(data[PLAIN], data[ENGINE], n[PLAIN] * sizeof **data))
			wrong = "an edge's data";
	}
	if (!BOTH(cuGraphGetRootNodes(H(CUgraph, g), from[W], &roots[W])))
		same_lists(from, roots);
	n[PLAIN] = n[ENGINE] = 4;
	if (i >= 0 && !BOTH(cuGraphNodeGetDependencies_v2(H(CUgraphNode, i), from[W], data[W],
							  &n[W])))
		same_lists(from, n);
	n[PLAIN] = n[ENGINE] = 4;
	if (i >= 0 && !BOTH(cuGraphNodeGetDependentNodes_v2(H(CUgraphNode, i), from[W], data[W],
							    &n[W])))
		same_lists(from, n);
	if (i >= 0 && is_node_sound(i))
		look_at_params(i);
}

/* The graph in a node, and its nodes, are known from now on. */
static void look_inside(void)
{
	uint64_t v[WORLDS] = {0};
	int i = any("node"), inner;
	struct spec s;

	if (i < 0 || BOTH(cuGraphChildGraphNodeGetGraph(H(CUgraphNode, i), (CUgraph *)&v[W])))
		return;
	inner = note("inner", v, i);
	if (inner < 0)
		return;
	s = specs[i];
	s.function = s.memory = s.other = s.event = -1;
	know_nodes(inner, &s);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static int copies[MOST]; /* of graphs that are copies: the original */

static void find_copies(int original, int copy, bool is_new)
{
	for (int i = 0; i < n_objects; i++) {
		uint64_t v[WORLDS] = {0};
		int node;

		if (!is(i, "node") || objects[i].of != original ||
		    BOTH(cuGraphNodeFindInClone((CUgraphNode *)&v[W], H(CUgraphNode, i),
						H(CUgraph, copy))))
			continue;
		node = known_node(is_new ? &specs[i] : NULL, v, copy);
		if (node >= 0 && is_new && inner_of(i) >= 0)
			add_refs_of_graph(&specs[node].refs, inner_of(i));
	}
}

static void clone_graph(void)
{
	uint64_t v[WORLDS] = {0};
	int g = any("graph"), copy;

	if (g < 0 || !is_graph_sound(g) || BOTH(cuGraphClone((CUgraph *)&v[W], H(CUgraph, g))))
		return;
	copy = add_object("graph", v, -1);
	if (copy < 0)
		return;
	copies[copy] = g + 1;
	find_copies(g, copy, true);
}

static void look_at_copy(void)
{
	int i = any("graph");

	if (i >= 0 && copies[i] && objects[copies[i] - 1].alive)
		find_copies(copies[i] - 1, i, false);
}

/* ---- executable graphs ----------------------------------------------------------------------- */

static void instantiate(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS p;
	uint64_t v[WORLDS] = {0};
	int g = any_graph(), i, s = any_of("stream", current());
	unsigned flags = rand() % 3 ? 0 : CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

	if (g < 0 || (rand() % 2
		      ? BOTH(cuGraphInstantiateWithFlags((CUgraphExec *)&v[W], H(CUgraph, g),
							 flags))
		      : BOTH(cuGraphInstantiateWithParams(
				(CUgraphExec *)&v[W], H(CUgraph, g),
				(p = (CUDA_GRAPH_INSTANTIATE_PARAMS){
					 .flags = s < 0 ? flags : flags |
						CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
					 .hUploadStream = s < 0 ? NULL : H(CUstream, s)}, &p)))))
		return;
	i = add_object("executable", v, -1);
	if (i < 0)
		return;
	executables[i] = (struct executable){.source = g};
	for (int k = 0; k < n_objects && executables[i].n < 2 * MOST_NODES; k++) {
		struct part *part = &executables[i].parts[executables[i].n];

		if (!is(k, "node") || objects[k].of != g)
			continue;
		*part = (struct part){k, specs[k].refs};
		if (inner_of(k) >= 0)
			add_refs_of_graph(&part->refs, inner_of(k));
		executables[i].n++;
	}
}

static void destroy_executable(void)
{
	int i = any("executable");

	if (i >= 0 && rand() % 4 == 0)
		clear_graph(i);
}

static void run_executable(void)
{
	int i = any("executable"), s = any_of("stream", current());
	uint64_t flags[WORLDS] = {0};

	if (i < 0 || current() < 0 || !is_executable_sound(i))
		return;
	BOTH(cuGraphExecGetFlags(H(CUgraphExec, i), (cuuint64_t *)&flags[W]));
	if (rand() % 4 == 0)
		BOTH(cuGraphUpload(H(CUgraphExec, i), H(CUstream, s)));
	BOTH(cuGraphLaunch(H(CUgraphExec, i), H(CUstream, s)));
	BOTH(cuStreamSynchronize(H(CUstream, s)));
	same(host_sums, "what host functions have done");
}

/* A part whose node has been there since, and is the program's to name; NULL: none. */
static struct part *any_part(int i)
{
	struct part *p = NULL;

	if (i >= 0 && executables[i].n && is_executable_sound(i))
		p = &executables[i].parts[rand() % executables[i].n];
	return p && objects[p->node].alive ? p : NULL;
}

static CUresult set_by_type(const struct spec *s, int e, int i)
{
#define WHERE H(CUgraphExec, e), H(CUgraphNode, i)
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS set;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_MEMCPY3D copy;
	CUDA_BATCH_MEM_OP_NODE_PARAMS values;

	switch (s->type) {
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return BOTH(cuGraphExecBatchMemOpNodeSetParams(WHERE, (values = values_of(s, W),
								       &values)));
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return BOTH(cuGraphExecKernelNodeSetParams_v2(WHERE,
							      (kernel = kernel_of(s, W), &kernel)));
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return BOTH(cuGraphExecMemsetNodeSetParams(WHERE, (set = memset_of(s, W), &set),
							   H(CUcontext, s->context)));
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return BOTH(cuGraphExecMemcpyNodeSetParams(WHERE, (copy = memcpy_of(s, W), &copy),
							   H(CUcontext, s->context)));
	case CU_GRAPH_NODE_TYPE_HOST:
		return BOTH(cuGraphExecHostNodeSetParams(WHERE, (host = host_of(s, W), &host)));
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return BOTH(cuGraphExecEventWaitNodeSetEvent(WHERE, H(CUevent, s->event)));
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return BOTH(cuGraphExecEventRecordNodeSetEvent(WHERE, H(CUevent, s->event)));
	default:
		return CUDA_ERROR_UNKNOWN;
	}
}

static void change_executable(void)
{
	int e = any("executable");
	struct part *part = any_part(e);
	CUgraphNodeParams p;
	struct spec s;
	CUresult rc;

	if (!part || !choose(&s, specs[part->node].type) || s.type == CU_GRAPH_NODE_TYPE_GRAPH)
		return;
	/* Copies and fills stay in their contexts. */
	if ((s.type == CU_GRAPH_NODE_TYPE_MEMSET || s.type == CU_GRAPH_NODE_TYPE_MEMCPY) &&
	    s.context != specs[part->node].context)
		return;
	rc = rand() % 3 || s.type == CU_GRAPH_NODE_TYPE_EMPTY
		     ? set_by_type(&s, e, part->node)
		     : BOTH(cuGraphExecNodeSetParams(H(CUgraphExec, e), H(CUgraphNode, part->node),
						     (p = params_of(&s, W), &p)));
	if (!rc)
		part->refs = s.refs;
}

/* Of a node in a node only the value changes. */
static void change_inside(void)
{
	int e = any("executable"), i = any("node");
	const struct part *part = any_part(e);
	CUDA_HOST_NODE_PARAMS host;
	int inner = part ? inner_of(part->node) : -1;

	i = inner < 0 ? i : any_of("node", inner);
	if (e < 0 || i < 0 || !is_executable_sound(e) ||
	    specs[i].type != CU_GRAPH_NODE_TYPE_HOST)
		return;
	BOTH(cuGraphExecHostNodeSetParams(
		H(CUgraphExec, e), H(CUgraphNode, i),
		(host = (CUDA_HOST_NODE_PARAMS){add_more, &host_sums[W]}, &host)));
}

static void enable(void)
{
	int e = any("executable");
	const struct part *part = any_part(e);
	uint64_t v[WORLDS] = {0};
	unsigned enabled = rand() % 2;

	if (!part)
		return;
	if (rand() % 2)
		BOTH(cuGraphNodeSetEnabled(H(CUgraphExec, e), H(CUgraphNode, part->node),
					   enabled));
	BOTH(cuGraphNodeGetEnabled(H(CUgraphExec, e), H(CUgraphNode, part->node),
				   (unsigned *)&v[W]));
	same(v, "whether a node is enabled");
}

/* By the graph that it was made of, or a copy, or another. */
static void update(void)
{
	int e = any("executable"), g = e < 0 ? -1 : executables[e].source, n = 0;
	CUgraphExecUpdateResultInfo info[WORLDS];
	CUresult rc;

	if (g < 0 || rand() % 2)
		g = any("graph");
	for (int i = 0; i < n_objects && e >= 0 && rand() % 2; i++) {
		if (is(i, "graph") && copies[i] == executables[e].source + 1)
			g = i;
	}
	if (e < 0 || g < 0 || !objects[g].alive || !is_graph_sound(g) || !is_executable_sound(e))
		return;
	rc = BOTH(cuGraphExecUpdate_v2(H(CUgraphExec, e), H(CUgraph, g), &info[W]));
	if (info[PLAIN].result != info[ENGINE].result)
		wrong = "the result of an update";
	if (info[PLAIN].errorNode)
		returned("node", (const uint64_t[]){(uintptr_t)info[PLAIN].errorNode,
						    (uintptr_t)info[ENGINE].errorNode});
	for (int k = 0; k < n_objects && !rc && n < executables[e].n; k++) {
		struct refs *refs = &executables[e].parts[n].refs;

		if (!is(k, "node") || objects[k].of != g)
			continue;
		*refs = specs[k].refs;
		if (inner_of(k) >= 0)
			add_refs_of_graph(refs, inner_of(k));
		n++;
	}
}

static void change_child(void)
{
	int e = any("executable"), g = any("graph");
	struct part *part = any_part(e);

	CUgraphNodeParams p;

	if (!part || g < 0 || !is_graph_sound(g))
		return;
	if (rand() % 2
		    ? BOTH(cuGraphExecChildGraphNodeSetParams(
			      H(CUgraphExec, e), H(CUgraphNode, part->node), H(CUgraph, g)))
		    : BOTH(cuGraphExecNodeSetParams(
			      H(CUgraphExec, e), H(CUgraphNode, part->node),
			      (p = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_GRAPH,
						       .graph.graph = H(CUgraph, g)}, &p))))
		return;
	part->refs.n = 0;
	add_refs_of_graph(&part->refs, g);
}

/* ---- capture --------------------------------------------------------------------------------- */

static struct spec captured; /* what the nodes of a capture need, together */

static void capture_one(int stream)
{
	int e = any("executable");
	struct spec s;

	if (!choose(&s, any_type()) || captured.refs.n + s.refs.n >= MOST_REFS)
		return;
	if (s.type == CU_GRAPH_NODE_TYPE_KERNEL) {
		for (int W = 0; W < WORLDS; W++)
			kernel_of(&s, W);
		BOTH(cuLaunchKernel(H(CUfunction, s.function), 2, 1, 1, 1, 1, 1, 0,
				    H(CUstream, stream), arguments[W].pointers, NULL));
	} else if (s.type == CU_GRAPH_NODE_TYPE_MEMSET && is(s.memory, "mapping")) {
		BOTH(cuMemsetD32Async(H(CUdeviceptr, s.memory) + s.offset, (unsigned)s.value, 2,
				      H(CUstream, stream)));
	} else if (s.type == CU_GRAPH_NODE_TYPE_MEMCPY && is(s.other, "mapping") &&
		   is(s.memory, "mapping")) {
		BOTH(cuMemcpyDtoDAsync_v2(H(CUdeviceptr, s.memory) + s.offset,
					  H(CUdeviceptr, s.other) + s.other_offset, 8,
					  H(CUstream, stream)));
	} else if (s.type == CU_GRAPH_NODE_TYPE_HOST) {
		BOTH(cuLaunchHostFunc(H(CUstream, stream), add_to_sum, &host_sums[W]));
	} else if (s.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
		BOTH(cuEventRecordWithFlags(H(CUevent, s.event), H(CUstream, stream),
					    CU_EVENT_RECORD_EXTERNAL));
	} else if (s.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
		BOTH(cuStreamWaitEvent(H(CUstream, stream), H(CUevent, s.event),
				       CU_EVENT_WAIT_EXTERNAL));
	} else if (s.type == CU_GRAPH_NODE_TYPE_GRAPH && e >= 0 && is_executable_sound(e)) {
		s.refs.n = 0;
		for (int k = 0; k < executables[e].n; k++) {
			for (int j = 0; j < executables[e].parts[k].refs.n; j++)
				add_ref(&s.refs, executables[e].parts[k].refs.v[j]);
		}
		if (captured.refs.n + s.refs.n < MOST_REFS)
			BOTH(cuGraphLaunch(H(CUgraphExec, e), H(CUstream, stream)));
	} else {
		return;
	}
	for (int k = 0; k < s.refs.n; k++)
		add_ref(&captured.refs, s.refs.v[k]);
}

static void look_at_capture(int stream)
{
	CUstreamCaptureStatus status[WORLDS];
	const CUgraphNode *nodes[WORLDS];
	uint64_t graph[WORLDS], n[WORLDS];

	if (BOTH(cuStreamGetCaptureInfo_v2(H(CUstream, stream), &status[W], NULL,
					   (CUgraph *)&graph[W], &nodes[W], (size_t *)&n[W])) ||
	    status[PLAIN] != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return;
	same(n, "how many nodes a stream comes after");
	for (size_t i = 0; i < n[PLAIN] && !wrong; i++) {
		const uint64_t v[] = {(uintptr_t)nodes[PLAIN][i], (uintptr_t)nodes[ENGINE][i]};

		if (object_of("node", v[PLAIN], PLAIN) >= 0)
			returned("node", v);
	}
}

/* Another stream of the context takes part; both events and streams are of the context. */
static void capture_apart(int stream)
{
	int other = any_of("stream", current()), a = any_of("event", current()),
	    b = any_of("event", current());

	if (other == stream || a < 0 || a == b)
		return;
	objects[a].open = true;
	BOTH(cuEventRecord(H(CUevent, a), H(CUstream, stream)));
	BOTH(cuStreamWaitEvent(H(CUstream, other), H(CUevent, a), 0));
	capture_one(other);
	capture_one(stream);
	if (rand() % 8) {
		objects[b].open = true;
		BOTH(cuEventRecord(H(CUevent, b), H(CUstream, other)));
		BOTH(cuStreamWaitEvent(H(CUstream, stream), H(CUevent, b), 0));
	}
}

static void capture(void)
{
	int stream = any_of("stream", current()), g = rand() % 3 ? -1 : any("graph");
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
						    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
						    CU_STREAM_CAPTURE_MODE_RELAXED};
	CUstreamCaptureMode mode = modes[rand() % 3];
	uint64_t v[WORLDS] = {0};
	size_t n;

	if (current() < 0 || stream < 0 ||
	    (g >= 0 && (!is_graph_sound(g) || nodes_of(g) > MOST_NODES / 2)))
		return;
	n = g >= 0 ? choose_nodes(g) : 0;
	captured = (struct spec){.function = -1, .memory = -1, .other = -1, .event = -1,
				 .context = current()};
	if (g >= 0 ? BOTH(cuStreamBeginCaptureToGraph(H(CUstream, stream), H(CUgraph, g),
						      given[W], NULL, n, mode))
		   : BOTH(cuStreamBeginCapture_v2(H(CUstream, stream), mode)))
		return;
	look_at_capture(stream);
	for (int i = rand() % 4; i >= 0; i--)
		capture_one(stream);
	if (rand() % 3 == 0)
		capture_apart(stream);
	look_at_capture(stream);
	if (!BOTH(cuStreamEndCapture(H(CUstream, stream), (CUgraph *)&v[W]))) {
		g = note("graph", v, -1);
		if (g >= 0)
			know_nodes(g, &captured);
	} else if (g >= 0) {
		captured.refs.n = MOST_REFS; /* its kernels' functions may not be known */
		know_nodes(g, &captured);
	}
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* ---- objects that graphs hold ---------------------------------------------------------------- */

#define HOLDS 64

static unsigned ends_of[WORLDS][MOST]; /* how often destructors were called, by object */
static struct {
	int graph, user;
	unsigned n;
} holds[HOLDS];                        /* references that the program has given */

static void count_end(void *n)
{
	++*(unsigned *)n;
}

static void look_at_users(void)
{
	for (int i = 0; i < n_objects; i++) {
		if (strcmp(objects[i].kind, "user"))
			continue;
		if (ends_of[PLAIN][i] != ends_of[ENGINE][i] || ends_of[PLAIN][i] > 1)
			wrong = "how often a destructor was called";
		if (ends_of[PLAIN][i])
			end(i);
	}
}

static void create_user(void)
{
	uint64_t v[WORLDS] = {0};
	int i = n_objects;
	unsigned n = 1 + (unsigned)rand() % 2;

	if (i == MOST)
		return;
	ends_of[PLAIN][i] = ends_of[ENGINE][i] = 0;
	if (!BOTH(cuUserObjectCreate((CUuserObject *)&v[W], &ends_of[W][i], count_end, n,
				     CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)) &&
	    add_object("user", v, -1) == i)
		objects[i].uses = (int)n;
}

static void use_user(void)
{
	int i = any("user"), n = 1 + rand() % 2;

	if (i < 0 || objects[i].uses < n)
		return;
	if (rand() % 3 == 0 && !BOTH(cuUserObjectRetain(H(CUuserObject, i), (unsigned)n)))
		objects[i].uses += n;
	else if (rand() % 2 && !BOTH(cuUserObjectRelease(H(CUuserObject, i), (unsigned)n)))
		objects[i].uses -= n;
	look_at_users();
}

static void hold_user(void)
{
	int g = any_graph(), i = any("user"), k = rand() % HOLDS, n = 1 + rand() % 2;
	bool moves = rand() % 2;

	if (g < 0 || i < 0 || objects[i].uses < n ||
	    BOTH(cuGraphRetainUserObject(H(CUgraph, g), H(CUuserObject, i), (unsigned)n,
					 moves ? CU_GRAPH_USER_OBJECT_MOVE : 0)))
		return;
	objects[i].uses -= moves ? n : 0;
	holds[k].graph = g;
	holds[k].user = i;
	holds[k].n = (unsigned)n;
}

static void let_user(void)
{
	int k = rand() % HOLDS;

	if (!holds[k].n || !(is(holds[k].graph, "graph") || is(holds[k].graph, "inner")) ||
	    !is(holds[k].user, "user"))
		return;
	BOTH(cuGraphReleaseUserObject(H(CUgraph, holds[k].graph),
				      H(CUuserObject, holds[k].user), holds[k].n));
	holds[k].n = 0;
	look_at_users();
}

void end_users(void)
{
	memset(holds, 0, sizeof holds);
	look_at_users();
	for (int i = 0; i < n_objects; i++) {
		if (is(i, "user") && objects[i].uses)
			BOTH(cuUserObjectRelease(H(CUuserObject, i), (unsigned)objects[i].uses));
	}
	look_at_users();
	for (int i = 0; i < n_objects; i++) {
		if (is(i, "user"))
			wrong = "an object that has not ended";
	}
}

static void (*const graph_steps[])(void) = {
	create_graph, destroy_graph, add_node, add_node, add_node, add_node, add_node, add_node,
	add_node, destroy_node, change_edges, change_edges, change_node, change_node,
	change_attributes, look_at_graph, look_at_graph, look_at_graph, look_inside, look_inside,
	clone_graph, look_at_copy, instantiate, instantiate, instantiate, destroy_executable,
	run_executable, run_executable, run_executable, run_executable, change_executable,
	change_executable, change_executable, change_inside, enable, enable, update, update,
	change_child, capture, capture, create_user, use_user, hold_user, hold_user, hold_user,
	let_user, look_at_users,
};

void graph_step(void)
{
	graph_steps[(size_t)rand() % (sizeof graph_steps / sizeof *graph_steps)]();
}

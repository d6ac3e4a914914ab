/* SPDX-License-Identifier: Apache-2.0
 * Graphs: by nodes and by capture, copied, instantiated, changed, updated, run. The nodes of a
 * graph come one after the other, as they may use the same memory; further edges change nothing in
 * that. */
#include <string.h>

#include "test/gpu/random/random.h"

#define MOST_NODES 8
#define MOST_REFS 40

/* What a node does, and of what. */
struct spec {
	CUgraphNodeType type;
	struct launch launch;
	int memory, other, event, child, context;
	unsigned value;
};

static struct spec specs[MOST]; /* of nodes, by object */

/* The objects that graphs and what is instantiated of them need, by object. `full`: not all. */
static struct refs {
	int v[MOST_REFS], n;
	bool full;
} refs[MOST];
static int sources[MOST];       /* the graph of which it was instantiated, or copied */

/* ---- what graphs need ------------------------------------------------------------------------ */

static void need(int i, int what)
{
	struct refs *r = &refs[i];

	for (int k = 0; k < r->n; k++) {
		if (r->v[k] == what)
			return;
	}
	if (what < 0)
		return;
	if (r->n == MOST_REFS)
		r->full = true;
	else
		r->v[r->n++] = what;
}

static void need_all_of(int i, int other)
{
	for (int k = 0; k < refs[other].n; k++)
		need(i, refs[other].v[k]);
	refs[i].full |= refs[other].full;
}

static void need_spec(int i, const struct spec *s)
{
	need(i, s->context);
	need(i, s->memory);
	need(i, s->other);
	need(i, s->event);
	if (s->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		need(i, s->launch.function);
		need(i, s->launch.memory);
		need(i, s->launch.other);
	}
	if (s->child >= 0)
		need_all_of(i, s->child);
}

static bool is_sound(int i)
{
	for (int k = 0; k < refs[i].n; k++) {
		if (!objects[refs[i].v[k]].alive)
			return false;
	}
	return !refs[i].full;
}

int any_sound(enum kind kind)
{
	int i = any(kind);

	return i >= 0 && is_sound(i) ? i : -1;
}

static int add_graph(enum kind kind, const void *handle)
{
	int i = hold(kind, handle, -1);

	if (i >= 0) {
		refs[i].n = 0;
		refs[i].full = false;
		sources[i] = -1;
	}
	return i;
}

static void end_one(int i)
{
	if (is(i, GRAPH) ? DO(cuGraphDestroy, H(CUgraph, i))
			 : DO(cuGraphExecDestroy, H(CUgraphExec, i)))
		return;
	end(i);
}

void tidy_graphs(void)
{
	for (int i = 0; i < n_objects; i++) {
		if ((is(i, GRAPH) || is(i, EXECUTABLE)) && !is_sound(i))
			end_one(i);
	}
}

/* ---- what nodes do --------------------------------------------------------------------------- */

/* False: there is nothing of which it could be. */
static bool choose(struct spec *s, CUgraphNodeType type)
{
	*s = (struct spec){.type = type, .memory = -1, .other = -1, .event = -1, .child = -1,
			   .context = current(), .value = draw(1000)};
	if (current() < 0)
		return false;
	switch (type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return choose_launch(&s->launch, ANYWHERE);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		s->memory = any_memory();
		s->other = any_other_memory(s->memory, -1);
		return s->other >= 0;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		s->memory = any_memory();
		return s->memory >= 0;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		s->memory = any_here(MEMORY);
		return s->memory >= 0;
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		s->event = any_here(EVENT);
		if (s->event >= 0)
			objects[s->event].flag = true;
		return s->event >= 0;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		s->child = any_sound(GRAPH);
		return s->child >= 0 && refs[s->child].n < MOST_REFS / 4;
	default:
		return true;
	}
}

static CUDA_KERNEL_NODE_PARAMS kernel_of(struct spec *s)
{
	struct launch *l = &s->launch;
	CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = l->blocks, .gridDimY = 1, .gridDimZ = 1,
				     .blockDimX = l->threads, .blockDimY = 1, .blockDimZ = 1};

	for (int i = 0; i < MOST_ARGUMENTS; i++) /* it may be a copy */
		l->pointers[i] = &l->arguments[i];
	l->extra[1] = l->arguments;
	l->extra[3] = &l->size;
	if (s->value % 4)
		p.kernelParams = l->pointers;
	else
		p.extra = l->extra;
	if (objects[l->function].kind == KERNEL) {
		p.kern = H(CUkernel, l->function);
		p.ctx = H(CUcontext, s->context);
	} else {
		p.func = H(CUfunction, l->function);
	}
	return p;
}

static CUDA_MEMSET_NODE_PARAMS fill_of(const struct spec *s)
{
	return (CUDA_MEMSET_NODE_PARAMS){H(CUdeviceptr, s->memory) + 8 * (s->value % 8), 64,
					 s->value, 4, 1 + s->value % 12, 1};
}

static CUDA_MEMCPY3D copy_of(const struct spec *s)
{
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .Height = 1, .Depth = 1,
			   .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
			   .srcDevice = H(CUdeviceptr, s->other) + 8 * (s->value % 16),
			   .dstDevice = H(CUdeviceptr, s->memory) + 8 * (s->value % 16),
			   .WidthInBytes = 8 * (1 + s->value % 40), .srcPitch = LEAST,
			   .dstPitch = LEAST, .srcHeight = 1, .dstHeight = 1};

	return c;
}

static CUDA_BATCH_MEM_OP_NODE_PARAMS values_of(const struct spec *s)
{
	static CUstreamBatchMemOpParams list[2];

	memset(list, 0, sizeof list);
	list[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	list[0].writeValue.value64 = (cuuint64_t)s->value << 32;
	list[0].writeValue.address = H(CUdeviceptr, s->memory);
	list[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	list[1].writeValue.value = s->value;
	list[1].writeValue.address = H(CUdeviceptr, s->memory) + 8;
	return (CUDA_BATCH_MEM_OP_NODE_PARAMS){H(CUcontext, s->context), 2, list, 0};
}

static CUgraphNodeType any_type(void)
{
	static const CUgraphNodeType types[] = {
		CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL,
		CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET,
		CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_HOST, CU_GRAPH_NODE_TYPE_HOST,
		CU_GRAPH_NODE_TYPE_EMPTY,
		CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		CU_GRAPH_NODE_TYPE_GRAPH, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};

	return types[draw(sizeof types / sizeof *types)];
}

/* ---- graphs by nodes ------------------------------------------------------------------------- */

static int nodes_of(int g, int *last)
{
	int n = 0;

	for (int i = 0; i < n_objects; i++) {
		if (is(i, NODE) && objects[i].of == g) {
			*last = i;
			n++;
		}
	}
	return n;
}

static void destroy_graph(void)
{
	int i = any(draw(2) ? GRAPH : EXECUTABLE);

	if (i >= 0 && draw(3) == 0)
		end_one(i);
}

static CUresult add_by_type(struct spec *s, CUgraph g, const CUgraphNode *after, size_t n,
			    CUgraphNode *node)
{
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS set;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_MEMCPY3D copy;
	CUDA_BATCH_MEM_OP_NODE_PARAMS values;

	switch (s->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		kernel = kernel_of(s);
		return DO(cuGraphAddKernelNode, node, g, after, n, &kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		copy = copy_of(s);
		return DO(cuGraphAddMemcpyNode, node, g, after, n, &copy,
			  H(CUcontext, s->context));
	case CU_GRAPH_NODE_TYPE_MEMSET:
		set = fill_of(s);
		return DO(cuGraphAddMemsetNode, node, g, after, n, &set, H(CUcontext, s->context));
	case CU_GRAPH_NODE_TYPE_HOST:
		host = host_node(s->value);
		return DO(cuGraphAddHostNode, node, g, after, n, &host);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return DO(cuGraphAddEventRecordNode, node, g, after, n, H(CUevent, s->event));
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return DO(cuGraphAddEventWaitNode, node, g, after, n, H(CUevent, s->event));
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return DO(cuGraphAddChildGraphNode, node, g, after, n, H(CUgraph, s->child));
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		values = values_of(s);
		return DO(cuGraphAddBatchMemOpNode, node, g, after, n, &values);
	default:
		return DO(cuGraphAddEmptyNode, node, g, after, n);
	}
}

/* `flag` of a graph: its nodes are not all known. None is added to it. */
static void add_node_to(int g)
{
	int last = -1, n = nodes_of(g, &last), other, i;
	CUgraphNode after[2], node = NULL;
	struct spec s;

	if (objects[g].flag || n >= MOST_NODES || !choose(&s, any_type()) || s.child == g)
		return;
	other = any_of(NODE, g);
	after[0] = H(CUgraphNode, last);
	after[1] = H(CUgraphNode, other);
	if (add_by_type(&s, H(CUgraph, g), after, last < 0 ? 0 : other != last && draw(2) ? 2 : 1,
			&node))
		return;
	i = hold(NODE, node, g);
	if (i < 0)
		return;
	specs[i] = s;
	need_spec(g, &s);
}

static void add_node(void)
{
	int g = any_sound(GRAPH);

	if (g >= 0)
		add_node_to(g);
}

static void create_graph(void)
{
	CUgraph g = NULL;
	int i;

	if (DO(cuGraphCreate, &g, 0))
		return;
	i = add_graph(GRAPH, g);
	for (unsigned k = draw(5); k > 0 && i >= 0; k--)
		add_node_to(i);
}

/* The last one. */
static void destroy_node(void)
{
	int g = any_sound(GRAPH), last = -1;

	if (g >= 0 && !objects[g].flag && nodes_of(g, &last) && draw(3) == 0 &&
	    !DO(cuGraphDestroyNode, H(CUgraphNode, last)))
		end(last);
}

static void change_node_of(int i)
{
	CUgraphNode node = H(CUgraphNode, i);
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS set;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_MEMCPY3D copy;
	struct spec s;
	CUresult rc = CUDA_ERROR_UNKNOWN;

	if (!choose(&s, specs[i].type))
		return;
	if (s.type == CU_GRAPH_NODE_TYPE_KERNEL)
		rc = DO(cuGraphKernelNodeSetParams, node, (kernel = kernel_of(&s), &kernel));
	else if (s.type == CU_GRAPH_NODE_TYPE_MEMSET)
		rc = DO(cuGraphMemsetNodeSetParams, node, (set = fill_of(&s), &set));
	else if (s.type == CU_GRAPH_NODE_TYPE_MEMCPY)
		rc = DO(cuGraphMemcpyNodeSetParams, node, (copy = copy_of(&s), &copy));
	else if (s.type == CU_GRAPH_NODE_TYPE_HOST)
		rc = DO(cuGraphHostNodeSetParams, node, (host = host_node(s.value), &host));
	else if (s.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		rc = DO(cuGraphEventRecordNodeSetEvent, node, H(CUevent, s.event));
	else if (s.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
		rc = DO(cuGraphEventWaitNodeSetEvent, node, H(CUevent, s.event));
	if (rc)
		return;
	specs[i] = s;
	need_spec(objects[i].of, &s);
}

/* It stays in its context. */
static void change_node(void)
{
	int i = any(NODE);

	if (i < 0 || !is_sound(objects[i].of) || !be_in(specs[i].context))
		return;
	change_node_of(i);
	be_back();
}

static void look_at_node(void)
{
	int i = any(NODE);
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS set;
	CUevent event = NULL;
	size_t n = 0;

	if (i < 0 || !is_sound(objects[i].of))
		return;
	if (!DO(cuGraphNodeGetDependencies, H(CUgraphNode, i), NULL, NULL, &n))
		say("%zu before", n);
	if (specs[i].type == CU_GRAPH_NODE_TYPE_KERNEL &&
	    !DO(cuGraphKernelNodeGetParams, H(CUgraphNode, i), &kernel))
		say("%u blocks of %u, %u bytes", kernel.gridDimX, kernel.blockDimX,
		    kernel.sharedMemBytes);
	if (specs[i].type == CU_GRAPH_NODE_TYPE_MEMSET &&
	    !DO(cuGraphMemsetNodeGetParams, H(CUgraphNode, i), &set))
		say("its memory %d, value %u", set.dst == fill_of(&specs[i]).dst, set.value);
	if (specs[i].type == CU_GRAPH_NODE_TYPE_EVENT_RECORD &&
	    !DO(cuGraphEventRecordNodeGetEvent, H(CUgraphNode, i), &event))
		say("its event %d", find(EVENT, event) == specs[i].event);
}

/* The copy's nodes are found by those of which they are copies. */
static void clone_graph(void)
{
	int g = any_sound(GRAPH), copy, most = n_objects;
	CUgraph made = NULL;
	CUgraphNode node;

	if (g < 0 || DO(cuGraphClone, &made, H(CUgraph, g)))
		return;
	copy = add_graph(GRAPH, made);
	if (copy < 0)
		return;
	need_all_of(copy, g);
	objects[copy].flag = objects[g].flag;
	for (int i = 0; i < most; i++) {
		int k = -1;

		if (is(i, NODE) && objects[i].of == g &&
		    !DO(cuGraphNodeFindInClone, &node, H(CUgraphNode, i), made))
			k = hold(NODE, node, copy);
		if (k >= 0)
			specs[k] = specs[i];
	}
	sources[copy] = g;
}

/* ---- capture --------------------------------------------------------------------------------- */

static bool uses(const struct spec *s, int memory)
{
	return memory >= 0 &&
	       (are_alike(s->memory, memory) || are_alike(s->other, memory) ||
		(s->type == CU_GRAPH_NODE_TYPE_KERNEL && (are_alike(s->launch.memory, memory) ||
							  are_alike(s->launch.other, memory))));
}

/* One operation, which does not use that memory; what it needs. */
static void capture_one(CUstream stream, int but, struct spec *of)
{
	struct spec s;
	bool chosen = choose(&s, any_type());
	int e;

	*of = s;
	of->type = CU_GRAPH_NODE_TYPE_EMPTY;
	if (!chosen || uses(&s, but))
		return;
	switch (s.type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		for (int i = 0; i < MOST_ARGUMENTS; i++)
			s.launch.pointers[i] = &s.launch.arguments[i];
		*of = s;
		DO(cuLaunchKernel, H(CUfunction, s.launch.function), s.launch.blocks, 1, 1,
		   s.launch.threads, 1, 1, 0, stream, s.launch.pointers, NULL);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		DO(cuMemsetD32Async, H(CUdeviceptr, s.memory), s.value, 1 + s.value % 40, stream);
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		DO(cuMemcpyAsync, H(CUdeviceptr, s.memory), H(CUdeviceptr, s.other),
		   8 * (1 + s.value % 60), stream);
		break;
	case CU_GRAPH_NODE_TYPE_HOST:
		if (but < 0)
			call_host(stream);
		break;
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		DO(cuEventRecordWithFlags, H(CUevent, s.event), stream, CU_EVENT_RECORD_EXTERNAL);
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		e = any_sound(EXECUTABLE);
		if (but < 0 && e >= 0 && refs[e].n < MOST_REFS / 4) {
			of->child = e;
			DO(cuGraphLaunch, H(CUgraphExec, e), stream);
		}
		break;
	default:
		break;
	}
}

/* Another stream takes part, with other memory. */
static void capture_apart(int stream, int graph)
{
	int other = any_here(STREAM), a = any_here(EVENT), b = any_here(EVENT);
	struct spec s, apart;

	if (other == stream || a < 0 || a == b || !choose(&s, CU_GRAPH_NODE_TYPE_MEMSET))
		return;
	objects[a].flag = objects[b].flag = true;
	DO(cuEventRecord, H(CUevent, a), H(CUstream, stream));
	DO(cuStreamWaitEvent, H(CUstream, other), H(CUevent, a), 0);
	DO(cuMemsetD32Async, H(CUdeviceptr, s.memory), s.value, 10, H(CUstream, other));
	capture_one(H(CUstream, stream), s.memory, &apart);
	need_spec(graph, &s);
	need_spec(graph, &apart);
	DO(cuEventRecord, H(CUevent, b), H(CUstream, other));
	DO(cuStreamWaitEvent, H(CUstream, stream), H(CUevent, b), 0);
}

/* Its one kernel's node, if there is one, is known. */
static void know_kernel(int g)
{
	CUgraphNode nodes[64], kernel = NULL;
	CUgraphNodeType type;
	size_t n = 64, kernels = 0;

	if (DO(cuGraphGetNodes, H(CUgraph, g), nodes, &n))
		return;
	for (size_t i = 0; i < n; i++) {
		if (!cuGraphNodeGetType(nodes[i], &type) && type == CU_GRAPH_NODE_TYPE_KERNEL) {
			kernel = nodes[i];
			kernels++;
		}
	}
	say("%zu nodes, %zu kernels", n, kernels);
	if (kernels == 1) {
		int i = hold(NODE, kernel, g);

		if (i >= 0)
			specs[i] = (struct spec){.type = CU_GRAPH_NODE_TYPE_KERNEL, .memory = -1,
						 .other = -1, .event = -1, .child = -1,
						 .context = current()};
	}
}

static void capture(void)
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
						    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
						    CU_STREAM_CAPTURE_MODE_RELAXED};
	int s = any_here(STREAM), i;
	CUstreamCaptureStatus status;
	CUgraph g = NULL;
	struct spec spec;

	if (s < 0 || n_objects == MOST || DO(cuStreamBeginCapture, H(CUstream, s), modes[draw(3)]))
		return;
	i = add_graph(GRAPH, NULL); /* before it is there, for what it needs */
	for (int k = (int)draw(4); k >= 0; k--) {
		capture_one(H(CUstream, s), -1, &spec);
		need_spec(i, &spec);
	}
	if (draw(3) == 0)
		capture_apart(s, i);
	if (draw(12) == 0) /* which ends it */
		DO(cuStreamSynchronize, H(CUstream, s));
	if (!DO(cuStreamIsCapturing, H(CUstream, s), &status))
		say("captures %d", (int)status);
	if (DO(cuStreamEndCapture, H(CUstream, s), &g)) {
		end(i);
		return;
	}
	objects[i].handle = (uintptr_t)g;
	objects[i].flag = true;
	know_kernel(i);
}

/* ---- executable graphs ----------------------------------------------------------------------- */

static void instantiate(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS p = {.flags = 0};
	int g = any_sound(GRAPH), i;
	CUgraphExec e = NULL;

	if (g < 0 || (draw(2) ? DO(cuGraphInstantiate, &e, H(CUgraph, g), 0)
			      : DO(cuGraphInstantiateWithParams, &e, H(CUgraph, g), &p)))
		return;
	i = add_graph(EXECUTABLE, e);
	if (i < 0)
		return;
	need_all_of(i, g);
	sources[i] = g;
}

static void run(void)
{
	int i = any_sound(EXECUTABLE), s = any_here(STREAM);

	if (i < 0 || s < 0)
		return;
	if (draw(4) == 0)
		DO(cuGraphUpload, H(CUgraphExec, i), H(CUstream, s));
	DO(cuGraphLaunch, H(CUgraphExec, i), H(CUstream, s));
	finish(s);
	if (draw(2))
		settle();
}

/* A node of the graph of which it was instantiated that was there then; -1: there is none. */
static int any_node_of(int e)
{
	int i = is(sources[e], GRAPH) ? any_of(NODE, sources[e]) : -1;

	return i < e ? i : -1;
}

static void change_in(int e, int i)
{
	CUgraphExec exec = H(CUgraphExec, e);
	CUgraphNode node = H(CUgraphNode, i);
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS set;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_MEMCPY3D copy;
	struct spec s;

	if (!choose(&s, specs[i].type))
		return;
	need_spec(e, &s);
	if (s.type == CU_GRAPH_NODE_TYPE_KERNEL)
		DO(cuGraphExecKernelNodeSetParams, exec, node, (kernel = kernel_of(&s), &kernel));
	else if (s.type == CU_GRAPH_NODE_TYPE_MEMSET)
		DO(cuGraphExecMemsetNodeSetParams, exec, node, (set = fill_of(&s), &set),
		   H(CUcontext, s.context));
	else if (s.type == CU_GRAPH_NODE_TYPE_MEMCPY)
		DO(cuGraphExecMemcpyNodeSetParams, exec, node, (copy = copy_of(&s), &copy),
		   H(CUcontext, s.context));
	else if (s.type == CU_GRAPH_NODE_TYPE_HOST)
		DO(cuGraphExecHostNodeSetParams, exec, node, (host = host_node(s.value), &host));
	else if (s.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		DO(cuGraphExecEventRecordNodeSetEvent, exec, node, H(CUevent, s.event));
	else if (s.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
		DO(cuGraphExecEventWaitNodeSetEvent, exec, node, H(CUevent, s.event));
	else if (s.type == CU_GRAPH_NODE_TYPE_GRAPH)
		DO(cuGraphExecChildGraphNodeSetParams, exec, node, H(CUgraph, s.child));
}

static void change_executable(void)
{
	int e = any_sound(EXECUTABLE), i = e < 0 ? -1 : any_node_of(e);

	if (i < 0 || !be_in(specs[i].context))
		return;
	change_in(e, i);
	be_back();
}

static void enable(void)
{
	int e = any_sound(EXECUTABLE), i = e < 0 ? -1 : any_node_of(e);
	unsigned enabled = 0;

	if (i < 0)
		return;
	if (draw(2))
		DO(cuGraphNodeSetEnabled, H(CUgraphExec, e), H(CUgraphNode, i), draw(2));
	if (!DO(cuGraphNodeGetEnabled, H(CUgraphExec, e), H(CUgraphNode, i), &enabled))
		say("enabled %u", enabled);
}

/* By the graph of which it was made, or a copy, or another. */
static void update(void)
{
	int e = any_sound(EXECUTABLE), g = e < 0 ? -1 : sources[e];
	CUgraphExecUpdateResultInfo info = {.errorNode = NULL};
	CUresult rc;

	for (int i = 0; i < n_objects && g >= 0 && draw(2); i++) {
		if (is(i, GRAPH) && sources[i] == sources[e])
			g = i;
	}
	if (e >= 0 && draw(4) == 0)
		g = any(GRAPH);
	if (!is(g, GRAPH) || !is_sound(g))
		return;
	rc = DO(cuGraphExecUpdate, H(CUgraphExec, e), H(CUgraph, g), &info);
	say("result %d", (int)info.result);
	if (!rc)
		need_all_of(e, g);
	else
		end_one(e); /* some of it may be changed */
}

/* ---- steps ----------------------------------------------------------------------------------- */

void graph_step(void)
{
	static void (*const steps[])(void) = {
		create_graph, create_graph, destroy_graph, add_node, add_node, add_node, add_node,
		add_node, add_node, destroy_node, change_node, change_node, look_at_graph,
		look_at_graph, look_at_node, look_at_node, clone_graph, capture, capture,
		instantiate, instantiate, instantiate, run, run, run, run, run, run,
		change_executable, change_executable, change_executable, change_executable, enable,
		update, update, hold_object, let_object, call_any};

	steps[draw(sizeof steps / sizeof *steps)]();
}

void end_graphs(void)
{
	for (int i = 0; i < n_objects; i++) {
		if (is(i, GRAPH) || is(i, EXECUTABLE))
			end_one(i);
	}
	end_objects();
}

/* SPDX-License-Identifier: Apache-2.0
 * Handles of nodes, and of graphs in nodes, after a restart. Only those that the fresh driver has
 * been given as it was loaded have others than the driver's; they are forgotten as they end. */
#include "shim/cuda/records/records.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static struct gck_cuda_handle_map by_handle, by_now;

static bool is_fresh(void)
{
	return atomic_load(&gck_records_age) == 0;
}

void gck_graph_put(struct gck_cuda_handle_map *map, uint64_t key, uint64_t value)
{
	uint64_t *at = gck_cuda_handle_map_put(map, key);

	if (!at)
		abort();
	*at = value;
}

uint64_t gck_graph_get(const struct gck_cuda_handle_map *map, uint64_t key)
{
	const uint64_t *at = gck_cuda_handle_map_get(map, key);

	return at ? *at : 0;
}

static void empty(struct gck_cuda_handle_map *map)
{
	free(map->entries);
	*map = (struct gck_cuda_handle_map){0};
}

void gck_record_nodes_forget(void)
{
	empty(&by_handle);
	empty(&by_now);
}

void gck_record_node_set(uint64_t handle, uint64_t now)
{
	gck_graph_put(&by_handle, handle, now);
	gck_graph_put(&by_now, now, handle);
}

uint64_t gck_record_node_now(uint64_t handle)
{
	uint64_t now = gck_graph_get(&by_handle, handle);

	return now ? now : handle;
}

uint64_t gck_record_node_handle(uint64_t now)
{
	uint64_t handle = gck_graph_get(&by_now, now);

	return handle ? handle : now;
}

uint64_t gck_record_handle(enum gck_record_kind kind, uint64_t now)
{
	const struct gck_record *r;
	uint64_t handle = now;

	if (is_fresh())
		return now;
	gck_records_lock();
	r = gck_record_find_now(kind, now);
	if (!r && kind == GCK_RECORD_FUNCTION)
		r = gck_record_find_now(GCK_RECORD_KERNEL, now);
	if (r)
		handle = r->handle;
	else if (kind == GCK_RECORD_NODE || kind == GCK_RECORD_GRAPH)
		handle = gck_record_node_handle(now);
	gck_records_unlock();
	return handle;
}

/* ---- lists ----------------------------------------------------------------------------------- */

const CUgraphNode *gck_record_nodes_now(const CUgraphNode *nodes, size_t n)
{
	CUgraphNode *now;

	if (is_fresh() || !nodes || !n)
		return nodes;
	now = malloc(n * sizeof *now);
	if (!now)
		abort();
	for (size_t i = 0; i < n; i++)
		now[i] = (CUgraphNode)(uintptr_t)gck_now(GCK_RECORD_NODE, (uintptr_t)nodes[i]);
	return now;
}

void gck_record_nodes_done(const CUgraphNode *now, const CUgraphNode *nodes)
{
	if (now != nodes)
		free((void *)(uintptr_t)now);
}

void gck_record_nodes_back(CUgraphNode *nodes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		nodes[i] = (CUgraphNode)(uintptr_t)gck_record_handle(GCK_RECORD_NODE,
								     (uintptr_t)nodes[i]);
}

void gck_record_node_list_back(const CUgraphNode **nodes, size_t n)
{
	static __thread CUgraphNode *list __attribute__((tls_model("initial-exec")));
	static __thread size_t room __attribute__((tls_model("initial-exec")));

	if (is_fresh() || !*nodes || !n)
		return;
	if (n > room) {
		list = realloc(list, n * sizeof *list);
		if (!list)
			abort();
		room = n;
	}
	memcpy(list, *nodes, n * sizeof *list);
	gck_record_nodes_back(list, n);
	*nodes = list;
}

/* ---- structures ------------------------------------------------------------------------------ */

#define NOW(kind, at) (at) = (__typeof__(at))(uintptr_t)gck_now(GCK_RECORD_##kind, \
								(uint64_t)(uintptr_t)(at))

void gck_record_node_params_now(CUgraphNodeParams *p)
{
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		NOW(FUNCTION, p->kernel.func);
		NOW(KERNEL, p->kernel.kern);
		NOW(CONTEXT, p->kernel.ctx);
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		NOW(CONTEXT, p->memcpy.copyCtx);
		NOW(ARRAY, p->memcpy.copyParams.srcArray);
		NOW(ARRAY, p->memcpy.copyParams.dstArray);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		NOW(CONTEXT, p->memset.ctx);
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		NOW(GRAPH, p->graph.graph);
		break;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		NOW(EVENT, p->eventWait.event);
		break;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		NOW(CONTEXT, p->memOp.ctx);
		break;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		NOW(CONTEXT, p->conditional.ctx);
		break;
	default:
		break;
	}
}

/* A graph of the program is now a node's. */
static void moved(CUgraph graph)
{
	struct gck_record *r;

	gck_records_lock();
	r = gck_record_find(GCK_RECORD_GRAPH, (uintptr_t)graph);
	if (r && r->handle != r->now)
		gck_record_node_set(r->handle, r->now);
	if (r)
		gck_record_end(r);
	gck_records_unlock();
}

void gck_record_node_params_back(CUgraphNodeParams *p, const CUgraphNodeParams *now)
{
	if (p->type == CU_GRAPH_NODE_TYPE_GRAPH &&
	    p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
		moved(p->graph.graph);
	else if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		p->alloc.dptr = now->alloc.dptr;
	else if (p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		p->conditional.phGraph_out = now->conditional.phGraph_out;
}

static CUevent *event_in(CUkernelNodeAttrID which, CUkernelNodeAttrValue *value)
{
	if (which == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
		return &value->programmaticEvent.event;
	return which == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT
		       ? &value->launchCompletionEvent.event : NULL;
}

void gck_record_attribute_now(CUkernelNodeAttrID which, CUkernelNodeAttrValue *value)
{
	CUevent *event = event_in(which, value);

	if (event)
		NOW(EVENT, *event);
}

void gck_record_attribute_back(CUkernelNodeAttrID which, CUkernelNodeAttrValue *value)
{
	CUevent *event = event_in(which, value);

	if (event)
		*event = (CUevent)(uintptr_t)gck_record_handle(GCK_RECORD_EVENT,
							       (uintptr_t)*event);
}

/* ---- ends ------------------------------------------------------------------------------------ */

struct list {
	uint64_t *v;
	size_t n;
};

static void add(struct list *l, uint64_t now)
{
	l->v = realloc(l->v, (l->n + 1) * sizeof *l->v);
	if (!l->v)
		abort();
	l->v[l->n++] = now;
}

static void add_graph(struct list *l, uint64_t graph);

static void add_node(struct list *l, CUgraphNode node)
{
	uint64_t child = gck_graph_child(node);

	add(l, (uintptr_t)node);
	if (child)
		add_graph(l, child);
}

/* It, its nodes, and all in them. */
static void add_graph(struct list *l, uint64_t graph)
{
	size_t n = 0;
	CUgraphNode *nodes = gck_graph_nodes(graph, &n);

	add(l, graph);
	for (size_t i = 0; nodes && i < n; i++)
		add_node(l, nodes[i]);
	free(nodes);
}

/* Forgets copies of which the node, or which, have this handle: it may be another's soon. */
static void forget_pairs(struct gck_record *r, uint64_t handle)
{
	struct gck_cuda_handle_map *pairs = &r->graph->pairs;
	uint64_t key;

	gck_cuda_handle_map_drop(pairs, handle);
	if (r->kind != GCK_RECORD_GRAPH)
		return;
	do { /* copies are nodes of the program, too */
		key = 0;
		for (size_t i = 0; i < pairs->capacity && !key; i++) {
			if (pairs->entries[i].handle && pairs->entries[i].value == handle)
				key = pairs->entries[i].handle;
		}
		gck_cuda_handle_map_drop(pairs, key);
	} while (key);
}

/* What is in the list has ended, if there is no error. */
static CUresult forget(struct list *l, CUresult rc)
{
	gck_records_lock();
	for (struct gck_record *r = gck_records_first(); r && !rc; r = r->next) {
		for (size_t i = 0; i < l->n && r->graph && r->graph->pairs.n; i++)
			forget_pairs(r, gck_record_node_handle(l->v[i]));
	}
	for (size_t i = 0; i < l->n && !rc; i++) {
		uint64_t handle = gck_record_node_handle(l->v[i]);

		gck_cuda_handle_map_drop(&by_handle, handle);
		gck_cuda_handle_map_drop(&by_now, l->v[i]);
		gck_graph_let(l->v[i], NULL, UINT_MAX);
	}
	gck_records_unlock();
	free(l->v);
	return rc;
}

CUresult gck_record_graph_destroy(CUgraph graph, CUresult (*note)(CUgraph graph))
{
	struct list l = {0};

	add_graph(&l, gck_now(GCK_RECORD_GRAPH, (uintptr_t)graph));
	return forget(&l, note(graph));
}

CUresult gck_record_node_destroy(CUgraphNode node)
{
	struct list l = {0};

	node = (CUgraphNode)(uintptr_t)gck_now(GCK_RECORD_NODE, (uintptr_t)node);
	add_node(&l, node);
	return forget(&l, gck_cuda_driver.cuGraphDestroyNode(node));
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* The program's handle of a node's copy; 0: none, or one of them has ended. With the lock. */
static uint64_t copy_in(const struct gck_record *clone, uint64_t node)
{
	uint64_t copy = gck_graph_get(&clone->graph->pairs, node);

	return gck_graph_get(&by_handle, node) && gck_graph_get(&by_handle, copy) ? copy : 0;
}

CUresult gck_record_find_in_clone(CUgraphNode *found, CUgraphNode node, CUgraph clone)
{
	const struct gck_record *r;
	uint64_t copy = 0;
	bool again;

	gck_records_lock();
	r = gck_record_find(GCK_RECORD_GRAPH, (uintptr_t)clone);
	again = r && r->graph->again;
	if (again)
		copy = copy_in(r, (uintptr_t)node);
	gck_records_unlock();
	if (again && found && copy)
		*found = (CUgraphNode)(uintptr_t)copy;
	if (again)
		return copy ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	return gck_cuda_driver.cuGraphNodeFindInClone(
		found, (CUgraphNode)(uintptr_t)gck_now(GCK_RECORD_NODE, (uintptr_t)node),
		(CUgraph)(uintptr_t)gck_now(GCK_RECORD_GRAPH, (uintptr_t)clone));
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Whether a function is a record's, and if not, the program's handle of its module; 0: none. */
static bool is_known(CUfunction f, CUmodule in, uint64_t *module)
{
	const struct gck_record *r;
	bool known;

	gck_records_lock();
	known = gck_record_find_now(GCK_RECORD_FUNCTION, (uintptr_t)f) ||
		gck_record_find_now(GCK_RECORD_KERNEL, (uintptr_t)f);
	r = in ? gck_record_find_now(GCK_RECORD_MODULE, (uintptr_t)in) : NULL;
	*module = r ? r->handle : 0;
	gck_records_unlock();
	return known;
}

void gck_record_kernel_known(CUgraphNode node, gck_record_get_function *get)
{
	uint64_t now = gck_now(GCK_RECORD_NODE, (uintptr_t)node), module;
	CUgraphNode n = (CUgraphNode)(uintptr_t)now;
	CUDA_KERNEL_NODE_PARAMS p;
	CUmodule in = NULL;
	CUfunction f;
	const char *name;

	if (gck_graph_type(n) != CU_GRAPH_NODE_TYPE_KERNEL ||
	    gck_cuda_driver.cuGraphKernelNodeGetParams_v2(n, &p) || !p.func ||
	    is_known(p.func, NULL, &module) || gck_cuda_driver.cuFuncGetModule(&in, p.func) ||
	    gck_cuda_driver.cuFuncGetName(&name, p.func))
		return;
	is_known(p.func, in, &module);
	if (module)
		get(&f, (CUmodule)(uintptr_t)module, name);
}

void gck_record_graph_captured(CUgraph graph, gck_record_get_function *get)
{
	size_t n = 0;
	CUgraphNode *nodes = gck_graph_nodes(gck_now(GCK_RECORD_GRAPH, (uintptr_t)graph), &n);

	for (size_t i = 0; nodes && i < n; i++)
		gck_record_kernel_known(nodes[i], get);
	free(nodes);
}

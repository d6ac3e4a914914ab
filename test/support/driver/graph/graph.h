/* SPDX-License-Identifier: Apache-2.0
 * Graphs of the fake driver, with the lock. */
#ifndef FAKE_GRAPH_H
#define FAKE_GRAPH_H

#include "test/support/driver/bodies.h"

#define FAKE_ATTRIBUTES (CU_LAUNCH_ATTRIBUTE_PRIORITY + 1)

struct CUgraphNode_st {
	struct CUgraphNode_st *next;   /* of its graph */
	struct CUgraph_st *graph;
	CUgraphNodeType type;
	uint64_t id, from;             /* its own; that of the node that it copies; 0: none */
	struct fake_op op;             /* what a launch gives a stream */
	void *kernel_params[11];       /* for questions */
	void *extra[5];
	size_t extra_size;             /* 0: it was given a list */
	union {
		CUDA_MEMCPY3D memcpy;
		CUDA_MEMSET_NODE_PARAMS memset;
		CUDA_HOST_NODE_PARAMS host;
		CUevent event;
	} of;
	CUcontext context;             /* of copies, fills, and values in memory */
	CUlaunchAttributeValue attributes[FAKE_ATTRIBUTES];
	struct CUgraph_st *child;
	bool disabled;                 /* of an executable graph */
};

struct fake_edge {
	CUgraphNode from, to;
	CUgraphEdgeData data;
};

struct CUgraph_st {
	struct CUgraph_st *next;       /* of all; those in a node or an executable graph are none */
	CUgraphNode first;
	struct fake_edge *edges;
	size_t nedges;
	CUgraphNode parent;            /* the node that owns it */
	struct fake_use *uses;         /* of the program's objects */
	uint64_t id, from;
};

/* graph.c */
bool fake_is_graph(CUgraph g);
bool fake_is_node(CUgraphNode n);
CUgraph fake_graph_new(void);
CUgraph fake_graph_copy(CUgraph g, CUgraphNode parent);
void fake_graph_list(CUgraph g);       /* from now on it has a handle of its own */
void fake_graph_free(CUgraph g);
/* It belongs to a node from now on. False: it did to another. */
bool fake_graph_move(CUgraph g, CUgraphNode parent);
size_t fake_graph_size(CUgraph g);
CUgraphNode fake_graph_node(CUgraph g, size_t i);
CUgraphNode fake_node_new(CUgraph g, CUgraphNodeType type);
void fake_node_free(CUgraphNode n);
/* The node of a graph, or of graphs in its nodes, that is a copy of another; NULL: none. */
CUgraphNode fake_node_copy_of(CUgraph g, CUgraphNode n);

/* user.c */
void fake_uses_copy(CUgraph from, CUgraph to);
void fake_uses_end(CUgraph g);

/* edges.c */
CUresult fake_edges_add(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
			const CUgraphEdgeData *data, size_t n);
CUresult fake_edges_to(CUgraph g, CUgraphNode to, const CUgraphNode *from,
		       const CUgraphEdgeData *data, size_t n);
void fake_edges_end(CUgraph g, CUgraphNode n);
bool fake_is_before(CUgraph g, CUgraphNode a, CUgraphNode b); /* b depends on a, or is a */

/* params.c */
CUresult fake_set_kernel(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p);
CUresult fake_set_memcpy(CUgraphNode n, const CUDA_MEMCPY3D *p, CUcontext ctx);
CUresult fake_set_memset(CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx);
CUresult fake_set_host(CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p);
CUresult fake_set_event(CUgraphNode n, CUevent event);
CUresult fake_set_values(CUgraphNode n, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p);
CUresult fake_set_params(CUgraphNode n, const CUgraphNodeParams *p);
/* Another node's, of the same type. */
void fake_copy_params(CUgraphNode n, CUgraphNode other);
/* That of an operation of a stream. */
CUresult fake_node_of_op(CUgraphNode n, const struct fake_op *op);

#endif

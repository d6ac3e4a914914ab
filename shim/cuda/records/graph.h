/* SPDX-License-Identifier: Apache-2.0
 * What a graph holds. The driver is asked for it at a checkpoint, so calls that make and change
 * nodes need not be recorded. It cannot be asked for an executable graph: such a one has a graph of
 * its own, a copy of that which it was made of, in which each change is made, too. */
#ifndef GCK_CUDA_RECORDS_GRAPH_H
#define GCK_CUDA_RECORDS_GRAPH_H

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/records/record.h"

#define GCK_GRAPH_ATTRIBUTES 20 /* ids of attributes of kernels' nodes are less */

struct gck_graph_node {
	uint64_t handle, now;     /* the program's, 0: it does not know it; the driver's */
	CUgraphNodeType type;
	bool disabled;
	struct gck_graph *child;
	const struct gck_record *function, *event, *source, *target; /* the last two: arrays */
	const struct gck_record *context;  /* NULL: any */
	union {
		CUDA_KERNEL_NODE_PARAMS kernel;
		CUDA_MEMCPY3D memcpy;
		CUDA_MEMSET_NODE_PARAMS memset;
		CUDA_HOST_NODE_PARAMS host;
	} of;
	void **arguments;         /* of a kernel: pointers, and what they point to, behind each */
	size_t narguments, bytes; /* other */
	struct gck_graph_attributes {
		bool known[GCK_GRAPH_ATTRIBUTES];
		CUkernelNodeAttrValue v[GCK_GRAPH_ATTRIBUTES];
	} *attributes;
};

struct gck_graph {
	uint64_t handle, now;
	struct gck_graph_node *nodes;
	size_t n;
	struct gck_graph_edge {
		size_t from, to;
		CUgraphEdgeData data;
	} *edges;
	size_t nedges;
};

/* What is kept of a graph and of an executable one, besides its record. */
struct gck_record_graph {
	struct gck_graph *asked;  /* from the save on, until it is made again */
	uint64_t own;             /* an executable graph's own graph; 0: it could not be copied */
	cuuint64_t flags;         /* an executable graph's, from the save on */
	bool again;               /* it was made again: by `pairs` are its nodes known */
	/* Nodes of the program: those of an executable graph's own graph, which are disabled; of a
	 * graph that is a copy: which nodes are copies of which. */
	struct gck_cuda_handle_map pairs, disabled;
};

/* ---- graph_ask.c ----------------------------------------------------------------------------- */

/* Asks the driver what a graph holds. Its context, if it can be any: that of the record. handles:
 * by nodes; NULL: as the program knows them. NULL: *why cannot be made again. */
struct gck_graph *gck_graph_ask(uint64_t now, const struct gck_record *r,
				const struct gck_cuda_handle_map *handles, const char **why);
void gck_graph_free(struct gck_graph *g);
/* The nodes of a graph, to be freed; NULL: the driver does not tell. A graph in a node; 0: none. */
CUgraphNode *gck_graph_nodes(uint64_t graph, size_t *n);
/* Edges: the n nodes where they begin, then those where they end; both to be freed. */
bool gck_graph_edges(uint64_t graph, CUgraphNode **ends, CUgraphEdgeData **data, size_t *n);
CUgraphNodeType gck_graph_type(CUgraphNode node);
uint64_t gck_graph_child(CUgraphNode node);

/* ---- graph_exec.c ---------------------------------------------------------------------------- */

/* That a graph or a graph in it holds something that the driver does not tell. */
bool gck_graph_has_held(uint64_t now);
void gck_graph_drop_held(uint64_t now);

/* ---- graph_nodes.c --------------------------------------------------------------------------- */

/* Sets a value; ends the process without memory. */
void gck_graph_put(struct gck_cuda_handle_map *map, uint64_t key, uint64_t value);
uint64_t gck_graph_get(const struct gck_cuda_handle_map *map, uint64_t key); /* 0: none */

#endif

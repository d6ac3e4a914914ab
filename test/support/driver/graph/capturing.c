/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: capture of streams' work into graphs. An event that a captured stream records
 * brings other streams into the capture, which have to be joined before it ends. */
#include "test/support/driver/graph/graph.h"

#include <stdlib.h>
#include <string.h>

static unsigned long long captures; /* ids */

/* ---- work ------------------------------------------------------------------------------------ */

/* The node depends on what the stream has given so far, and is now what it has given. */
static CUresult take(struct CUstream_st *s, CUgraphNode n, CUresult rc)
{
	struct fake_captured *c = &s->captured;

	rc = rc ? rc : fake_edges_to(c->graph, n, c->last, c->data, c->n);
	if (rc)
		return rc;
	c->n = 1;
	c->last[0] = n;
	c->data[0] = (CUgraphEdgeData){.type = 0};
	return CUDA_SUCCESS;
}

CUresult fake_capture(struct CUstream_st *s, const struct fake_op *op)
{
	CUgraphNode n;
	CUresult rc;

	if (!op->node || op->block)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	n = fake_node_new(s->captured.graph, (CUgraphNodeType)(op->node - 1));
	n->context = s->context;
	rc = fake_node_of_op(n, op);
	return take(s, n, rc);
}

CUresult fake_capture_graph(struct CUstream_st *s, CUgraph graph)
{
	CUgraphNode n = fake_node_new(s->captured.graph, CU_GRAPH_NODE_TYPE_GRAPH);

	n->child = fake_graph_copy(graph, n);
	return take(s, n, CUDA_SUCCESS);
}

CUresult fake_capture_event(struct CUstream_st *s, CUevent event, bool wait)
{
	CUgraphNode n = fake_node_new(s->captured.graph, wait ? CU_GRAPH_NODE_TYPE_WAIT_EVENT
							: CU_GRAPH_NODE_TYPE_EVENT_RECORD);

	n->of.event = event;
	return take(s, n, CUDA_SUCCESS);
}

/* The stream comes after what another has given, which may bring it into the capture. */
CUresult fake_capture_join(struct CUstream_st *s, const struct fake_captured *from)
{
	struct fake_captured *c = &s->captured;

	if (s->capture == CU_STREAM_CAPTURE_STATUS_NONE) {
		s->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
		*c = *from;
		c->is_origin = false;
		return CUDA_SUCCESS;
	}
	if (c->id != from->id)
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	for (size_t i = 0; i < from->n; i++) {
		size_t j = 0;

		while (j < c->n && c->last[j] != from->last[i])
			j++;
		if (j == c->n && c->n < FAKE_LAST)
			c->last[c->n++] = from->last[i];
	}
	return CUDA_SUCCESS;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static CUresult start(struct CUstream_st *s, CUgraph g, CUstreamCaptureMode mode)
{
	if (!s || !g)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->capture != CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_ERROR_ILLEGAL_STATE;
	s->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	s->captured = (struct fake_captured){.mode = mode, .graph = g, .id = ++captures,
					     .is_origin = true};
	return CUDA_SUCCESS;
}

CUresult fake_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	CUgraph g;
	CUresult rc;

	fake_lock();
	g = fake_graph_new();
	rc = start(fake_stream(stream), g, mode);
	if (rc)
		fake_graph_free(g);
	else
		fake_graph_list(g);
	fake_unlock();
	return rc;
}

CUresult fake_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
					  const CUgraphEdgeData *data, size_t n,
					  CUstreamCaptureMode mode)
{
	struct CUstream_st *s;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	fake_lock();
	s = fake_stream(stream);
	for (size_t i = 0; i < n; i++) {
		if (!fake_is_node(nodes[i]) || nodes[i]->graph != graph)
			n = SIZE_MAX - 1;
	}
	if (fake_is_graph(graph) && n <= FAKE_LAST)
		rc = start(s, graph, mode);
	if (!rc) {
		s->captured.given = true;
		s->captured.n = n;
		for (size_t i = 0; i < n; i++) {
			s->captured.last[i] = nodes[i];
			s->captured.data[i] = data ? data[i] : (CUgraphEdgeData){.type = 0};
		}
	}
	fake_unlock();
	return rc;
}

/* Whether the stream's last work comes before that of the one where the capture began. */
static bool is_joined(const struct CUstream_st *s, const struct CUstream_st *origin)
{
	const struct fake_captured *a = &s->captured, *b = &origin->captured;
	size_t joined = 0;

	for (size_t i = 0; i < a->n; i++) {
		bool before = false;

		for (size_t j = 0; j < b->n && !before; j++)
			before = fake_is_before(a->graph, a->last[i], b->last[j]);
		joined += before;
	}
	return joined == a->n;
}

/* All of its streams leave the capture. */
static CUresult finish(struct CUstream_st *origin)
{
	unsigned long long id = origin->captured.id;
	CUresult rc = origin->capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED
			      ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;

	for (struct CUstream_st *s = fake_streams(); s; s = s->next) {
		if (s->capture == CU_STREAM_CAPTURE_STATUS_NONE || s->captured.id != id)
			continue;
		if (!rc && !is_joined(s, origin))
			rc = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	}
	for (struct CUstream_st *s = fake_streams(); s; s = s->next) {
		if (s->capture != CU_STREAM_CAPTURE_STATUS_NONE && s->captured.id == id)
			s->capture = CU_STREAM_CAPTURE_STATUS_NONE;
	}
	return rc;
}

CUresult fake_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CUresult rc = CUDA_ERROR_ILLEGAL_STATE;
	struct CUstream_st *s;
	CUgraph lost = NULL;

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	fake_lock();
	s = fake_stream(stream);
	if (s && s->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
		rc = s->captured.is_origin ? finish(s) : CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
		*graph = rc ? NULL : s->captured.graph;
		if (rc && s->captured.is_origin && !s->captured.given)
			lost = s->captured.graph;
	}
	fake_unlock();
	if (lost)
		fake_cuGraphDestroy(lost);
	return rc;
}

CUresult fake_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	const struct CUstream_st *s, *c;
	CUresult rc = CUDA_SUCCESS;

	fake_lock();
	s = fake_stream(stream);
	c = s ? fake_capturing(s->context) : NULL;
	if (!s)
		rc = CUDA_ERROR_INVALID_HANDLE;
	else if (s == s->context->legacy && c && !(c->flags & CU_STREAM_NON_BLOCKING))
		rc = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*status = s ? s->capture : CU_STREAM_CAPTURE_STATUS_NONE;
	fake_unlock();
	return rc;
}

CUresult fake_cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status,
					cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
					const CUgraphEdgeData **data, size_t *n)
{
	CUresult rc = fake_cuStreamIsCapturing(stream, status);
	const struct fake_captured *c;

	if (rc || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return rc;
	fake_lock();
	c = &fake_stream(stream)->captured;
	if (id)
		*id = c->id;
	if (graph)
		*graph = c->graph;
	if (nodes)
		*nodes = c->last;
	if (data)
		*data = c->data;
	if (n)
		*n = c->n;
	fake_unlock();
	return CUDA_SUCCESS;
}

CUresult fake_cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
					cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
					size_t *n)
{
	return fake_cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, NULL, n);
}

CUresult fake_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before;

	fake_current();
	before = fake_capture_mode;
	fake_capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

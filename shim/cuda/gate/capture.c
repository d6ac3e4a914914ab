/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/gate/capture.h"

#include <pthread.h>
#include <stdlib.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/follow.h"

/* A capture is listed by the stream where it began, which alone can end it. */
struct capture {
	struct capture *next;
	CUstream stream;
	CUcontext context;
};

_Atomic int gck_cuda_captures;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;

bool gck_cuda_capture_has(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return gck_cuda_capture_is_on() && (gck_cuda_real.cuStreamIsCapturing(stream, &status) ||
					    status != CU_STREAM_CAPTURE_STATUS_NONE);
}

bool gck_cuda_capture_pause(void)
{
	pthread_mutex_lock(&lock);
	if (!gck_cuda_capture_is_on())
		return true;
	pthread_mutex_unlock(&lock);
	return false;
}

void gck_cuda_capture_go_on(void)
{
	pthread_mutex_unlock(&lock);
}

/* The handle of a thread's default stream means another stream in each thread. */
static CUstream key_of(CUstream stream)
{
	static __thread char own __attribute__((tls_model("initial-exec")));

	return stream == CU_STREAM_PER_THREAD ? (CUstream)&own : stream;
}

/* Count the capture before it begins: whoever paused captures has finished by then. Without
 * memory for an entry it counts for good. */
static void begins(CUstream stream)
{
	struct capture *c = malloc(sizeof *c);

	if (c) {
		*c = (struct capture){.stream = key_of(stream)};
		gck_cuda_real.cuStreamGetCtx(stream, &c->context);
	}
	pthread_mutex_lock(&lock);
	gck_cuda_captures++;
	if (c) {
		c->next = captures;
		captures = c;
	}
	pthread_mutex_unlock(&lock);
}

static void drop(struct capture **at)
{
	struct capture *c = *at;

	*at = c->next;
	gck_cuda_captures--;
	free(c);
}

/* End the capture of the stream, if it has one. */
static void over(CUstream stream)
{
	struct capture **at = &captures;

	pthread_mutex_lock(&lock);
	while (*at && (*at)->stream != stream)
		at = &(*at)->next;
	if (*at)
		drop(at);
	pthread_mutex_unlock(&lock);
}

void gck_cuda_capture_stream_ends(CUstream stream)
{
	over(stream);
}

void gck_cuda_capture_forget(CUcontext context)
{
	pthread_mutex_lock(&lock);
	for (struct capture **at = &captures; *at;) {
		if ((*at)->context == context)
			drop(at);
		else
			at = &(*at)->next;
	}
	pthread_mutex_unlock(&lock);
}

static CUresult has_begun(CUresult rc, CUstream stream)
{
	if (rc)
		over(key_of(stream));
	return rc;
}

#define BEGINS(name, parameters, stream, call) \
	GCK_CUDA_FUNCTION(name, parameters) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(s); \
		gck_cuda_follow(stream); \
		begins(stream); \
		rc = has_begun(gck_cuda_real.call, stream); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
/* for functions of the `_ptsz` kind */
#define OF_THREAD(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)
#define TO_GRAPH \
	(CUstream s, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, \
	 size_t n, CUstreamCaptureMode mode)

BEGINS(cuStreamBeginCapture, (CUstream s), s, cuStreamBeginCapture(s))
BEGINS(cuStreamBeginCapture_ptsz, (CUstream s), OF_THREAD(s), cuStreamBeginCapture_ptsz(s))
BEGINS(cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode mode), s,
       cuStreamBeginCapture_v2(s, mode))
BEGINS(cuStreamBeginCapture_v2_ptsz, (CUstream s, CUstreamCaptureMode mode), OF_THREAD(s),
       cuStreamBeginCapture_v2_ptsz(s, mode))
BEGINS(cuStreamBeginCaptureToGraph, TO_GRAPH, s,
       cuStreamBeginCaptureToGraph(s, graph, nodes, edges, n, mode))
BEGINS(cuStreamBeginCaptureToGraph_ptsz, TO_GRAPH, OF_THREAD(s),
       cuStreamBeginCaptureToGraph_ptsz(s, graph, nodes, edges, n, mode))

/* A capture that was invalidated ends too, with an error. */
static CUresult ended(CUresult rc, CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;

	if (rc == CUDA_SUCCESS ||
	    (gck_cuda_real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
	     status == CU_STREAM_CAPTURE_STATUS_NONE))
		over(key_of(stream));
	return rc;
}

#define ENDS(name, stream) \
	GCK_CUDA_FUNCTION(name, (CUstream s, CUgraph *graph)) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(s); \
		rc = ended(gck_cuda_real.name(s, graph), stream); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
ENDS(cuStreamEndCapture, s)
ENDS(cuStreamEndCapture_ptsz, OF_THREAD(s))

void gck_cuda_capture_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	gck_cuda_captures = 0;
	captures = NULL;
}

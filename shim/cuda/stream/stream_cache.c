/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/stream/stream_cache.h"

#include <stdlib.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/dispatch/load.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/real.h"
#include "shim/cuda/stream/fence.h"

/* ---- one ------------------------------------------------------------------------------------ */

#define LEAST_BITS 9
#define LOOKS 16 /* at pieces of a bin, so that no call takes long */

static size_t bin_of(uint64_t size)
{
	unsigned bits = 63 - (unsigned)__builtin_clzll(size | 1 << LEAST_BITS);
	size_t bin = (bits - LEAST_BITS) * 4 + (size >> (bits - 2) & 3);

	return bin < GCK_CUDA_LANE_BINS ? bin : GCK_CUDA_LANE_BINS - 1;
}

void gck_cuda_lane_put(struct gck_cuda_lane *lane, struct gck_cuda_ordered *piece)
{
	struct gck_cuda_ordered **bin = &lane->bins[bin_of(piece->size)];

	piece->next = *bin;
	*bin = piece;
	if (piece->id > lane->newest)
		lane->newest = piece->id;
	lane->n++;
}

static struct gck_cuda_ordered *unlink_at(struct gck_cuda_lane *lane, struct gck_cuda_ordered **at)
{
	struct gck_cuda_ordered *piece = *at;

	if (piece) {
		*at = piece->next;
		lane->n--;
	}
	return piece;
}

/* The smallest that is large enough of the first ones of a bin. */
static struct gck_cuda_ordered **fit(struct gck_cuda_ordered **bin, uint64_t size, uint64_t most)
{
	struct gck_cuda_ordered **found = NULL;

	for (int i = 0; i < LOOKS && *bin; i++, bin = &(*bin)->next) {
		if ((*bin)->size == size)
			return bin;
		if ((*bin)->size > size && (*bin)->size <= most && (!found || (*bin)->size < (*found)->size))
			found = bin;
	}
	return found;
}

static struct gck_cuda_ordered *take(struct gck_cuda_lane *lane, uint64_t size, uint64_t most)
{
	struct gck_cuda_ordered **at = NULL;

	for (size_t bin = bin_of(size); !at && lane->n && bin <= bin_of(most); bin++)
		at = fit(&lane->bins[bin], size, most);
	return at ? unlink_at(lane, at) : NULL;
}

struct gck_cuda_ordered *gck_cuda_lane_take(struct gck_cuda_lane *lane, uint64_t size)
{
	return take(lane, size, size + size / 4);
}

struct gck_cuda_ordered *gck_cuda_lane_take_any(struct gck_cuda_lane *lane, uint64_t size)
{
	return take(lane, size, UINT64_MAX);
}

struct gck_cuda_ordered *gck_cuda_lane_until(struct gck_cuda_lane *lane, uint64_t until,
					     struct gck_cuda_ordered *list)
{
	for (size_t bin = 0; lane->n && until && bin < GCK_CUDA_LANE_BINS; bin++) {
		struct gck_cuda_ordered **at = &lane->bins[bin];

		while (*at) {
			struct gck_cuda_ordered *piece = *at;

			if (piece->id > until) {
				at = &piece->next;
			} else {
				unlink_at(lane, at);
				piece->next = list;
				list = piece;
			}
		}
	}
	return list;
}

/* ---- all of them ---------------------------------------------------------------------------- */

struct gck_cuda_lane *gck_cuda_lanes;

static struct gck_cuda_set by_key;

/* ---- which stream --------------------------------------------------------------------------- */

/* Threads come and go, and their numbers are not used again. */
static uint64_t thread_number(void)
{
	static __thread uint64_t number __attribute__((tls_model("initial-exec")));
	static uint64_t last;

	if (!number)
		number = ++last;
	return number;
}

/* Handles are addresses of structures. Keys that meet are told apart by what the lane says. */
static uint64_t key_of(CUstream stream, CUcontext context, uint64_t thread)
{
	if (!thread && stream != CU_STREAM_LEGACY)
		return (uint64_t)(uintptr_t)stream;
	return (uint64_t)(uintptr_t)context ^ thread << 48 ^ (thread ? 3 : 1);
}

/* Is it one of a green context? What becomes of it is not known here when that context ends. */
static bool is_green(CUstream stream)
{
	CUgreenCtx green = NULL;

	return gck_cuda_has((void *)gck_cuda_real.cuStreamGetGreenCtx) &&
	       gck_cuda_real.cuStreamGetGreenCtx(stream, &green) == CUDA_SUCCESS && green;
}

/* Its context and device, and whether it has to do with the legacy default stream. Drivers that cannot record an
 * event of a context cannot be checkpointed either. */
static bool ask(struct gck_cuda_lane *lane)
{
	unsigned int flags = 0;

	if (!gck_cuda_has((void *)gck_cuda_real.cuCtxRecordEvent) || is_green(lane->stream))
		return false;
	if (lane->context) /* a default stream */
		return gck_cuda_real.cuCtxGetDevice(&lane->device) == CUDA_SUCCESS;
	if (gck_cuda_real.cuStreamGetCtx(lane->stream, &lane->context) ||
	    gck_cuda_device_of(lane->context, &lane->device) ||
	    gck_cuda_real.cuStreamGetFlags(lane->stream, &flags))
		return false;
	lane->apart = flags & CU_STREAM_NON_BLOCKING;
	return true;
}

static struct gck_cuda_lane *make(const struct gck_cuda_lane *what)
{
	struct gck_cuda_lane *lane = malloc(sizeof *lane);
	uint64_t *place;

	if (!lane)
		return NULL;
	*lane = *what;
	place = ask(lane) ? gck_cuda_set_put(&by_key, lane->key) : NULL;
	if (!place) {
		free(lane);
		return NULL;
	}
	*place = (uint64_t)(uintptr_t)lane;
	lane->next = gck_cuda_lanes;
	gck_cuda_lanes = lane;
	return lane;
}

struct gck_cuda_lane *gck_cuda_lane_of(CUstream stream)
{
	struct gck_cuda_lane what = {.stream = stream}, *lane;
	const uint64_t *place;

	if (stream == CU_STREAM_PER_THREAD)
		what.thread = thread_number();
	if ((stream == CU_STREAM_PER_THREAD || stream == CU_STREAM_LEGACY) &&
	    (gck_cuda_real.cuCtxGetCurrent(&what.context) || !what.context))
		return NULL;
	what.key = key_of(stream, what.context, what.thread);
	place = gck_cuda_set_get(&by_key, what.key);
	if (!place)
		return make(&what);
	lane = (struct gck_cuda_lane *)(uintptr_t)*place;
	return lane->stream == stream && lane->thread == what.thread &&
	       (!what.context || lane->context == what.context) ? lane : NULL;
}

/* The same as one whose stream is gone. */
struct gck_cuda_lane *gck_cuda_lane_of_context(CUcontext context)
{
	struct gck_cuda_lane *lane = gck_cuda_lanes;

	while (lane && (lane->key || lane->context != context))
		lane = lane->next;
	if (lane || !gck_cuda_has((void *)gck_cuda_real.cuCtxRecordEvent))
		return lane;
	lane = calloc(1, sizeof *lane);
	if (!lane || gck_cuda_device_of(context, &lane->device)) {
		free(lane);
		return NULL;
	}
	lane->context = context;
	lane->next = gck_cuda_lanes;
	gck_cuda_lanes = lane;
	return lane;
}

/* ---- their end ------------------------------------------------------------------------------ */

void gck_cuda_lanes_stream_ends(CUstream stream, bool askable)
{
	const uint64_t *place = gck_cuda_set_get(&by_key, (uint64_t)(uintptr_t)stream);
	struct gck_cuda_lane *lane = place ? (struct gck_cuda_lane *)(uintptr_t)*place : NULL;

	if (!lane)
		return;
	if (lane->n && askable)
		gck_cuda_fence_set(lane);
	gck_cuda_set_drop(&by_key, lane->key);
	lane->key = 0;
	lane->stream = NULL;
}

void gck_cuda_lanes_tidy(void)
{
	for (struct gck_cuda_lane **at = &gck_cuda_lanes; *at;) {
		struct gck_cuda_lane *lane = *at;

		if (lane->n) {
			at = &lane->next;
			continue;
		}
		*at = lane->next;
		if (lane->key)
			gck_cuda_set_drop(&by_key, lane->key);
		gck_cuda_fence_end(lane);
		free(lane);
	}
}

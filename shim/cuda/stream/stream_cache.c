/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/stream/stream_cache.h"

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

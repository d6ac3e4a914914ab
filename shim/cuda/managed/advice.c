/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/managed/advice.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/managed/managed.h"

#define MOST 65536     /* of more advice the oldest is forgotten: that costs speed only */

static struct {
	pthread_mutex_t lock;
	struct gck_cuda_advice *v;        /* in the order of the calls */
	size_t n, capacity;
} recorded = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Advice of one kind replaces each other. */
static int kind(int advice)
{
	switch (advice) {
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		return CU_MEM_ADVISE_SET_READ_MOSTLY;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		return CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		return CU_MEM_ADVISE_SET_ACCESSED_BY;
	default:
		return advice;
	}
}

/* The advice that takes it back; GCK_CUDA_PREFETCHED: none is needed. */
static int opposite(int advice)
{
	switch (advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
		return CU_MEM_ADVISE_UNSET_READ_MOSTLY;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		return CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		return CU_MEM_ADVISE_UNSET_ACCESSED_BY;
	default:
		return GCK_CUDA_PREFETCHED;
	}
}

/* Whether the later advice replaces all of the earlier. */
static bool ends(const struct gck_cuda_advice *later, const struct gck_cuda_advice *earlier)
{
	return kind(later->advice) == kind(earlier->advice) &&
	       (kind(later->advice) != CU_MEM_ADVISE_SET_ACCESSED_BY ||
		(later->location.type == earlier->location.type &&
		 later->location.id == earlier->location.id)) &&
	       later->base <= earlier->base &&
	       later->base + later->size >= earlier->base + earlier->size;
}

static void drop(size_t i)
{
	recorded.n--;
	memmove(&recorded.v[i], &recorded.v[i + 1], (recorded.n - i) * sizeof *recorded.v);
}

static int grow(void)
{
	size_t capacity = recorded.capacity ? 2 * recorded.capacity : 16;
	struct gck_cuda_advice *v;

	if (recorded.n < recorded.capacity)
		return 0;
	if (recorded.n == MOST) {
		drop(0);
		return 0;
	}
	v = realloc(recorded.v, capacity * sizeof *v);
	if (!v)
		return -1;
	recorded.v = v;
	recorded.capacity = capacity;
	return 0;
}

void gck_cuda_advice_note(struct gck_cuda_advice w)
{
	struct gck_cuda_allocation a;

	if (!gck_cuda_managed_find(w.base, &a))
		return;
	pthread_mutex_lock(&recorded.lock);
	for (size_t i = recorded.n; i-- > 0;) {
		if (ends(&w, &recorded.v[i]))
			drop(i);
	}
	if (grow() == 0)
		recorded.v[recorded.n++] = w;
	pthread_mutex_unlock(&recorded.lock);
}

static bool is_within(const struct gck_cuda_advice *w, uint64_t base, uint64_t size)
{
	return w->base >= base && w->base - base < size;
}

void gck_cuda_advice_forget(uint64_t base, uint64_t size)
{
	pthread_mutex_lock(&recorded.lock);
	for (size_t i = recorded.n; i-- > 0;) {
		if (is_within(&recorded.v[i], base, size))
			drop(i);
	}
	pthread_mutex_unlock(&recorded.lock);
}

void gck_cuda_advice_undo(uint64_t base, uint64_t size)
{
	pthread_mutex_lock(&recorded.lock);
	for (size_t i = recorded.n; i-- > 0;) {
		const struct gck_cuda_advice *w = &recorded.v[i];

		if (!is_within(w, base, size))
			continue;
		if (opposite(w->advice) != GCK_CUDA_PREFETCHED)
			gck_cuda_real.cuMemAdvise_v2(
				w->base, w->size, (CUmem_advise)opposite(w->advice), w->location);
		drop(i);
	}
	pthread_mutex_unlock(&recorded.lock);
}

void gck_cuda_advice_repeat(uint64_t base, uint64_t size, CUstream stream)
{
	pthread_mutex_lock(&recorded.lock);
	for (size_t i = 0; i < recorded.n; i++) {
		const struct gck_cuda_advice *w = &recorded.v[i];

		if (!is_within(w, base, size))
			continue;
		if (w->advice == GCK_CUDA_PREFETCHED)
			gck_cuda_real.cuMemPrefetchAsync_v2(w->base, w->size, w->location, 0,
							    stream);
		else
			gck_cuda_real.cuMemAdvise_v2(w->base, w->size, (CUmem_advise)w->advice,
						     w->location);
	}
	pthread_mutex_unlock(&recorded.lock);
}

bool gck_cuda_advice_was_prefetched(uint64_t base, uint64_t size)
{
	bool sent = false;

	pthread_mutex_lock(&recorded.lock);
	for (size_t i = 0; !sent && i < recorded.n; i++) {
		const struct gck_cuda_advice *w = &recorded.v[i];

		sent = w->advice == GCK_CUDA_PREFETCHED && w->base < base + size &&
		       base < w->base + w->size;
	}
	pthread_mutex_unlock(&recorded.lock);
	return sent;
}

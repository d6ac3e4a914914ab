/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/snapshot/hash_modules.h"

#include "shim/cuda/real.h"

#define CONTEXTS 64

static struct {
	CUcontext context; /* NULL: free */
	struct gck_cuda_hasher hasher;
} loaded[CONTEXTS];

static unsigned snapshots;

const struct gck_cuda_hasher *gck_cuda_hasher_of(CUcontext context)
{
	for (int i = 0; i < CONTEXTS; i++) {
		if (loaded[i].context == context)
			return &loaded[i].hasher;
	}
	return NULL;
}

void gck_cuda_hashers_forget(CUcontext context)
{
	for (int i = 0; i < CONTEXTS; i++) {
		if (loaded[i].context == context)
			loaded[i].context = NULL;
	}
}

static void load(CUcontext context)
{
	struct gck_cuda_hasher hasher;
	int i = 0;

	while (i < CONTEXTS && loaded[i].context)
		i++;
	if (i == CONTEXTS || gck_cuda_real.cuCtxPushCurrent_v2(context))
		return;
	if (gck_cuda_hash_begin(&hasher, NULL) == 0) {
		loaded[i].hasher = hasher;
		loaded[i].context = context;
	}
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
}

void gck_cuda_hashers_load(const struct gck_cuda_snapshot *s)
{
	if (!s->nblocks || !snapshots++)
		return;
	for (size_t i = 0; i < s->nshares; i++) {
		if (s->shares[i].size && !gck_cuda_hasher_of(s->shares[i].context))
			load(s->shares[i].context);
	}
}

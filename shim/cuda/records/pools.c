/* SPDX-License-Identifier: Apache-2.0
 * Pools of stream-ordered memory, also those that devices have from the start: their settings, and
 * which is a device's present one. The driver is asked for these at a checkpoint. Memory of pools
 * is the stand-in's own, or named. */
#include "shim/cuda/records/records.h"

#include <stdlib.h>

#define REUSE 3 /* attributes 1 to 3 are kinds of reuse, then comes the threshold */

struct settings {
	int reuse[REUSE];
	cuuint64_t threshold;
	int n; /* devices */
	struct {
		CUmemAccess_flags access;
		bool is_present;
	} of[];
};

static CUmemoryPool pool_of(const struct gck_record *r)
{
	return (CUmemoryPool)(uintptr_t)r->now;
}

static CUmemLocation location_of(int device)
{
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

const char *gck_record_pool_unable(const struct gck_record *r)
{
	const CUmemPoolProps *p = r->lent ? NULL : r->made.copies[1];

	return p && (p->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || p->win32SecurityAttributes ||
		     p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		       ? "a pool of another kind" : NULL;
}

/* ---- settings -------------------------------------------------------------------------------- */

static CUresult ask(struct settings *s, CUmemoryPool pool)
{
	CUresult rc = gck_cuda_driver.cuMemPoolGetAttribute(
		pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &s->threshold);

	for (int i = 0; i < REUSE && !rc; i++)
		rc = gck_cuda_driver.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)(i + 1),
							   &s->reuse[i]);
	for (int d = 0; d < s->n && !rc; d++) {
		CUmemLocation location = location_of(d);
		CUmemoryPool present = NULL;

		rc = gck_cuda_driver.cuMemPoolGetAccess(&s->of[d].access, pool, &location);
		rc = rc ? rc : gck_cuda_driver.cuDeviceGetMemPool(&present, d);
		s->of[d].is_present = present == pool;
	}
	return rc;
}

CUresult gck_record_pool_save(struct gck_record *r)
{
	struct settings *s;
	CUresult rc;
	int n = 0;

	rc = gck_cuda_driver.cuDeviceGetCount(&n);
	if (rc)
		return rc;
	free(r->data);
	r->data = s = calloc(1, sizeof *s + (size_t)n * sizeof *s->of);
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->n = n;
	return ask(s, pool_of(r));
}

/* Access that the pool has anyway need not be given, and may not be. */
static CUresult allow(CUmemoryPool pool, int device, CUmemAccess_flags wanted)
{
	const CUmemAccessDesc access = {location_of(device), wanted};
	CUmemLocation location = location_of(device);
	CUmemAccess_flags has;
	CUresult rc = gck_cuda_driver.cuMemPoolGetAccess(&has, pool, &location);

	return rc || has == wanted ? rc : gck_cuda_driver.cuMemPoolSetAccess(pool, &access, 1);
}

CUresult gck_record_pool_set(struct gck_record *r)
{
	struct settings *s = r->data;
	CUresult rc = gck_cuda_driver.cuMemPoolSetAttribute(
		pool_of(r), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &s->threshold);

	for (int i = 0; i < REUSE && !rc; i++)
		rc = gck_cuda_driver.cuMemPoolSetAttribute(
			pool_of(r), (CUmemPool_attribute)(i + 1), &s->reuse[i]);
	for (int d = 0; d < s->n && !rc; d++) {
		rc = allow(pool_of(r), d, s->of[d].access);
		if (!rc && s->of[d].is_present)
			rc = gck_cuda_driver.cuDeviceSetMemPool(d, pool_of(r));
	}
	free(s);
	r->data = NULL;
	return rc;
}

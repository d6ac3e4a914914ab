/* SPDX-License-Identifier: Apache-2.0
 * Arrays with their contents, and textures and surfaces. The handle of one of these is a number
 * that may be stored on the device, so the fresh driver has to give the same. A mipmapped array has
 * its contents in levels, which are arrays that it lends: one that was never asked for has none. */
#include "shim/cuda/records/records.h"

#include <errno.h>
#include <stdlib.h>

#define MOST_TRIES 4096

/* ---- what they mean -------------------------------------------------------------------------- */

void gck_record_resource(CUDA_RESOURCE_DESC *d)
{
	const struct gck_record *r = NULL;

	if (d->resType == CU_RESOURCE_TYPE_ARRAY)
		r = gck_record_find(GCK_RECORD_ARRAY, (uintptr_t)d->res.array.hArray);
	else if (d->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		r = gck_record_find(GCK_RECORD_MIPMAP, (uintptr_t)d->res.mipmap.hMipmappedArray);
	if (r)
		d->res.array.hArray = (CUarray)(uintptr_t)r->now; /* at the same place */
}

void gck_record_resource_now(CUDA_RESOURCE_DESC *d)
{
	if (!atomic_load(&gck_records_age))
		return;
	gck_records_lock();
	gck_record_resource(d);
	gck_records_unlock();
}

void gck_record_resource_back(CUDA_RESOURCE_DESC *d)
{
	const struct gck_record *r = NULL;

	gck_records_lock();
	if (d->resType == CU_RESOURCE_TYPE_ARRAY)
		r = gck_record_find_now(GCK_RECORD_ARRAY, (uintptr_t)d->res.array.hArray);
	else if (d->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		r = gck_record_find_now(GCK_RECORD_MIPMAP,
					(uintptr_t)d->res.mipmap.hMipmappedArray);
	if (r)
		d->res.array.hArray = (CUarray)(uintptr_t)r->handle;
	gck_records_unlock();
}

static const char *texture_unable(const struct gck_record *r)
{
	const CUDA_RESOURCE_DESC *d = r->made.copies[1];
	const struct gck_record *array;

	if (d->resType == CU_RESOURCE_TYPE_LINEAR || d->resType == CU_RESOURCE_TYPE_PITCH2D)
		return gck_record_memory_usable(NULL, d->res.linear.devPtr)
			       ? NULL : "its memory is not mapped";
	array = gck_record_find(d->resType == CU_RESOURCE_TYPE_ARRAY ? GCK_RECORD_ARRAY
								     : GCK_RECORD_MIPMAP,
				(uintptr_t)d->res.array.hArray);
	return array && array->born < r->born ? NULL : "its array has ended";
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static size_t bytes_of(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

static bool is_known(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	const unsigned known = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
			       CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER;

	return !(d->Flags & ~known) && bytes_of(d->Format);
}

/* Its extents, none of which is 0, the width in bytes; 0: it is of a kind that is not known. */
static size_t size_of(const struct gck_record *r, CUDA_ARRAY3D_DESCRIPTOR *d)
{
	if (gck_cuda_driver.cuArray3DGetDescriptor_v2(d, (CUarray)(uintptr_t)r->now) ||
	    !is_known(d))
		return 0;
	d->Width *= d->NumChannels * bytes_of(d->Format);
	d->Height = d->Height ? d->Height : 1;
	d->Depth = d->Depth ? d->Depth : 1;
	return d->Width * d->Height * d->Depth;
}

CUresult gck_record_array_copy(struct gck_record *r, bool save)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUarray array = (CUarray)(uintptr_t)r->now;
	size_t size = size_of(r, &d);
	CUDA_MEMCPY3D c = {.srcMemoryType = save ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST,
			   .dstMemoryType = save ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY,
			   .srcArray = save ? array : NULL, .dstArray = save ? NULL : array};

	if (save) {
		free(r->data);
		r->data = malloc(size);
	}
	if (!r->data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c.WidthInBytes = c.srcPitch = c.dstPitch = d.Width;
	c.Height = c.srcHeight = c.dstHeight = d.Height;
	c.Depth = d.Depth;
	*(save ? &c.dstHost : (void **)&c.srcHost) = r->data;
	return gck_cuda_driver.cuMemcpy3D_v2(&c);
}

const char *gck_record_texture_unable(const struct gck_record *r)
{
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (r->kind == GCK_RECORD_MIPMAP)
		return is_known(r->made.copies[1]) ? NULL : "a mipmapped array of another kind";
	if (r->kind == GCK_RECORD_ARRAY)
		return size_of(r, &d) ? NULL : "an array of another kind";
	return texture_unable(r);
}

/* ---- making again ---------------------------------------------------------------------------- */

static void destroy(enum gck_record_kind kind, uint64_t handle)
{
	if (kind == GCK_RECORD_TEXTURE)
		gck_cuda_driver.cuTexObjectDestroy(handle);
	else
		gck_cuda_driver.cuSurfObjectDestroy(handle);
}

/* Those with other numbers are kept until the right one has come. */
CUresult gck_record_texture_make(const struct gck_record *r, uint64_t *now)
{
	uint64_t *others = malloc(MOST_TRIES * sizeof *others);
	CUresult rc = others ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	size_t n = 0;

	while (!rc && n < MOST_TRIES) {
		rc = gck_record_repeat(&r->made, r, now);
		if (rc || *now == r->handle)
			break;
		others[n++] = *now;
	}
	while (n)
		destroy(r->kind, others[--n]);
	free(others);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: arrays, also mipmapped ones, and the textures and surfaces that mean them or
 * memory. */
#include "test/support/driver/bodies.h"

#include <stdlib.h>
#include <string.h>

#define OBJECTS 4096 /* textures and surfaces; their handles are numbers, the lowest free one */

struct CUarray_st {
	struct CUarray_st *next;
	CUcontext context;
	CUDA_ARRAY3D_DESCRIPTOR about; /* no extent is 0 */
	size_t row;                    /* bytes */
	char *data;
	CUmipmappedArray mipmap;       /* of which it is a level */
};

struct CUmipmappedArray_st {
	struct CUmipmappedArray_st *next;
	CUcontext context;
	unsigned n;
	CUarray levels[32];
};

static struct CUarray_st *arrays;
static struct CUmipmappedArray_st *mipmaps;
static struct object {
	CUcontext context;             /* NULL: a free number */
	bool is_surface;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
} objects[OBJECTS];

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
	default:
		return 4;
	}
}

static CUresult may_make(const CUDA_ARRAY3D_DESCRIPTOR *about)
{
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	return !about->Width || !about->NumChannels || about->NumChannels > 4
		       ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUarray make(const CUDA_ARRAY3D_DESCRIPTOR *about, CUmipmappedArray mipmap)
{
	CUarray a = calloc(1, sizeof *a);

	a->context = fake_current();
	a->about = *about;
	a->mipmap = mipmap;
	a->row = about->Width * about->NumChannels * bytes_of(about->Format);
	a->data = calloc(about->Depth ? about->Depth : 1,
			 (about->Height ? about->Height : 1) * a->row);
	fake_lock();
	a->next = arrays;
	arrays = a;
	fake_unlock();
	return a;
}

CUresult fake_cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *about)
{
	CUresult rc = may_make(about);

	if (!rc)
		*array = make(about, NULL);
	return rc;
}

CUresult fake_cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *about)
{
	return fake_cuArray3DCreate_v2(array, &(const CUDA_ARRAY3D_DESCRIPTOR){
		about->Width, about->Height, 0, about->Format, about->NumChannels, 0});
}

/* With the lock. */
static struct CUarray_st **place_of(CUarray array)
{
	struct CUarray_st **at = &arrays;

	while (*at && *at != array)
		at = &(*at)->next;
	return at;
}

static bool is_array(CUarray array)
{
	bool is;

	fake_lock();
	is = *place_of(array) != NULL;
	fake_unlock();
	return is;
}

bool fake_is_array_on(CUarray array, CUdevice device)
{
	return is_array(array) && array->context->device == device;
}

static void end(CUarray array)
{
	*place_of(array) = array->next;
	free(array->data);
}

/* Its handle is not used again. A level ends with its mipmapped array. */
CUresult fake_cuArrayDestroy(CUarray array)
{
	bool found;

	fake_lock();
	found = *place_of(array) && !array->mipmap;
	if (found)
		end(array);
	fake_unlock();
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult fake_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *about, CUarray array)
{
	if (!is_array(array))
		return CUDA_ERROR_INVALID_HANDLE;
	*about = array->about;
	return CUDA_SUCCESS;
}

/* ---- mipmapped arrays ------------------------------------------------------------------------ */

/* Half of an extent in each level; not the number of layers. */
static size_t extent(size_t n, unsigned level)
{
	return n >> level || !n ? n >> level : 1;
}

/* The number of levels is that which the extents have, at most. */
CUresult fake_cuMipmappedArrayCreate(CUmipmappedArray *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *about,
				     unsigned int levels)
{
	bool layers = about->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	CUresult rc = may_make(about);
	CUmipmappedArray m;

	if (rc || !levels)
		return rc ? rc : CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof *m);
	m->context = fake_current();
	do {
		CUDA_ARRAY3D_DESCRIPTOR a = *about;

		a.Width = extent(a.Width, m->n);
		a.Height = extent(a.Height, m->n);
		a.Depth = layers ? a.Depth : extent(a.Depth, m->n);
		m->levels[m->n] = make(&a, m);
	} while (++m->n < levels && (about->Width >> m->n || about->Height >> m->n ||
				     (!layers && about->Depth >> m->n)));
	fake_lock();
	m->next = mipmaps;
	mipmaps = m;
	fake_unlock();
	*mipmap = m;
	return CUDA_SUCCESS;
}

/* With the lock. */
static struct CUmipmappedArray_st **place_of_mipmap(CUmipmappedArray mipmap)
{
	struct CUmipmappedArray_st **at = &mipmaps;

	while (*at && *at != mipmap)
		at = &(*at)->next;
	return at;
}

CUresult fake_cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmap, unsigned int level)
{
	CUresult rc;

	fake_lock();
	rc = !*place_of_mipmap(mipmap) ? CUDA_ERROR_INVALID_HANDLE
	     : level >= mipmap->n      ? CUDA_ERROR_INVALID_VALUE
				       : CUDA_SUCCESS;
	if (!rc)
		*array = mipmap->levels[level];
	fake_unlock();
	return rc;
}

CUresult fake_cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
	struct CUmipmappedArray_st **at;
	bool found;

	fake_lock();
	at = place_of_mipmap(mipmap);
	found = *at != NULL;
	for (unsigned i = 0; found && i < mipmap->n; i++)
		end(mipmap->levels[i]);
	if (found)
		*at = mipmap->next;
	fake_unlock();
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* The place of a row of a copy; NULL: it is not there. */
static char *row_of(CUmemorytype type, uint64_t at, CUarray array, size_t x, size_t y, size_t z,
		    size_t pitch, size_t height)
{
	if (type != CU_MEMORYTYPE_ARRAY)
		return (char *)(uintptr_t)at + x + pitch * (y + height * z);
	if (!is_array(array))
		return NULL;
	height = array->about.Height ? array->about.Height : 1;
	return array->data + x + array->row * (y + height * z);
}

static bool copy_row(const CUDA_MEMCPY3D *c, size_t y, size_t z)
{
	uint64_t source = c->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)c->srcHost
								  : c->srcDevice;
	uint64_t target = c->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)c->dstHost
								  : c->dstDevice;
	const char *from = row_of(c->srcMemoryType, source, c->srcArray, c->srcXInBytes,
				  c->srcY + y, c->srcZ + z, c->srcPitch, c->srcHeight);
	char *to = row_of(c->dstMemoryType, target, c->dstArray, c->dstXInBytes, c->dstY + y,
			  c->dstZ + z, c->dstPitch, c->dstHeight);

	if (from && to)
		memmove(to, from, c->WidthInBytes);
	return from && to;
}

void fake_copy_3d(const CUDA_MEMCPY3D *c)
{
	for (size_t z = 0; z < c->Depth; z++) {
		for (size_t y = 0; y < c->Height; y++)
			copy_row(c, y, z);
	}
}

static bool is_known(CUmemorytype type, CUarray array)
{
	return type == CU_MEMORYTYPE_HOST ||
	       (type == CU_MEMORYTYPE_ARRAY && is_array(array));
}

CUresult fake_cuMemcpy3D_v2(const CUDA_MEMCPY3D *c)
{
	if (!is_known(c->srcMemoryType, c->srcArray) || !is_known(c->dstMemoryType, c->dstArray))
		return CUDA_ERROR_INVALID_VALUE;
	fake_copy_3d(c);
	return fake_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- textures and surfaces ------------------------------------------------------------------- */

static bool is_there(const CUDA_RESOURCE_DESC *resource)
{
	bool is;

	if (resource->resType == CU_RESOURCE_TYPE_ARRAY)
		return is_array(resource->res.array.hArray);
	fake_lock();
	if (resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		is = *place_of_mipmap(resource->res.mipmap.hMipmappedArray);
	else
		is = resource->resType == CU_RESOURCE_TYPE_LINEAR &&
		     fake_find(resource->res.linear.devPtr);
	fake_unlock();
	return is;
}

static CUresult create(unsigned long long *handle, const struct object *o)
{
	unsigned n = 1;

	if (!o->context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (o->is_surface && o->resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_there(&o->resource))
		return CUDA_ERROR_INVALID_VALUE;
	fake_lock();
	while (n < OBJECTS && objects[n].context)
		n++;
	if (n < OBJECTS)
		objects[n] = *o;
	fake_unlock();
	*handle = n;
	return n < OBJECTS ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fake_cuTexObjectCreate(CUtexObject *texture, const CUDA_RESOURCE_DESC *resource,
				const CUDA_TEXTURE_DESC *about, const CUDA_RESOURCE_VIEW_DESC *view)
{
	const struct object o = {fake_current(), false, *resource, *about};

	return view ? CUDA_ERROR_NOT_SUPPORTED : create(texture, &o);
}

CUresult fake_cuSurfObjectCreate(CUsurfObject *surface, const CUDA_RESOURCE_DESC *resource)
{
	const struct object o = {.context = fake_current(), .is_surface = true,
				 .resource = *resource};

	return create(surface, &o);
}

/* NULL: there is none. */
static struct object *find(unsigned long long handle, bool is_surface)
{
	struct object *o = handle < OBJECTS ? &objects[handle] : NULL;

	return o && o->context && o->is_surface == is_surface ? o : NULL;
}

static CUresult destroy(unsigned long long handle, bool is_surface)
{
	struct object *o = find(handle, is_surface);

	if (o)
		o->context = NULL;
	return o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuTexObjectDestroy(CUtexObject texture)
{
	return destroy(texture, false);
}

CUresult fake_cuSurfObjectDestroy(CUsurfObject surface)
{
	return destroy(surface, true);
}

static CUresult get_resource(CUDA_RESOURCE_DESC *resource, const struct object *o)
{
	if (o)
		*resource = o->resource;
	return o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUtexObject texture)
{
	return get_resource(resource, find(texture, false));
}

CUresult fake_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUsurfObject surface)
{
	return get_resource(resource, find(surface, true));
}

CUresult fake_cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *about, CUtexObject texture)
{
	const struct object *o = find(texture, false);

	if (o)
		*about = o->texture;
	return o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void fake_context_arrays_end(CUcontext context)
{
	struct CUarray_st **at = &arrays;

	while (*at) {
		struct CUarray_st *a = *at;

		if (a->context == context) {
			*at = a->next;
			free(a->data);
		} else {
			at = &a->next;
		}
	}
	for (struct CUmipmappedArray_st **m = &mipmaps; *m;) {
		if ((*m)->context == context)
			*m = (*m)->next;
		else
			m = &(*m)->next;
	}
	for (int i = 0; i < OBJECTS; i++) {
		if (objects[i].context == context)
			objects[i].context = NULL;
	}
}

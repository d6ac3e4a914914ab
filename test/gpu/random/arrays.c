/* SPDX-License-Identifier: Apache-2.0
 * Arrays and mipmapped ones; textures and surfaces that mean them, or memory. */
#include <string.h>

#include "test/gpu/random/random.h"

#define LARGEST (16 * 16 * 8) /* elements of an array */

static uint32_t data[LARGEST];

/* ---- arrays ---------------------------------------------------------------------------------- */

static size_t many(unsigned n)
{
	return n ? n : 1;
}

static size_t elements(int i)
{
	const unsigned *n = objects[i].extent;

	return many(n[0]) * many(n[1]) * many(n[2]);
}

/* All of it. */
static CUDA_MEMCPY3D whole(int i)
{
	const unsigned *n = objects[i].extent;
	CUDA_MEMCPY3D c = {.WidthInBytes = 4 * many(n[0]), .Height = many(n[1]),
			   .Depth = many(n[2])};

	c.srcPitch = c.dstPitch = c.WidthInBytes;
	c.srcHeight = c.dstHeight = c.Height;
	return c;
}

static void fill(int i)
{
	CUDA_MEMCPY3D c = whole(i);
	unsigned first = draw(1u << 20);

	for (size_t k = 0; k < elements(i); k++)
		data[k] = first + 7 * (uint32_t)k;
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = data;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = H(CUarray, i);
	DO(cuMemcpy3D, &c);
	DO(cuCtxSynchronize);
}

static void look_at(int i)
{
	CUDA_MEMCPY3D c;

	if (i < 0)
		return;
	c = whole(i);
	memset(data, 0, sizeof data);
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	c.srcArray = H(CUarray, i);
	c.dstMemoryType = CU_MEMORYTYPE_HOST;
	c.dstHost = data;
	if (!DO(cuMemcpy3D, &c))
		say("array of %u %u %u: %016llx", objects[i].extent[0], objects[i].extent[1],
		    objects[i].extent[2],
		    (unsigned long long)digest_of(data, 4 * elements(i)));
}

static void look(void)
{
	int i = any_here(ARRAY);
	CUDA_ARRAY3D_DESCRIPTOR d = {0};

	look_at(i);
	if (i >= 0 && !DO(cuArray3DGetDescriptor, &d, H(CUarray, i)))
		say("%zu %zu %zu, format %d, %u channels, flags %u", d.Width, d.Height, d.Depth,
		    (int)d.Format, d.NumChannels, d.Flags);
}

void array_digests(void)
{
	for (int i = 0; i < n_objects; i++) {
		if (is(i, ARRAY) && be_in(objects[i].context)) {
			look_at(i);
			be_back();
		}
	}
}

/* `flag`: surfaces may mean it. */
static void create(void)
{
	const unsigned w = 1 + draw(16), h = draw(3) ? 1 + draw(16) : 0, d = h ? draw(5) : 0;
	const unsigned flags = draw(4) ? CUDA_ARRAY3D_SURFACE_LDST : 0;
	const CUDA_ARRAY3D_DESCRIPTOR about = {w, h, d, CU_AD_FORMAT_UNSIGNED_INT32, 1, flags};
	const CUDA_ARRAY_DESCRIPTOR flat = {w, h, CU_AD_FORMAT_UNSIGNED_INT32, 1};
	CUarray a = NULL;
	int i;

	if (d || flags ? DO(cuArray3DCreate, &a, &about) : DO(cuArrayCreate, &a, &flat))
		return;
	i = hold(ARRAY, a, current());
	if (i < 0)
		return;
	memcpy(objects[i].extent, (const unsigned[]){w, h, d}, sizeof objects[i].extent);
	objects[i].flag = flags != 0;
	fill(i);
}

/* A texture of it is ended first, in most cases. */
static void destroy(void)
{
	int i = any_here(ARRAY);

	if (i < 0 || draw(2) || is(objects[i].of, MIPMAP) || DO(cuArrayDestroy, H(CUarray, i)))
		return;
	end(i);
	if (draw(8))
		tidy_textures();
	tidy_graphs();
}

/* Between an array and memory. */
static void copy(void)
{
	int i = any_here(ARRAY), m = any_memory(), s = any_here(STREAM);
	bool back = draw(2);
	CUDA_MEMCPY3D c;

	if (i < 0 || m < 0)
		return;
	c = whole(i);
	c.WidthInBytes = 4 * (1 + draw(objects[i].extent[0]));
	c.Height = c.Depth = 1;
	*(back ? &c.srcMemoryType : &c.dstMemoryType) = CU_MEMORYTYPE_ARRAY;
	*(back ? &c.srcArray : &c.dstArray) = H(CUarray, i);
	*(back ? &c.dstMemoryType : &c.srcMemoryType) = CU_MEMORYTYPE_UNIFIED;
	*(back ? &c.dstDevice : &c.srcDevice) = H(CUdeviceptr, m);
	*(back ? &c.dstPitch : &c.srcPitch) = LEAST;
	switch (draw(4)) {
	case 0:
		DO(cuMemcpy3DAsync, &c, H(CUstream, s));
		break;
	case 1:
		if (back && objects[i].extent[1] == 0)
			DO(cuMemcpyAtoD, H(CUdeviceptr, m), H(CUarray, i), 0, c.WidthInBytes);
		else if (objects[i].extent[1] == 0)
			DO(cuMemcpyDtoA, H(CUarray, i), 0, H(CUdeviceptr, m), c.WidthInBytes);
		break;
	default:
		DO(cuMemcpy3D, &c);
		break;
	}
	DO(cuCtxSynchronize);
}

/* ---- mipmapped arrays ------------------------------------------------------------------------ */

static void get_level(int i, unsigned level)
{
	const unsigned *n;
	CUarray a = NULL;
	int k;

	if (i < 0 || DO(cuMipmappedArrayGetLevel, &a, H(CUmipmappedArray, i), level))
		return;
	n = objects[i].extent;
	k = find(ARRAY, a);
	say("known %d", k >= 0);
	if (k >= 0)
		return;
	k = hold(ARRAY, a, i);
	if (k < 0)
		return;
	objects[k].extent[0] = n[0] >> level ? n[0] >> level : 1;
	objects[k].extent[1] = n[1] >> level ? n[1] >> level : 1;
	objects[k].flag = true;
	fill(k);
}

/* All levels are filled. `uses`: how many there are. */
static void create_mipmap(void)
{
	const unsigned w = 4 + draw(13), h = 4 + draw(13), levels = 1 + draw(3);
	const CUDA_ARRAY3D_DESCRIPTOR about = {w, h, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1,
					       CUDA_ARRAY3D_SURFACE_LDST};
	CUmipmappedArray m = NULL;
	int i;

	if (DO(cuMipmappedArrayCreate, &m, &about, levels))
		return;
	i = hold(MIPMAP, m, current());
	if (i < 0)
		return;
	memcpy(objects[i].extent, (const unsigned[]){w, h, 0}, sizeof objects[i].extent);
	objects[i].uses = levels;
	for (unsigned k = 0; k < levels; k++)
		get_level(i, k);
}

static void destroy_mipmap(void)
{
	int i = any_here(MIPMAP);

	if (i < 0 || draw(2) || DO(cuMipmappedArrayDestroy, H(CUmipmappedArray, i)))
		return;
	end(i);
	tidy_textures();
	tidy_graphs();
}

static void get_any_level(void)
{
	get_level(any_here(MIPMAP), draw(4));
}

/* ---- textures and surfaces ------------------------------------------------------------------- */

static CUDA_RESOURCE_DESC resource_of(int i)
{
	CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_LINEAR};

	if (is(i, ARRAY)) {
		d.resType = CU_RESOURCE_TYPE_ARRAY;
		d.res.array.hArray = H(CUarray, i);
	} else if (is(i, MIPMAP)) {
		d.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
		d.res.mipmap.hMipmappedArray = H(CUmipmappedArray, i);
	} else {
		d.res.linear.devPtr = H(CUdeviceptr, i);
		d.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
		d.res.linear.numChannels = 1;
		d.res.linear.sizeInBytes = LEAST;
	}
	return d;
}

static int any_resource(void)
{
	unsigned n = draw(8);

	return any_here(n < 4 ? ARRAY : n < 6 ? MIPMAP : n < 7 ? MEMORY : MAPPING);
}

/* No element is a mean of others. */
static void create_texture(void)
{
	int on = any_resource(), i;
	CUDA_TEXTURE_DESC about = {.filterMode = CU_TR_FILTER_MODE_POINT,
				   .flags = CU_TRSF_READ_AS_INTEGER,
				   .maxAnisotropy = draw(16)};
	CUDA_RESOURCE_DESC resource;
	CUtexObject t = 0;

	if (on < 0 || (is(on, MAPPING) && !objects[on].flag))
		return;
	for (int k = 0; k < 3; k++)
		about.addressMode[k] = CU_TR_ADDRESS_MODE_CLAMP;
	if (is(on, MIPMAP)) {
		about.flags |= CU_TRSF_NORMALIZED_COORDINATES;
		about.maxMipmapLevelClamp = (float)(objects[on].uses - 1);
	}
	resource = resource_of(on);
	if (DO(cuTexObjectCreate, &t, &resource, &about, NULL))
		return;
	i = hold_number(TEXTURE, t, current());
	if (i >= 0)
		objects[i].on = on;
}

static void create_surface(void)
{
	int on = any_here(ARRAY), i;
	CUDA_RESOURCE_DESC resource;
	CUsurfObject s = 0;

	if (on < 0 || !objects[on].flag)
		return;
	resource = resource_of(on);
	if (DO(cuSurfObjectCreate, &s, &resource))
		return;
	i = hold_number(SURFACE, s, current());
	if (i >= 0)
		objects[i].on = on;
}

static void destroy_one(int i)
{
	if (is(i, TEXTURE) ? DO(cuTexObjectDestroy, H(CUtexObject, i))
			   : DO(cuSurfObjectDestroy, H(CUsurfObject, i)))
		return;
	end(i);
}

static void destroy_texture(void)
{
	int i = any_here(draw(2) ? TEXTURE : SURFACE);

	if (i >= 0 && draw(2))
		destroy_one(i);
}

static void end_textures(int context, bool all)
{
	for (int i = 0; i < n_objects; i++) {
		if (!is(i, TEXTURE) && !is(i, SURFACE))
			continue;
		if ((context >= 0 && objects[i].context != context) ||
		    (!all && objects[objects[i].on].alive) || !be_in(objects[i].context))
			continue;
		destroy_one(i);
		be_back();
	}
}

void tidy_textures(void)
{
	end_textures(-1, false);
}

void end_textures_of(int context)
{
	end_textures(context, true);
}

static void look_at_texture(void)
{
	int i = any_here(draw(2) ? TEXTURE : SURFACE);
	CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC about = {.flags = 0};

	if (i < 0)
		return;
	if (!(is(i, TEXTURE) ? DO(cuTexObjectGetResourceDesc, &d, H(CUtexObject, i))
			     : DO(cuSurfObjectGetResourceDesc, &d, H(CUsurfObject, i))))
		say("type %d, of the same %d", (int)d.resType,
		    !objects[objects[i].on].alive ||
			    (uintptr_t)d.res.array.hArray == objects[objects[i].on].handle);
	if (is(i, TEXTURE) && !DO(cuTexObjectGetTextureDesc, &about, H(CUtexObject, i)))
		say("flags %u, anisotropy %u", about.flags, about.maxAnisotropy);
}

/* Which kernel reads what a texture means. */
static int reader_of(int i)
{
	const unsigned *n = objects[objects[i].on].extent;

	if (is(i, SURFACE))
		return n[1] && !n[2] ? PAINT : -1;
	if (objects[objects[i].on].kind == MIPMAP)
		return LEVEL;
	if (objects[objects[i].on].kind != ARRAY)
		return LINEAR;
	return n[2] ? BODY : n[1] ? PLANE : LINE;
}

/* One byte for each coordinate, or for the level. */
static uint64_t any_element(int i)
{
	const unsigned *n = objects[objects[i].on].extent;

	if (objects[objects[i].on].kind == MIPMAP)
		return (uint64_t)draw(objects[objects[i].on].uses) << 16;
	if (objects[objects[i].on].kind != ARRAY)
		return draw(LEAST / 4);
	return draw(n[0]) | draw((unsigned)many(n[1])) << 8 | draw((unsigned)many(n[2])) << 16;
}

static void use_texture(void)
{
	int i = any_here(draw(3) ? TEXTURE : SURFACE), s = any_here(STREAM);
	struct launch l;

	if (i < 0 || !objects[objects[i].on].alive || reader_of(i) < 0 ||
	    !choose_launch(&l, reader_of(i)))
		return;
	l.arguments[1] = objects[i].handle;
	l.arguments[2] = any_element(i);
	launch(&l, 0, H(CUstream, s));
	finish(s);
}

void array_step(void)
{
	static void (*const steps[])(void) = {
		create, create, create, destroy, copy, copy, look, look, create_mipmap,
		destroy_mipmap, get_any_level, create_texture, create_texture, create_texture,
		create_surface, create_surface, destroy_texture, look_at_texture, look_at_texture,
		use_texture, use_texture, use_texture, use_texture};

	steps[draw(sizeof steps / sizeof *steps)]();
}

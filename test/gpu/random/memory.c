/* SPDX-License-Identifier: Apache-2.0
 * Memory of all kinds: allocated, pinned, mapped, ordered by streams; copies and fills. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "test/gpu/random/random.h"

#define LARGE ((size_t)3 << 20)
#define PARTS 4 /* of a reservation */

static size_t granule;
static unsigned char *buffer; /* of the program, as large as the largest memory */
static size_t buffer_size;

/* ---- all kinds ------------------------------------------------------------------------------- */

static bool is_memory(int i)
{
	return is(i, MEMORY) || is(i, MANAGED) || is(i, HOST) || is(i, ORDERED) ||
	       (is(i, MAPPING) && objects[i].flag);
}

bool are_alike(int i, int k)
{
	return i == k || (is(i, MAPPING) && is(k, MAPPING) && objects[i].on == objects[k].on);
}

int any_other_memory(int but, int nor)
{
	unsigned n = 0;
	int found = -1;

	for (int i = 0; i < n_objects && current() >= 0; i++) {
		if (is_memory(i) && objects[i].context == current() && !are_alike(i, but) &&
		    !are_alike(i, nor) && draw(++n) == 0)
			found = i;
	}
	return found;
}

int any_memory(void)
{
	return any_other_memory(-1, -1);
}

static void *room(size_t size)
{
	if (size > buffer_size) {
		buffer = realloc(buffer, size);
		buffer_size = size;
	}
	return buffer;
}

static size_t any_size(void)
{
	return draw(16) ? LEAST << draw(8) | 8 * draw(50) : LARGE + 4096 * draw(100);
}

/* Nothing is left as it was found. */
static void fill(int i)
{
	DO(cuMemsetD8, H(CUdeviceptr, i), (unsigned char)draw(256), objects[i].size);
	DO(cuMemsetD32, H(CUdeviceptr, i), draw(1u << 30), 16 + draw(16));
	DO(cuCtxSynchronize);
}

static void look_at(int i)
{
	void *data;

	if (i < 0)
		return;
	data = room(objects[i].size);
	memset(data, 0, objects[i].size);
	if (!DO(cuMemcpyDtoH, data, H(CUdeviceptr, i), objects[i].size))
		say("kind %d, %zu bytes: %016llx", (int)objects[i].kind, objects[i].size,
		    (unsigned long long)digest_of(data, objects[i].size));
}

static void look(void)
{
	int i = any_memory();
	CUdeviceptr base = 0;
	unsigned type = 0;
	size_t size = 0;

	look_at(i);
	if (i < 0)
		return;
	if (!DO(cuMemGetAddressRange, &base, &size, H(CUdeviceptr, i) + 8 * draw(60)))
		say("begins %llu before, %zu bytes",
		    (unsigned long long)(objects[i].handle - base), size);
	if (!DO(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, H(CUdeviceptr, i)))
		say("type %u", type);
	if (!DO(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_IS_MANAGED, H(CUdeviceptr, i)))
		say("managed %u", type & 0xff);
}

void memory_digests(void)
{
	for (int i = 0; i < n_objects; i++) {
		if (is_memory(i) && be_in(objects[i].context)) {
			look_at(i);
			be_back();
		}
	}
}

/* ---- allocations ----------------------------------------------------------------------------- */

static int add_memory(enum kind kind, uint64_t at, size_t size)
{
	int i = hold_number(kind, at, current());

	if (i >= 0) {
		objects[i].size = size;
		fill(i);
	}
	return i;
}

static void allocate(void)
{
	size_t size = any_size();
	CUdeviceptr at = 0;

	if (!DO(cuMemAlloc, &at, size))
		add_memory(MEMORY, at, size);
}

static void allocate_rows(void)
{
	size_t pitch = 0, width = 512 + 4 * draw(500), height = 1 + draw(30);
	CUdeviceptr at = 0;
	int i;

	if (DO(cuMemAllocPitch, &at, &pitch, width, height, 4u << draw(3)))
		return;
	say("pitch %zu", pitch);
	i = add_memory(MEMORY, at, pitch * height);
	if (i >= 0)
		objects[i].pitch = pitch;
}

static void free_any(void)
{
	int i = any_here(MEMORY);

	if (i >= 0 && draw(3) && !DO(cuMemFree, H(CUdeviceptr, i))) {
		end(i);
		tidy_textures();
		tidy_graphs();
	}
}

static void allocate_managed(void)
{
	size_t size = any_size();
	CUdeviceptr at = 0;

	if (!DO(cuMemAllocManaged, &at, size, CU_MEM_ATTACH_GLOBAL))
		add_memory(MANAGED, at, size);
}

/* The host writes and reads it. */
static void use_managed(void)
{
	int i = any_here(draw(2) ? MANAGED : HOST);
	uint64_t *p = H(uint64_t *, i);

	if (i < 0)
		return;
	DO(cuCtxSynchronize);
	p[draw(LEAST / 8)] += draw(1000);
	say("by the host: %016llx", (unsigned long long)digest_of(p, objects[i].size));
}

static void free_managed(void)
{
	int i = any_here(MANAGED);

	if (i >= 0 && draw(2) && !DO(cuMemFree, H(CUdeviceptr, i))) {
		end(i);
		tidy_graphs();
	}
}

/* ---- pinned memory of the host --------------------------------------------------------------- */

static void pin(void)
{
	size_t size = 4096 * (size_t)(1 + draw(40));
	bool own = draw(2);
	unsigned flags = draw(4);
	void *at = NULL;
	int i;

	if (own) {
		at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (DO(cuMemHostRegister, at, size, flags)) {
			munmap(at, size);
			return;
		}
	} else if (flags ? DO(cuMemHostAlloc, &at, size, flags) : DO(cuMemAllocHost, &at, size)) {
		return;
	}
	i = hold(HOST, at, current());
	if (i < 0)
		return;
	objects[i].size = size;
	objects[i].flag = own;
	memset(at, (int)draw(256), size);
}

void give_back(int i)
{
	if (objects[i].flag ? DO(cuMemHostUnregister, H(void *, i))
			    : DO(cuMemFreeHost, H(void *, i)))
		return;
	if (objects[i].flag)
		munmap(H(void *, i), objects[i].size);
	end(i);
}

static void unpin(void)
{
	int i = any_here(HOST);

	if (i >= 0 && draw(2)) {
		give_back(i);
		tidy_graphs();
	}
}

static void look_at_pinned(void)
{
	int i = any_here(HOST);
	CUdeviceptr at = 0;
	unsigned flags = 0;

	if (i < 0)
		return;
	if (!DO(cuMemHostGetFlags, &flags, H(void *, i)))
		say("flags 0x%x", flags);
	if (!DO(cuMemHostGetDevicePointer, &at, H(void *, i), 0))
		say("at the same place %d", at == H(CUdeviceptr, i));
}

/* ---- copies and fills ------------------------------------------------------------------------ */

/* `rows` of `width` bytes, in both of them. */
static CUDA_MEMCPY3D shape(int to, int from, size_t width, size_t rows)
{
	size_t pitch = width + 8 * draw(4);

	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcPitch = pitch,
			       .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstPitch = width,
			       .srcDevice = H(CUdeviceptr, from), .dstDevice = H(CUdeviceptr, to),
			       .srcHeight = rows, .dstHeight = rows, .WidthInBytes = width,
			       .Height = rows, .Depth = 1};
}

static CUresult copy_rows(int to, int from, CUstream s)
{
	/* 7 rows of 64 bytes at most fit into LEAST with their gaps. */
	size_t width = 8 * (1 + draw(4)), rows = 1 + draw(7);
	CUDA_MEMCPY3D c = shape(to, from, width, rows);
	CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcPitch = c.srcPitch,
			      .srcDevice = c.srcDevice, .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
			      .dstDevice = c.dstDevice, .dstPitch = c.dstPitch,
			      .WidthInBytes = width, .Height = rows};

	switch (draw(5)) {
	case 0:
		return DO(cuMemcpy2D, &flat);
	case 1:
		return DO(cuMemcpy2DUnaligned, &flat);
	case 2:
		return DO(cuMemcpy2DAsync, &flat, s);
	case 3:
		return DO(cuMemcpy3DAsync, &c, s);
	default:
		return DO(cuMemcpy3D, &c);
	}
}

static CUresult copy_bytes(int to, int from, CUstream s)
{
	size_t most = objects[to].size < objects[from].size ? objects[to].size : objects[from].size;
	size_t n = draw(4) ? LEAST / 2 + draw(100) : most, gap = n < most - 64 ? 8 * draw(8) : 0;
	CUdeviceptr a = H(CUdeviceptr, to) + gap, b = H(CUdeviceptr, from) + gap;

	switch (draw(4)) {
	case 0:
		return DO(cuMemcpy, a, b, n);
	case 1:
		return DO(cuMemcpyAsync, a, b, n, s);
	case 2:
		return DO(cuMemcpyDtoD, a, b, n);
	default:
		return DO(cuMemcpyDtoDAsync, a, b, n, s);
	}
}

static void copy(void)
{
	int to = any_memory(), from = any_other_memory(to, -1), s = any_here(STREAM);

	if (from < 0)
		return;
	if (draw(3))
		copy_bytes(to, from, H(CUstream, s));
	else
		copy_rows(to, from, H(CUstream, s));
	DO(cuStreamSynchronize, NULL);
	finish(s);
}

/* From the program's own memory and back. */
static void copy_from_host(void)
{
	int i = any_memory(), s = any_here(STREAM);
	uint64_t words[LEAST / 8];

	if (i < 0)
		return;
	for (size_t k = 0; k < LEAST / 8; k++)
		words[k] = draw(1u << 30);
	if (draw(2))
		DO(cuMemcpyHtoD, H(CUdeviceptr, i), words, LEAST - 8 * draw(30));
	else
		DO(cuMemcpyHtoDAsync, H(CUdeviceptr, i), words, LEAST, H(CUstream, s));
	DO(cuStreamSynchronize, H(CUstream, s));
	DO(cuCtxSynchronize);
	memset(words, 0, sizeof words);
	if (!DO(cuMemcpyDtoHAsync, words, H(CUdeviceptr, i), LEAST, H(CUstream, s)) &&
	    !DO(cuStreamSynchronize, H(CUstream, s)))
		say("read %016llx", (unsigned long long)digest_of(words, LEAST));
}

static void set(void)
{
	int i = any_memory(), s = any_here(STREAM);
	CUdeviceptr at = H(CUdeviceptr, i) + 8 * draw(8);
	unsigned value = draw(1u << 30), n = 1 + draw(50);
	CUstream stream = H(CUstream, s);

	if (i < 0)
		return;
	switch (draw(8)) {
	case 0:
		DO(cuMemsetD8, at, (unsigned char)value, n);
		break;
	case 1:
		DO(cuMemsetD16, at, (unsigned short)value, n);
		break;
	case 2:
		DO(cuMemsetD32, at, value, n);
		break;
	case 3:
		DO(cuMemsetD8Async, at, (unsigned char)value, n, stream);
		break;
	case 4:
		DO(cuMemsetD16Async, at, (unsigned short)value, n, stream);
		break;
	case 5:
		DO(cuMemsetD32Async, at, value, n, stream);
		break;
	case 6:
		DO(cuMemsetD2D8, at, 64, (unsigned char)value, 1 + draw(50), 1 + draw(7));
		break;
	default:
		DO(cuMemsetD2D32Async, at, 64, value, 1 + draw(12), 1 + draw(7), stream);
		break;
	}
	DO(cuStreamSynchronize, NULL);
	finish(s);
}

void memory_step(void)
{
	static void (*const steps[])(void) = {
		allocate, allocate, allocate, allocate_rows, free_any, free_any, allocate_managed,
		use_managed, use_managed, free_managed, pin, unpin, look_at_pinned, copy, copy,
		copy, copy, copy_from_host, set, set, look, look};

	steps[draw(sizeof steps / sizeof *steps)]();
}

/* ---- the program's own mappings -------------------------------------------------------------- */

static void reserve(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUdeviceptr at = 0;

	if (!granule) {
		DO(cuMemGetAllocationGranularity, &granule, &prop,
		   CU_MEM_ALLOC_GRANULARITY_MINIMUM);
		say("granularity %zu", granule);
	}
	if (any(RESERVATION) >= 0 && draw(3))
		return;
	if (!DO(cuMemAddressReserve, &at, PARTS * granule, 0, 0, 0))
		hold_number(RESERVATION, at, -1);
}

static void free_reservation(void)
{
	int i = any(RESERVATION);

	if (i >= 0 && draw(3) == 0 && any_of(MAPPING, i) < 0 &&
	    !DO(cuMemAddressFree, H(CUdeviceptr, i), PARTS * granule))
		end(i);
}

static void create(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle h = 0;

	if (granule && !DO(cuMemCreate, &h, granule, &prop, 0))
		hold_number(PHYSICAL, h, -1);
}

static bool is_mapped(CUdeviceptr at)
{
	for (int i = 0; i < n_objects; i++) {
		if (is(i, MAPPING) && objects[i].handle == at)
			return true;
	}
	return false;
}

/* `flag` of a mapping: there is access to it. `size` of memory: it has been filled. */
static void open_mapping(int i)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	int p = i < 0 ? -1 : objects[i].on;

	if (p < 0 || objects[i].flag || current() < 0 ||
	    DO(cuMemSetAccess, H(CUdeviceptr, i), granule, &access, 1))
		return;
	objects[i].context = current();
	if (!objects[p].size)
		fill(i);
	objects[p].size = granule;
	objects[i].flag = true;
}

static void open_any(void)
{
	open_mapping(any(MAPPING));
}

static void map(void)
{
	int r = any(RESERVATION), p = any(PHYSICAL), i;
	CUdeviceptr at = H(CUdeviceptr, r) + granule * draw(PARTS);

	if (r < 0 || p < 0 || is_mapped(at) ||
	    DO(cuMemMap, at, granule, 0, H(CUmemGenericAllocationHandle, p), 0))
		return;
	i = hold_number(MAPPING, at, r);
	if (i < 0)
		return;
	objects[i].on = p;
	objects[i].size = granule;
	if (draw(4))
		open_mapping(i);
}

/* Mappings of it stay. */
static void release(void)
{
	int i = any(PHYSICAL);

	if (i >= 0 && draw(2) && !DO(cuMemRelease, H(CUmemGenericAllocationHandle, i)))
		end(i);
}

static void retain(void)
{
	CUmemGenericAllocationHandle h = 0;
	int i = any(MAPPING);

	if (i < 0 || DO(cuMemRetainAllocationHandle, &h, (void *)H(uintptr_t, i)))
		return;
	say("the same %d", objects[objects[i].on].handle == h);
	DO(cuMemRelease, h);
}

static void unmap(void)
{
	int i = any(MAPPING);

	if (i < 0 || draw(2))
		return;
	DO(cuCtxSynchronize);
	if (!DO(cuMemUnmap, H(CUdeviceptr, i), granule)) {
		end(i);
		tidy_textures();
		tidy_graphs();
	}
}

static void look_at_mapping(void)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	unsigned long long flags = 0;
	int i = any(MAPPING);

	if (i >= 0 && !DO(cuMemGetAccess, &flags, &location, H(CUdeviceptr, i)))
		say("access %llu", flags);
}

void mapping_step(void)
{
	static void (*const steps[])(void) = {reserve, free_reservation, create, map, map, map,
					      open_any, release, retain, unmap, look_at_mapping};

	steps[draw(sizeof steps / sizeof *steps)]();
}

/* ---- pools and stream-ordered memory --------------------------------------------------------- */

static void create_pool(void)
{
	const CUmemPoolProps about = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool p = NULL;

	if (!DO(cuMemPoolCreate, &p, &about))
		hold(POOL, p, -1);
}

/* Its memory is freed first. */
static void destroy_pool(void)
{
	int i = any(POOL);

	if (i < 0 || objects[i].flag || draw(2))
		return;
	for (int k = 0; k < n_objects; k++) {
		if (is(k, ORDERED) && objects[k].on == i)
			return;
	}
	if (!DO(cuMemPoolDestroy, H(CUmemoryPool, i)))
		end(i);
}

/* `flag`: the device's own. */
static void get_pool(void)
{
	CUmemoryPool own = NULL, now = NULL;
	int i;

	if (DO(cuDeviceGetDefaultMemPool, &own, 0) || DO(cuDeviceGetMemPool, &now, 0))
		return;
	i = find(POOL, own);
	if (i < 0)
		i = hold(POOL, own, -1);
	if (i >= 0)
		objects[i].flag = true;
	say("the present pool %d", find(POOL, now));
}

static void set_pool(void)
{
	static const CUmemPool_attribute which[] = {
		CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
		CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
		CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
		CU_MEMPOOL_ATTR_RELEASE_THRESHOLD};
	CUmemAccess_flags access = 0;
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	unsigned k = draw(4);
	cuuint64_t value = k < 3 ? draw(2) : (cuuint64_t)draw(1 << 20) << 10;
	int small = (int)value, i = any(POOL);

	if (i < 0)
		return;
	if (draw(2))
		DO(cuMemPoolSetAttribute, H(CUmemoryPool, i), which[k],
		   k < 3 ? (void *)&small : &value);
	value = 0;
	if (!DO(cuMemPoolGetAttribute, H(CUmemoryPool, i), which[k], &value))
		say("setting %u: %llu", k, (unsigned long long)value);
	if (!DO(cuMemPoolGetAccess, &access, H(CUmemoryPool, i), &location))
		say("access %d", (int)access);
	if (draw(3) == 0)
		DO(cuDeviceSetMemPool, 0, H(CUmemoryPool, i));
	if (draw(4) == 0)
		DO(cuMemPoolTrimTo, H(CUmemoryPool, i), 0);
}

static void allocate_ordered(void)
{
	int s = any_here(STREAM), p = any(POOL), i;
	size_t size = any_size();
	CUdeviceptr at = 0;
	bool from = p >= 0 && draw(2);

	if (s < 0 || (from ? DO(cuMemAllocFromPoolAsync, &at, size, H(CUmemoryPool, p),
				H(CUstream, s))
			   : DO(cuMemAllocAsync, &at, size, H(CUstream, s))))
		return;
	DO(cuMemsetD8Async, at, (unsigned char)draw(256), size, H(CUstream, s));
	i = hold_number(ORDERED, at, current());
	if (i < 0)
		return;
	objects[i].size = size;
	objects[i].on = from ? p : -1;
	finish(s);
}

static void free_ordered(void)
{
	int i = any_here(ORDERED), s = any_here(STREAM);

	if (i < 0 || (s >= 0 && draw(4) ? DO(cuMemFreeAsync, H(CUdeviceptr, i), H(CUstream, s))
					: DO(cuMemFree, H(CUdeviceptr, i))))
		return;
	end(i);
	tidy_graphs();
	finish(s);
}

void pool_step(void)
{
	static void (*const steps[])(void) = {create_pool, destroy_pool, get_pool, set_pool,
					      set_pool, allocate_ordered, allocate_ordered,
					      allocate_ordered, free_ordered, free_ordered};

	steps[draw(sizeof steps / sizeof *steps)]();
}

/* ---- the end --------------------------------------------------------------------------------- */

static void end_one(int i)
{
	if (is(i, MEMORY) || is(i, MANAGED) || is(i, ORDERED))
		DO(cuMemFree, H(CUdeviceptr, i));
	else if (is(i, HOST))
		give_back(i);
	end(i);
}

/* The newest first: mappings go before reservations. */
void end_memory(void)
{
	for (int i = n_objects; i-- > 0;) {
		if (is(i, MAPPING))
			DO(cuMemUnmap, H(CUdeviceptr, i), granule);
		else if (is(i, RESERVATION))
			DO(cuMemAddressFree, H(CUdeviceptr, i), PARTS * granule);
		else if (is(i, PHYSICAL))
			DO(cuMemRelease, H(CUmemGenericAllocationHandle, i));
		else if (is(i, POOL) && !objects[i].flag)
			DO(cuMemPoolDestroy, H(CUmemoryPool, i));
		else if ((is_memory(i)) && be_in(objects[i].context)) {
			end_one(i);
			be_back();
			continue;
		} else {
			continue;
		}
		end(i);
	}
}

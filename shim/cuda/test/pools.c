/* SPDX-License-Identifier: Apache-2.0
 * Pools of stream-ordered memory, their attributes, and what is left to the driver: on the fake
 * driver alone and under the stand-in (`ours`). */
#include "shim/cuda/test/ordered_cases.h"

static unsigned long long figure(CUmemPool_attribute which)
{
	cuuint64_t bytes = 99;

	cuMemPoolGetAttribute(pool, which, &bytes);
	return bytes;
}

static size_t available(void)
{
	size_t bytes = 0, total;

	cuMemGetInfo_v2(&bytes, &total);
	return bytes;
}

/* ---- pools ---------------------------------------------------------------------------------- */

static void pool_ends(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool own = NULL, now = NULL;
	CUdeviceptr at;

	is_int(cuMemPoolCreate(&own, &props) | cuDeviceSetMemPool(0, own), 0,
	       "a pool becomes the current one");
	at = take(MIB, one);
	is_int(cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at), 0,
	       "memory of it is allocated");
	ok(now == own, "the memory is of that pool");
	is_int(cuMemsetD8Async(at, 6, MIB, one) | cuMemPoolDestroy(own), 0,
	       "the pool is destroyed");
	is_int(first_byte(at), 6, "its memory survives");
	give(at, one);
	at = take(MIB, one);
	is_int(cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at), 0,
	       "memory is allocated after that");
	ok(now == pool, "it is of the device's default pool");
	give(at, one);
	is_int(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE,
	       "the default pool cannot be destroyed");
	give(take(MIB, one), one);
	is_int(cuCtxSynchronize(), 0, "all work is done");
}

/* One of two contexts gives up an access that both have. */
static void access_by_two_contexts(void)
{
	const CUmemLocation other = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
	unsigned long long slab[2] = {0, 0};
	CUcontext contexts[2], mine;
	CUdeviceptr at = take(MIB, one);
	int rc = cuCtxGetCurrent(&mine);

	for (int i = 0; i < 2; i++)
		rc |= cuCtxCreate_v4(&contexts[i], NULL, 0, 1) | cuCtxEnablePeerAccess(mine, 0);
	is_int(rc, 0, "two contexts of another device may use this one's memory");
	for (int i = 1; i >= 0; i--) {
		is_int(cuCtxDisablePeerAccess(mine) | cuCtxDestroy_v2(contexts[i]), 0,
		       "one context gives it up");
		is_int(cuMemGetAccess(&slab[i], &other, at), 0, "the memory reports its access");
	}
	ok(!ours || (slab[1] == 3 && slab[0] == 0),
	   "the other context has access until it gives it up too");
	is_int(cuCtxSetCurrent(mine), 0, "the first context is current again");
	give(at, one);
}

/* Access of another device to memory that exists and to memory allocated later. */
static void access_by_another(void)
{
	CUmemAccessDesc other = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
				 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	unsigned long long slab[2] = {0, 0};
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CUdeviceptr at[2] = {take(MIB, one)};

	is_int(cuMemPoolSetAccess(pool, &other, 1), 0, "another device may use a pool's memory");
	is_int(cuMemPoolGetAccess(&flags, pool, &other.location), 0, "the pool reports its access");
	is_int(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "the other device has access");
	at[1] = take(LARGE, one);
	for (int i = 0; i < 2; i++) {
		is_int(cuMemGetAccess(&slab[i], &other.location, at[i]), 0,
		       "the memory reports its access");
		give(at[i], one);
	}
	ok(!ours || (slab[0] == 3 && slab[1] == 3), "memory allocated before and after has it");
	other.location.id = 7;
	is_int(cuMemPoolSetAccess(pool, &other, 1), CUDA_ERROR_INVALID_VALUE,
	       "a device that does not exist gets no access");
	is_int(cuCtxSynchronize(), 0, "all work is done");
}

/* ---- figures -------------------------------------------------------------------------------- */

static void figures(void)
{
	cuuint64_t zero = 0, all = UINT64_MAX;
	CUdeviceptr at[2];
	size_t before;

	is_int(cuMemPoolTrimTo(pool, 0), 0, "a pool is trimmed");
	is_int(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero), 0,
	       "its high-water mark is reset");
	before = available();
	at[0] = take(3 * MIB, one);
	at[1] = take(LARGE, one);
	is_int((long long)figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 43 * MIB,
	       "the pool reports used bytes");
	ok(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 43 * MIB, "it reports reserved bytes");
	give(at[1], one);
	is_int((long long)figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 3 * MIB,
	       "it reports less after a free");
	is_int((long long)figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 43 * MIB,
	       "the high-water mark stays");
	is_int(cuStreamSynchronize(one), 0, "the program waits for the stream");
	ok(available() >= before - 3 * MIB, "memory above the threshold is freed");
	is_int(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all), 0,
	       "the threshold becomes infinite");
	at[1] = take(LARGE, one);
	give(at[1], one);
	is_int(cuStreamSynchronize(one), 0, "the program waits for the stream");
	ok(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 43 * MIB, "nothing is freed");
	is_int(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero) |
		       cuMemPoolTrimTo(pool, 0),
	       0, "the pool is trimmed");
	ok(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) < 43 * MIB, "the trim frees memory");
	give(at[0], one);
	is_int(cuCtxSynchronize(), 0, "all work is done");
}

/* ---- what is left to the driver -------------------------------------------------------------- */

static bool is_on_slab(CUdeviceptr at)
{
	return at >> 44 == 0x600000000000 >> 44;
}

static void captures(CUstreamCaptureMode mode, const char *name)
{
	CUdeviceptr before = take(MIB, one), at = 0, other;
	CUgraph graph = NULL;

	is_int(cuStreamBeginCapture_v2(one, mode), 0, name);
	is_int(cuMemAllocAsync(&at, MIB, one), 0, "memory is allocated in a capture");
	ok(!is_on_slab(at), "it is the driver's");
	is_int(cuMemFreeAsync(before, one), CUDA_ERROR_INVALID_VALUE,
	       "memory from outside is not freed in the capture");
	is_int(cuMemFreeAsync(at, one), 0, "the graph's memory is");
	other = take(LARGE, two);
	give(other, two);
	ok(is_on_slab(other) == ours, "another stream uses slabs meanwhile");
	is_int(cuStreamEndCapture(one, &graph), 0, "the capture survives");
	is_int(cuMemFree_v2(at), 0, "the graph's memory is freed");
	give(before, one);
	is_int(cuStreamEndCapture(one, &graph), CUDA_ERROR_ILLEGAL_STATE,
	       "there is no capture to end");
	wait_flag_in(one);
	before = take(MIB, one);
	ok(is_on_slab(before) == ours, "the stream uses slabs again");
	give(before, one);
	go();
}

/* A stream gets memory that another one freed, except while there are captures. */
static void no_captures(const char *name)
{
	CUdeviceptr at = take(LARGE, one), rest = take(LARGE, one), other = 0;

	give(at, one);
	is_int(cuStreamSynchronize(one) | cuMemAllocAsync(&other, LARGE, two), 0, name);
	if (other)
		give(other, two);
	give(rest, one);
	is_int(cuCtxSynchronize(), 0, "all work is done");
}

static void ends_of_captures(void)
{
	CUstream apart = NULL;
	CUcontext second;
	CUgraph graph;

	is_int(cuStreamEndCapture(one, NULL), CUDA_ERROR_INVALID_VALUE,
	       "a stream that is not in capture has no graph");
	no_captures("no capture is counted");
	is_int(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED) |
		       cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph),
	       0, "the thread's default stream is in capture");
	no_captures("it is counted until its end");
	is_int(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING) |
		       cuStreamBeginCapture_v2(apart, CU_STREAM_CAPTURE_MODE_RELAXED) |
		       cuStreamDestroy_v2(apart),
	       0, "a stream in capture is destroyed");
	no_captures("the stream's capture ends with it");
	is_int(cuCtxCreate_v4(&second, NULL, 0, 0) |
		       cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING) |
		       cuStreamBeginCapture_v2(apart, CU_STREAM_CAPTURE_MODE_RELAXED) |
		       cuCtxDestroy_v2(second),
	       0, "a context with a stream in capture is destroyed");
	cuCtxSetCurrent(context);
	no_captures("the capture ends with the context");
}

static void drivers_own(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool own = NULL;
	CUdeviceptr at = 0;

	is_int(cuMemPoolCreate(&own, &props) | cuMemAllocFromPoolAsync(&at, MIB, own, one), 0,
	       "there is a pool for other processes");
	ok(!is_on_slab(at), "its memory is the driver's");
	give(at, one);
	is_int(cuMemPoolDestroy(own), 0, "the pool is destroyed");
	is_int(cuMemAllocAsync(&at, 0, one), CUDA_ERROR_INVALID_VALUE, "zero bytes are refused");
	is_int(cuMemAllocFromPoolAsync(&at, 1, NULL, one), CUDA_ERROR_INVALID_VALUE,
	       "a pool of NULL is refused");
	is_int(cuMemAllocAsync(&at, SIZE_MAX, one), CUDA_ERROR_OUT_OF_MEMORY,
	       "too many bytes are refused");
	is_int(cuMemFreeAsync(4096, one), CUDA_ERROR_INVALID_VALUE,
	       "an unknown address is not freed");
	at = take(1000, one);
	is_int(cuMemFreeAsync(at + 8, one), CUDA_ERROR_INVALID_VALUE,
	       "an address inside of memory is not freed");
	give(at, one);
	is_int(cuMemFreeAsync(at, one), CUDA_ERROR_INVALID_VALUE,
	       "freed memory is not freed again");
	is_int(cuCtxSynchronize(), 0, "all work is done");
}

int main(int argc, char *argv[])
{
	begin(argc, argv);
	pool_ends();
	access_by_two_contexts();
	access_by_another();
	figures();
	captures(CU_STREAM_CAPTURE_MODE_GLOBAL, "a stream is in global capture");
	captures(CU_STREAM_CAPTURE_MODE_RELAXED, "a stream is in relaxed capture");
	ends_of_captures();
	drivers_own();
	return tap_done();
}

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
	       "a pool is made the current one");
	at = take(MIB, one);
	is_int(cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at), 0,
	       "memory of it");
	ok(now == own, "is of it");
	is_int(cuMemsetD8Async(at, 6, MIB, one) | cuMemPoolDestroy(own), 0, "it is destroyed");
	is_int(first_byte(at), 6, "its memory stays");
	give(at, one);
	at = take(MIB, one);
	is_int(cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at), 0,
	       "memory that is taken now");
	ok(now == pool, "is of the device's pool");
	give(at, one);
	is_int(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE, "which is not to be destroyed");
	give(take(MIB, one), one);
	is_int(cuCtxSynchronize(), 0, "all is done");
}

/* One of them gives up what both have. */
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
		       "one gives that up");
		is_int(cuMemGetAccess(&slab[i], &other, at), 0, "memory is asked itself");
	}
	ok(!ours || (slab[1] == 3 && slab[0] == 0),
	   "it may be used by the other, and not by neither");
	is_int(cuCtxSetCurrent(mine), 0, "back");
	give(at, one);
}

/* What there is and what comes later. */
static void access_by_another(void)
{
	CUmemAccessDesc other = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
				 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	unsigned long long slab[2] = {0, 0};
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CUdeviceptr at[2] = {take(MIB, one)};

	is_int(cuMemPoolSetAccess(pool, &other, 1), 0, "another device may use a pool's memory");
	is_int(cuMemPoolGetAccess(&flags, pool, &other.location), 0, "it is asked");
	is_int(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "and may");
	at[1] = take(LARGE, one);
	for (int i = 0; i < 2; i++) {
		is_int(cuMemGetAccess(&slab[i], &other.location, at[i]), 0,
		       "memory is asked itself");
		give(at[i], one);
	}
	ok(!ours || (slab[0] == 3 && slab[1] == 3), "it may be used");
	other.location.id = 7;
	is_int(cuMemPoolSetAccess(pool, &other, 1), CUDA_ERROR_INVALID_VALUE,
	       "by no device that there is not");
	is_int(cuCtxSynchronize(), 0, "all is done");
}

/* ---- figures -------------------------------------------------------------------------------- */

static void figures(void)
{
	cuuint64_t zero = 0, all = UINT64_MAX;
	CUdeviceptr at[2];
	size_t before;

	is_int(cuMemPoolTrimTo(pool, 0), 0, "a pool is trimmed");
	is_int(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero), 0,
	       "its high mark is reset");
	before = available();
	at[0] = take(3 * MIB, one);
	at[1] = take(LARGE, one);
	is_int((long long)figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 43 * MIB, "what is used");
	ok(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 43 * MIB, "and reserved");
	give(at[1], one);
	is_int((long long)figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 3 * MIB, "less");
	is_int((long long)figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 43 * MIB, "the high mark stays");
	is_int(cuStreamSynchronize(one), 0, "the program waits for the stream");
	ok(available() >= before - 3 * MIB, "what is above the threshold is given back");
	is_int(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all), 0,
	       "to keep everything");
	at[1] = take(LARGE, one);
	give(at[1], one);
	is_int(cuStreamSynchronize(one), 0, "the program waits for the stream");
	ok(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 43 * MIB, "nothing is given back");
	is_int(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero) |
		       cuMemPoolTrimTo(pool, 0),
	       0, "but when it is trimmed");
	ok(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) < 43 * MIB, "it is");
	give(at[0], one);
	is_int(cuCtxSynchronize(), 0, "all is done");
}

/* ---- what stays the driver's ---------------------------------------------------------------- */

static bool is_on_slab(CUdeviceptr at)
{
	return at >> 44 == 0x600000000000 >> 44;
}

static void captures(CUstreamCaptureMode mode, const char *name)
{
	CUdeviceptr before = take(MIB, one), at = 0, other;
	CUgraph graph = NULL;

	is_int(cuStreamBeginCapture_v2(one, mode), 0, name);
	is_int(cuMemAllocAsync(&at, MIB, one), 0, "memory in it");
	ok(!is_on_slab(at), "is the driver's");
	is_int(cuMemFreeAsync(before, one), CUDA_ERROR_INVALID_VALUE,
	       "other memory is not freed in it");
	is_int(cuMemFreeAsync(at, one), 0, "the graph's is");
	other = take(LARGE, two);
	give(other, two);
	ok(is_on_slab(other) == ours, "another stream goes on");
	is_int(cuStreamEndCapture(one, &graph), 0, "the capture lives");
	is_int(cuMemFree_v2(at), 0, "the graph's memory");
	give(before, one);
	is_int(cuStreamEndCapture(one, &graph), CUDA_ERROR_ILLEGAL_STATE, "no capture to end");
	wait_flag_in(one);
	before = take(MIB, one);
	ok(is_on_slab(before) == ours, "afterwards all is as before");
	give(before, one);
	go();
}

/* What one stream has freed another one has, which it has not while there are captures. */
static void no_captures(const char *name)
{
	CUdeviceptr at = take(LARGE, one), rest = take(LARGE, one), other = 0;

	give(at, one);
	is_int(cuStreamSynchronize(one) | cuMemAllocAsync(&other, LARGE, two), 0, name);
	if (other)
		give(other, two);
	give(rest, one);
	is_int(cuCtxSynchronize(), 0, "all is done");
}

static void ends_of_captures(void)
{
	CUstream apart = NULL;
	CUcontext second;
	CUgraph graph;

	is_int(cuStreamEndCapture(one, NULL), CUDA_ERROR_INVALID_VALUE, "no capture, and no graph");
	no_captures("no capture has ended");
	is_int(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED) |
		       cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph),
	       0, "a capture in the thread's default stream");
	no_captures("has ended");
	is_int(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING) |
		       cuStreamBeginCapture_v2(apart, CU_STREAM_CAPTURE_MODE_RELAXED) |
		       cuStreamDestroy_v2(apart),
	       0, "a stream is destroyed in its capture");
	no_captures("which ends with it");
	is_int(cuCtxCreate_v4(&second, NULL, 0, 0) |
		       cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING) |
		       cuStreamBeginCapture_v2(apart, CU_STREAM_CAPTURE_MODE_RELAXED) |
		       cuCtxDestroy_v2(second),
	       0, "so is a context");
	cuCtxSetCurrent(context);
	no_captures("and with that");
}

static void drivers_own(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool own = NULL;
	CUdeviceptr at = 0;

	is_int(cuMemPoolCreate(&own, &props) | cuMemAllocFromPoolAsync(&at, MIB, own, one), 0,
	       "a pool that other processes may use");
	ok(!is_on_slab(at), "is the driver's own");
	give(at, one);
	is_int(cuMemPoolDestroy(own), 0, "its end");
	is_int(cuMemAllocAsync(&at, 0, one), CUDA_ERROR_INVALID_VALUE, "no bytes");
	is_int(cuMemAllocFromPoolAsync(&at, 1, NULL, one), CUDA_ERROR_INVALID_VALUE, "no pool");
	is_int(cuMemAllocAsync(&at, SIZE_MAX, one), CUDA_ERROR_OUT_OF_MEMORY, "too many bytes");
	is_int(cuMemFreeAsync(4096, one), CUDA_ERROR_INVALID_VALUE, "no memory");
	at = take(1000, one);
	is_int(cuMemFreeAsync(at + 8, one), CUDA_ERROR_INVALID_VALUE, "not its beginning");
	give(at, one);
	is_int(cuMemFreeAsync(at, one), CUDA_ERROR_INVALID_VALUE, "freed before");
	is_int(cuCtxSynchronize(), 0, "all is done");
}

int main(int argc, char *argv[])
{
	begin(argc, argv);
	pool_ends();
	access_by_two_contexts();
	access_by_another();
	figures();
	captures(CU_STREAM_CAPTURE_MODE_GLOBAL, "a capture");
	captures(CU_STREAM_CAPTURE_MODE_RELAXED, "another one");
	ends_of_captures();
	drivers_own();
	return tap_done();
}

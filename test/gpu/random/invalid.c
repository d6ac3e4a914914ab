/* SPDX-License-Identifier: Apache-2.0
 * Calls that are wrong, whose errors are the same; and questions. No handle is used that has ended:
 * what that does is not defined. */
#include <stdlib.h>

#include "test/gpu/random/random.h"

static char own[8192] __attribute__((aligned(4096)));

static void ask_memory(void)
{
	CUdeviceptr at = 0, mine = (CUdeviceptr)(uintptr_t)own;
	int i = any_here(MEMORY), h = any_here(HOST);
	CUmemorytype type;
	size_t size;
	void *p;

	switch (draw(getenv("GPU_RANDOM_FAULTS") ? 12 : 11)) {
	case 0:
		DO(cuMemAlloc, &at, 0);
		break;
	case 1:
		DO(cuMemAlloc, &at, (size_t)1 << 50);
		break;
	case 2:
		if (i >= 0)
			DO(cuMemFree, H(CUdeviceptr, i) + 8);
		break;
	case 3:
		DO(cuMemFree, 0);
		break;
	case 4:
		DO(cuMemFree, mine);
		break;
	case 5:
		DO(cuMemHostUnregister, own);
		break;
	case 6:
		if (h >= 0)
			DO(cuMemHostRegister, H(void *, h), 4096, 0);
		break;
	case 7:
		DO(cuMemFreeHost, own);
		break;
	case 8:
		DO(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mine);
		break;
	case 9:
		DO(cuMemGetAddressRange, &at, &size, mine);
		break;
	case 10:
		if (current() >= 0)
			DO(cuMemAllocManaged, &at, 0, CU_MEM_ATTACH_GLOBAL);
		break;
	default:
		if (current() >= 0)
			DO(cuMemHostAlloc, &p, 100, 0x100);
		break;
	}
}

/* The fake driver checks little. With GPU_RANDOM_FAULTS there is another. */
static void ask_copies(void)
{
	int i = any_here(MEMORY);
	CUdeviceptr at = H(CUdeviceptr, i);
	CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = at,
			      .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = own, .srcPitch = 4,
			      .dstPitch = 64, .WidthInBytes = 64, .Height = 2};

	if (i < 0)
		return;
	switch (draw(getenv("GPU_RANDOM_FAULTS") ? 6 : 2)) {
	case 0:
		DO(cuMemcpyDtoH, own, at, 0);
		break;
	case 1:
		DO(cuMemcpy2D, &flat);
		break;
	case 2:
		DO(cuMemcpyHtoD, 0, own, 8);
		break;
	case 3:
		DO(cuMemcpyDtoH, own, at, objects[i].size + ((size_t)1 << 40));
		break;
	case 4:
		DO(cuMemsetD32, at + 2, 1, 4);
		break;
	default:
		DO(cuMemsetD8, 0, 1, 4);
		break;
	}
}

static void ask_streams(void)
{
	int i = any_here(STREAM), e = any_here(EVENT);
	CUstream s = NULL;
	CUevent event = NULL;
	CUgraph g = NULL;
	float ms;

	switch (draw(getenv("GPU_RANDOM_FAULTS") ? 7 : 3)) {
	case 0:
		DO(cuStreamCreate, &s, 0x100);
		break;
	case 1:
		DO(cuEventCreate, &event, 0x100);
		break;
	case 2:
		if (i >= 0)
			DO(cuStreamEndCapture, H(CUstream, i), &g);
		break;
	case 3:
		DO(cuStreamBeginCapture, NULL, CU_STREAM_CAPTURE_MODE_RELAXED);
		break;
	case 4:
		if (e >= 0 && DO(cuEventElapsedTime, &ms, NULL, H(CUevent, e)) == CUDA_SUCCESS)
			say("a time of no event");
		break;
	case 5:
		DO(cuEventRecord, NULL, H(CUstream, i));
		break;
	default:
		DO(cuStreamDestroy, NULL);
		break;
	}
}

static void ask_code(void)
{
	int m = any_here(MODULE), f = any_function(ADD);
	void *arguments[] = {own, own};
	CUfunction function = NULL;
	CUmodule module = NULL;
	CUdeviceptr at;
	size_t size;

	switch (draw(getenv("GPU_RANDOM_FAULTS") ? 6 : 4)) {
	case 0:
		if (m >= 0)
			DO(cuModuleGetFunction, &function, H(CUmodule, m), "none");
		break;
	case 1:
		if (m >= 0)
			DO(cuModuleGetGlobal, &at, &size, H(CUmodule, m), "none");
		break;
	case 2:
		DO(cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
		break;
	case 3:
		if (is(f, FUNCTION))
			DO(cuFuncSetAttribute, H(CUfunction, f), CU_FUNC_ATTRIBUTE_BINARY_VERSION,
			   1);
		break;
	case 4:
		DO(cuModuleLoadData, &module, NULL);
		break;
	default:
		DO(cuModuleUnload, NULL);
		break;
	}
}

static void ask_objects(void)
{
	const CUDA_ARRAY_DESCRIPTOR none = {0, 0, CU_AD_FORMAT_FLOAT, 1};
	const CUDA_ARRAY_DESCRIPTOR five = {4, 4, CU_AD_FORMAT_FLOAT, 5};
	int r = any(RESERVATION), g = any(GRAPH);
	CUmemGenericAllocationHandle memory = 0;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 77}};
	CUcontext c = NULL;
	CUdeviceptr at = 0;
	CUarray a = NULL;
	CUgraph copy = NULL;

	switch (draw(8)) {
	case 0:
		DO(cuArrayCreate, &a, &none);
		break;
	case 1:
		DO(cuArrayCreate, &a, &five);
		break;
	case 2:
		DO(cuMemCreate, &memory, (size_t)2 << 20, &prop, 0);
		break;
	case 3:
		DO(cuMemAddressReserve, &at, 100, 0, 0, 0);
		break;
	case 4:
		if (r >= 0)
			DO(cuMemAddressFree, H(CUdeviceptr, r) + 4096, 4096);
		break;
	case 5:
		DO(cuDevicePrimaryCtxRetain, &c, 77);
		break;
	case 6:
		if (g >= 0)
			DO(cuGraphCreate, &copy, 77);
		break;
	default:
		DO(cuTexObjectDestroy, 0);
		break;
	}
}

void invalid_step(void)
{
	static void (*const steps[])(void) = {ask_memory, ask_memory, ask_copies, ask_streams,
					      ask_code, ask_objects};

	steps[draw(sizeof steps / sizeof *steps)]();
}

/* How many nodes there are of each type. */
void look_at_graph(void)
{
	unsigned types[32] = {0};
	int g = any_sound(GRAPH);
	CUgraphNode nodes[64];
	CUgraphNodeType type;
	size_t n = 64, edges = 0;

	if (g < 0 || DO(cuGraphGetNodes, H(CUgraph, g), nodes, &n))
		return;
	for (size_t i = 0; i < n && i < 64; i++) {
		if (!cuGraphNodeGetType(nodes[i], &type) && type < 32)
			types[type]++;
	}
	for (int i = 0; i < 32; i++) {
		if (types[i])
			say("%u of type %d", types[i], i);
	}
	if (!DO(cuGraphGetEdges, H(CUgraph, g), NULL, NULL, NULL, &edges))
		say("%zu nodes, %zu edges", n, edges);
	n = 0;
	if (!DO(cuGraphGetRootNodes, H(CUgraph, g), NULL, &n))
		say("%zu roots", n);
}

void ask_step(void)
{
	CUdevice_attribute a = (CUdevice_attribute)(1 + draw(120));
	CUresult code = (CUresult)draw(1000);
	const char *text = NULL;
	char name[100] = "";
	int v = 0;

	switch (draw(5)) {
	case 0:
		if (!DO(cuDriverGetVersion, &v))
			say("version %d", v);
		break;
	case 1:
		if (!DO(cuDeviceGetAttribute, &v, a, 0))
			say("attribute %d: %d", (int)a, v);
		break;
	case 2:
		if (!DO(cuGetErrorName, code, &text))
			say("%s", text);
		if (!DO(cuGetErrorString, code, &text))
			say("%s", text);
		break;
	case 3:
		if (!DO(cuDeviceGetName, name, sizeof name, 0))
			say("%s", name);
		break;
	default:
		if (!DO(cuDeviceGetCount, &v))
			say("%d devices", v);
		break;
	}
}

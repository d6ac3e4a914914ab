/* SPDX-License-Identifier: Apache-2.0
 * Prints values that a program may store on the device, or hold: "VALUE NAME NUMBER". `values
 * churn|live [gaps|late]`: churn also makes and ends objects between two others. gaps: some are
 * made among the rest and end before the last are made; late: they end at the end. */
#include "found.h"

#include <cuda_runtime.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool churn, gaps, late;
static CUdeviceptr scratch, big;

static void tag(const char *name)
{
	void (*f)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "gpu_ns_tag");

	if (f)
		f(name);
}

static void value(const char *name, unsigned long long v)
{
	printf("VALUE %s %llx\n", name, v);
}

/* ---- the runtime's module -------------------------------------------------------------------- */

struct base {
	int x;
	__device__ virtual int f() { return 1; }
};
struct derived : base {
	__device__ int f() override { return x + 2; }
};

__device__ int variable, variables[1000];
__constant__ int constant;
__managed__ int managed;
__device__ int function(int x) { return x + variable; }

__global__ void look(unsigned long long *out)
{
	__shared__ int shared;
	int local = 0;
	int (*p)(int) = function;
	derived *d = new derived;

	out[0] = (unsigned long long)&variable;
	out[1] = (unsigned long long)&variables;
	out[2] = (unsigned long long)&constant;
	out[3] = (unsigned long long)&managed;
	out[4] = (unsigned long long)p;
	out[5] = *(unsigned long long *)d; /* its virtual table */
	out[6] = (unsigned long long)d;    /* on the heap */
	out[7] = (unsigned long long)&shared;
	out[8] = (unsigned long long)&local;
	out[9] = (unsigned long long)(void *)look;
	shared = local + p(1) + d->f();
	delete d;
}

/* ---- modules from PTX ------------------------------------------------------------------------ */

static CUmodule module_of(const char *name, int words)
{
	static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
		".visible .global .align 4 .b8 %s_variable[%d];\n"
		".visible .const .align 4 .b8 %s_constant[256];\n"
		".visible .func (.reg .b32 r) %s_called(.reg .b32 x)\n"
		"{ add.s32 r, x, 1; ret; }\n"
		".visible .entry %s_kernel(.param .u64 p)\n"
		"{ .reg .b64 %%p, %%f; .reg .b32 %%x, %%y; ld.param.u64 %%p, [p];\n"
		" mov.b64 %%f, %s_called; st.u64 [%%p], %%f; mov.u32 %%x, 1;\n"
		" { call (%%y), %s_called, (%%x); }\n"
		" st.u32 [%%p+8], %%y; ret; }\n";
	static char ptx[4096];
	CUmodule m;

	snprintf(ptx, sizeof ptx, text, name, words * 4, name, name, name, name, name);
	MUST(CU(cuModuleLoadDataEx)(&m, ptx, 0, NULL, NULL));
	return m;
}

static void show_module(const char *name, CUmodule m)
{
	char text[64];
	CUdeviceptr at;
	CUfunction f;
	unsigned long long got[2];
	void *args[] = {&scratch};

	value((snprintf(text, sizeof text, "handle_%s", name), text), (uintptr_t)m);
	snprintf(text, sizeof text, "%s_variable", name);
	MUST(CU(cuModuleGetGlobal)(&at, NULL, m, text));
	value(text, at);
	snprintf(text, sizeof text, "%s_constant", name);
	MUST(CU(cuModuleGetGlobal)(&at, NULL, m, text));
	value(text, at);
	snprintf(text, sizeof text, "%s_kernel", name);
	MUST(CU(cuModuleGetFunction)(&f, m, text));
	value((snprintf(text, sizeof text, "handle_%s_kernel", name), text), (uintptr_t)f);
	MUST(CU(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
	MUST(CU(cuCtxSynchronize)());
	MUST(CU(cuMemcpyDtoH)(got, scratch, sizeof got));
	value((snprintf(text, sizeof text, "%s_called", name), text), got[0]);
}

/* ---- textures -------------------------------------------------------------------------------- */

static CUtexObject texture(CUdeviceptr memory)
{
	CUDA_RESOURCE_DESC r = {};
	CUDA_TEXTURE_DESC t = {};
	CUtexObject object;

	r.resType = CU_RESOURCE_TYPE_LINEAR;
	r.res.linear.devPtr = memory;
	r.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
	r.res.linear.numChannels = 1;
	r.res.linear.sizeInBytes = 4096;
	MUST(CU(cuTexObjectCreate)(&object, &r, &t, NULL));
	return object;
}

static CUarray array(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {64, 64, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1,
				     CUDA_ARRAY3D_SURFACE_LDST};
	CUarray a;

	MUST(CU(cuArray3DCreate)(&a, &d));
	return a;
}

static CUsurfObject surface(CUarray a)
{
	CUDA_RESOURCE_DESC r = {};
	CUsurfObject s;

	r.resType = CU_RESOURCE_TYPE_ARRAY;
	r.res.array.hArray = a;
	MUST(CU(cuSurfObjectCreate)(&s, &r));
	return s;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

__global__ void nothing() {}

static void graphs(void)
{
	cudaGraph_t g, body;
	cudaGraphExec_t e;
	cudaGraphNode_t n;
	cudaGraphConditionalHandle h;
	cudaGraphNodeParams c = {};
	cudaMemAllocNodeParams a = {};
	cudaKernelNodeParams k = {};
	cudaStream_t s;

	tag("graph");
	k.func = (void *)nothing;
	k.gridDim = k.blockDim = dim3(1);
	MUST(cudaStreamCreate(&s));
	value("handle_graph_stream", (uintptr_t)s);
	MUST(cudaGraphCreate(&g, 0));
	a.poolProps.allocType = cudaMemAllocationTypePinned;
	a.poolProps.location.type = cudaMemLocationTypeDevice;
	a.bytesize = 1 << 20;
	MUST(cudaGraphAddMemAllocNode(&n, g, NULL, 0, &a));
	value("graph_memory", (uintptr_t)a.dptr);
	MUST(cudaGraphInstantiate(&e, g, 0));
	MUST(cudaGraphLaunch(e, s));
	MUST(cudaStreamSynchronize(s));
	value("handle_graph_exec", (uintptr_t)e);
	MUST(cudaGraphCreate(&g, 0));
	MUST(cudaGraphConditionalHandleCreate(&h, g, 1, cudaGraphCondAssignDefault));
	value("conditional_handle", h);
	c.type = cudaGraphNodeTypeConditional;
	c.conditional.handle = h;
	c.conditional.type = cudaGraphCondTypeIf;
	c.conditional.size = 1;
	MUST(cudaGraphAddNode(&n, g, NULL, NULL, 0, &c));
	body = c.conditional.phGraph_out[0];
	MUST(cudaGraphAddKernelNode(&n, body, NULL, 0, &k));
	MUST(cudaGraphInstantiate(&e, g, 0));
	MUST(cudaGraphLaunch(e, s));
	MUST(cudaStreamSynchronize(s));
	MUST(cudaGraphCreate(&g, 0));
	MUST(cudaGraphAddKernelNode(&n, g, NULL, 0, &k));
	if (cudaGraphInstantiate(&e, g, cudaGraphInstantiateFlagDeviceLaunch) == cudaSuccess) {
		MUST(cudaGraphUpload(e, s));
		MUST(cudaStreamSynchronize(s));
		value("device_graph", (uintptr_t)e);
	}
}

/* ---- objects that end ------------------------------------------------------------------------ */

static CUdeviceptr memory(const char *name, size_t size)
{
	CUdeviceptr p;

	tag(name);
	MUST(CU(cuMemAlloc)(&p, size));
	value(name, p);
	return p;
}

/* Between two others. Small memory stays to the end: it shares a page with other small memory. */
static void churn_once(void)
{
	CUmodule m;
	CUdeviceptr p;
	void *q;
	CUstream s;

	if (!churn)
		return;
	p = memory("dead_memory", 3 << 20);
	memory("dead_small", 1000);
	tag("dead_module");
	m = module_of("dead", 300000);
	show_module("dead", m);
	tag("dead_host");
	MUST(CU(cuMemHostAlloc)(&q, 5 << 20, 0));
	MUST(CU(cuStreamCreate)(&s, 0));
	MUST(CU(cuMemFree)(p));
	MUST(CU(cuModuleUnload)(m));
	MUST(CU(cuMemFreeHost)(q));
	MUST(CU(cuStreamDestroy)(s));
}

static struct {
	CUmodule module;
	CUtexObject textures[2];
	CUarray array;
	CUsurfObject surface;
	void *managed, *host;
} gap;

static void gap_module(void)
{
	if (!gaps)
		return;
	tag("gap_module");
	gap.module = module_of("gap", 5000);
	show_module("gap", gap.module);
}

static void gap_memory(void)
{
	if (!gaps)
		return;
	tag("gap_managed");
	MUST(cudaMallocManaged(&gap.managed, 40 << 20));
	tag("gap_host");
	MUST(CU(cuMemHostAlloc)(&gap.host, 3 << 20, 0));
}

static void gap_textures(void)
{
	if (!gaps)
		return;
	gap.textures[0] = texture(big + (1 << 20));
	gap.textures[1] = texture(big + (2 << 20));
	gap.array = array();
	gap.surface = surface(gap.array);
}

static void gap_end(void)
{
	if (!gaps)
		return;
	MUST(CU(cuModuleUnload)(gap.module));
	MUST(CU(cuTexObjectDestroy)(gap.textures[0]));
	MUST(CU(cuTexObjectDestroy)(gap.textures[1]));
	MUST(CU(cuSurfObjectDestroy)(gap.surface));
	MUST(CU(cuArrayDestroy)(gap.array));
	MUST(cudaFree(gap.managed));
	MUST(CU(cuMemFreeHost)(gap.host));
}

/* ---- objects that stay ----------------------------------------------------------------------- */

static void contexts(void)
{
	CUcontext c;
	CUdevice d;

	tag("init");
	MUST(CU(cuInit)(0));
	MUST(CU(cuDeviceGet)(&d, 0));
	tag("context");
	MUST(CU(cuDevicePrimaryCtxRetain)(&c, d));
	MUST(CU(cuCtxSetCurrent)(c));
	value("handle_context", (uintptr_t)c);
}

static void streams(void)
{
	CUstream s;
	CUevent e;

	tag("stream");
	MUST(CU(cuStreamCreate)(&s, 0));
	value("handle_stream", (uintptr_t)s);
	MUST(CU(cuEventCreate)(&e, 0));
	value("handle_event", (uintptr_t)e);
}

static void module(const char *name, int words)
{
	tag(name);
	show_module(name, module_of(name, words));
}

static void runtime_module(void)
{
	static const char *const names[] = {"variable", "variables", "constant", "managed",
		"function", "virtual_table", "heap", "shared", "local", "kernel"};
	enum { N = sizeof names / sizeof *names };
	unsigned long long *out, got[N];

	tag("runtime");
	MUST(cudaMalloc(&out, sizeof got));
	look<<<1, 1>>>(out);
	MUST(cudaDeviceSynchronize());
	MUST(cudaMemcpy(got, out, sizeof got, cudaMemcpyDefault));
	for (int i = 0; i < N; i++)
		value(names[i], got[i]);
}

static void other_memory(void)
{
	CUdeviceptr p;
	void *q;

	tag("host");
	MUST(CU(cuMemHostAlloc)(&q, 8 << 20, CU_MEMHOSTALLOC_DEVICEMAP));
	MUST(CU(cuMemHostGetDevicePointer)(&p, q, 0));
	value("host", (uintptr_t)q);
	value("host_device", p);
	tag("managed");
	MUST(cudaMallocManaged(&q, 64 << 20));
	value("managed_memory", (uintptr_t)q);
	tag("pool");
	MUST(cudaMallocAsync(&q, 1 << 20, 0));
	MUST(cudaDeviceSynchronize());
	value("pool_memory", (uintptr_t)q);
	MUST(CU(cuMemAddressReserve)(&p, 64 << 20, 0, 0, 0));
	value("reserved", p);
	MUST(CU(cuMemAddressReserve)(&p, 64 << 20, 0, 0x600000000000ull, 0));
	value("reserved_wish", p);
}

static void textures(void)
{
	CUarray arrays[2];

	tag("textures");
	value("texture_0", texture(big));
	value("texture_1", texture(big + 4096));
	arrays[0] = array();
	arrays[1] = array();
	value("handle_array", (uintptr_t)arrays[0]);
	value("surface_0", surface(arrays[0]));
	value("surface_1", surface(arrays[1]));
}

int main(int argc, char **argv)
{
	void (*write)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "gpu_ns_write_record");

	churn = argc > 1 && !strcmp(argv[1], "churn");
	gaps = argc > 2;
	late = gaps && !strcmp(argv[2], "late");
	contexts();
	scratch = memory("scratch", 1 << 20);
	churn_once();
	gap_module();
	big = memory("memory_64M", 64 << 20);
	memory("memory_4K", 4096);
	streams();
	module("one", 100);
	module("two", 1000000);
	gap_memory();
	runtime_module();
	other_memory();
	gap_textures();
	if (!late)
		gap_end();
	module("three", 3000);
	textures();
	graphs();
	if (late)
		gap_end();
	if (write)
		write();
	fflush(stdout);
	_exit(0);
}

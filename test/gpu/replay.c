/* SPDX-License-Identifier: Apache-2.0
 * shim/cuda/records on a GPU: a program of the driver's functions, with gpu_namespace.so
 * preloaded. Between its rounds the driver's library ends as at a restart, a
 * fresh one is loaded, and everything is made again. `gpu_replay [ROUNDS]` prints TAP, figures. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/cuda/records/records.h"
#include "shim/cuda/test/records_look.h"
#include "test/support/tap.h"

#define STREAMS 3
#define EVENTS 4
#define CALLS 200000
#define LAUNCHES 20000

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 8 .u64 total;\n"
	".visible .global .align 8 .u64 place;\n"
	".visible .const .align 8 .u64 factor;\n"
	".global .align 8 .u64 hidden;\n"
	"// total grows by factor, p[0] by total; the address of total is stored on the device.\n"
	".visible .entry work(.param .u64 p)\n"
	"{ .reg .b64 %p, %a, %f, %t;\n"
	" ld.param.u64 %p, [p]; mov.u64 %a, total; st.global.u64 [place], %a;\n"
	" ld.const.u64 %f, [factor]; ld.global.u64 %t, [total]; add.s64 %t, %t, %f;\n"
	" st.global.u64 [total], %t; ld.global.u64 %f, [%p]; add.s64 %f, %f, %t;\n"
	" st.global.u64 [%p], %f; ret; }\n"
	"// p[1] is what is stored where the stored address says.\n"
	".visible .entry follow(.param .u64 p)\n"
	"{ .reg .b64 %p, %a, %t;\n"
	" ld.param.u64 %p, [p]; ld.global.u64 %a, [place]; ld.global.u64 %t, [%a];\n"
	" st.global.u64 [%p+8], %t; ret; }\n";

static struct gck_cuda_real hooked, *T = &hooked;

/* What the program holds from the first round on. */
static CUcontext context, other;
static CUstream streams[STREAMS];
static CUevent events[EVENTS];
static CUmodule module, second;
static CUfunction work, follow, of_second;
static CUdeviceptr reservation, total, factor;
static CUmemGenericAllocationHandle memory[2];
static size_t granularity;
static CUgraph graph;
static CUgraphNode node;
static CUgraphExec executable;
static uint64_t expected_total, expected_sum;

/* Modules of other images, whose total grows by 3. */
static struct compiled {
	const char *name;
	CUmodule module;
	CUfunction work;
	CUdeviceptr hidden;
	uint64_t total, sum;
} compiled[] = {{.name = "cubin"}, {.name = "fatbin"}};
static int ncompiled = 1; /* 2: there is a fatbin */

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

#define MUST(call) check_result(call, #call)

static void check_result(CUresult rc, const char *what)
{
	if (!rc)
		return;
	printf("not ok - %s: %d\n", what, (int)rc);
	exit(1);
}

static void *function_of(void *library, const char *name)
{
	return dlsym(library, name);
}

static void load(void)
{
	void *(*ns_load)(void);
	void *library;

	*(void **)&ns_load = dlsym(RTLD_DEFAULT, "gpu_ns_load");
	if (!ns_load || !(library = ns_load())) {
		printf("not ok - no gpu_namespace.so, or no driver\n");
		exit(1);
	}
	gck_cuda_records_find(&gck_cuda_driver, function_of, library);
	MUST(gck_cuda_driver.cuInit(0));
}

/* ---- the program ----------------------------------------------------------------------------- */

static void make_memory(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	MUST(T->cuMemGetAllocationGranularity(&granularity, &prop, 0));
	MUST(T->cuMemAddressReserve(&reservation, 4 * granularity, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		CUdeviceptr at = reservation + 2 * (unsigned)i * granularity;

		MUST(T->cuMemCreate(&memory[i], granularity, &prop, 0));
		MUST(T->cuMemMap(at, granularity, 0, memory[i], 0));
		MUST(T->cuMemSetAccess(at, granularity, &access, 1));
		MUST(T->cuMemsetD8_v2(at, 0, granularity));
	}
	MUST(T->cuMemRelease(memory[1])); /* its mapping stays */
}

/* The PTX, compiled by the driver. */
static void *make_cubin(size_t *size)
{
	CUlinkState state;
	void *made, *cubin;

	MUST(gck_cuda_driver.cuLinkCreate_v2(0, NULL, NULL, &state));
	MUST(gck_cuda_driver.cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, (void *)ptx, sizeof ptx,
					      "work", 0, NULL, NULL));
	MUST(gck_cuda_driver.cuLinkComplete(state, &made, size));
	cubin = malloc(*size);
	memcpy(cubin, made, *size);
	MUST(gck_cuda_driver.cuLinkDestroy(state));
	return cubin;
}

static void *read_fatbin(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	void *image;

	if (!f || fseek(f, 0, SEEK_END)) {
		printf("not ok - no %s\n", path);
		exit(1);
	}
	*size = (size_t)ftell(f);
	rewind(f);
	image = malloc(*size);
	*size = fread(image, 1, *size, f);
	fclose(f);
	return image;
}

/* The program does not keep the image. */
static void load_compiled(struct compiled *c, void *image, size_t size)
{
	const uint64_t three = 3, value = 77;
	CUdeviceptr of_its_factor;

	MUST(T->cuModuleLoadData(&c->module, image));
	memset(image, 0, size);
	free(image);
	MUST(T->cuModuleGetFunction(&c->work, c->module, "work"));
	MUST(T->cuModuleGetGlobal_v2(&of_its_factor, &size, c->module, "factor"));
	MUST(T->cuModuleGetGlobal_v2(&c->hidden, &size, c->module, "hidden"));
	MUST(T->cuMemcpyHtoD_v2(of_its_factor, &three, sizeof three));
	MUST(T->cuMemcpyHtoD_v2(c->hidden, &value, sizeof value));
}

static void load_all_compiled(void)
{
	const char *fatbin = getenv("GPU_REPLAY_FATBIN");
	size_t size;
	void *image = make_cubin(&size);

	load_compiled(&compiled[0], image, size);
	if (!fatbin)
		return;
	image = read_fatbin(fatbin, &size);
	load_compiled(&compiled[ncompiled++], image, size);
}

/* What launches `work` as a graph. */
static CUDA_KERNEL_NODE_PARAMS *work_node(void)
{
	static void *params[] = {&reservation};
	static CUDA_KERNEL_NODE_PARAMS p;

	p = (CUDA_KERNEL_NODE_PARAMS){work, 1, 1, 1, 1, 1, 1, 0, params, NULL, NULL, NULL};
	return &p;
}

static void make_graph(void)
{
	CUgraphNode last;

	MUST(T->cuGraphCreate(&graph, 0));
	MUST(T->cuGraphAddKernelNode_v2(&node, graph, NULL, 0, work_node()));
	MUST(T->cuGraphAddEventRecordNode(&last, graph, &node, 1, events[1]));
	MUST(T->cuGraphInstantiateWithFlags(&executable, graph, 0));
}

static void begin(void)
{
	const uint64_t seven = 7;
	CUmodule gone;
	size_t size;

	MUST(T->cuInit(0));
	MUST(T->cuDevicePrimaryCtxRetain(&context, 0));
	MUST(T->cuCtxSetCurrent(context));
	MUST(T->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	MUST(T->cuCtxCreate_v2(&other, 0, 0));
	MUST(T->cuCtxPopCurrent_v2(NULL));
	MUST(T->cuStreamCreate(&streams[0], 0));
	MUST(T->cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	MUST(T->cuStreamCreateWithPriority(&streams[2], CU_STREAM_NON_BLOCKING, -1));
	for (int i = 0; i < EVENTS; i++)
		MUST(T->cuEventCreate(&events[i], i == 3 ? CU_EVENT_DISABLE_TIMING : 0));
	MUST(T->cuModuleLoadData(&module, ptx));
	MUST(T->cuModuleLoadData(&gone, ptx));
	MUST(T->cuModuleLoadData(&second, ptx)); /* it has its place beside one that ends */
	MUST(T->cuModuleUnload(gone));
	MUST(T->cuModuleGetFunction(&work, module, "work"));
	MUST(T->cuModuleGetFunction(&follow, module, "follow"));
	MUST(T->cuModuleGetFunction(&of_second, second, "work"));
	MUST(T->cuModuleGetGlobal_v2(&total, &size, module, "total"));
	MUST(T->cuModuleGetGlobal_v2(&factor, &size, module, "factor"));
	MUST(T->cuMemcpyHtoD_v2(factor, &seven, sizeof seven));
	load_all_compiled();
	make_memory();
	make_graph();
	MUST(T->cuEventRecord(events[0], streams[0]));
}

static void launch(CUfunction f, CUstream stream, CUdeviceptr at)
{
	void *params[] = {&at};

	MUST(T->cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

/* Modules that come and go; of three in a row the last one stays until the next round. */
static void load_and_unload(void)
{
	static CUmodule stays;
	static uint64_t written;
	CUmodule more[3];
	uint64_t value = 0;
	CUdeviceptr at;
	size_t size;

	if (stays) {
		MUST(T->cuModuleGetGlobal_v2(&at, &size, stays, "total"));
		MUST(T->cuMemcpyDtoH_v2(&value, at, sizeof value));
		if (value != written)
			printf("not ok - a variable of a module beside others\n");
		MUST(T->cuModuleUnload(stays));
	}
	for (int i = 0; i < 3; i++)
		MUST(T->cuModuleLoadData(&more[i], ptx));
	stays = more[2];
	MUST(T->cuModuleUnload(more[0]));
	MUST(T->cuModuleUnload(more[1]));
	MUST(T->cuModuleGetGlobal_v2(&at, &size, stays, "total"));
	written = expected_total + 1;
	MUST(T->cuMemcpyHtoD_v2(at, &written, sizeof written));
}

static bool round_of_compiled(void)
{
	uint64_t sum = 0, value = 0;
	bool good = true;

	for (int i = 0; i < ncompiled; i++) {
		CUdeviceptr at = reservation + 2 * granularity + 64 * (unsigned)(i + 1);
		struct compiled *c = &compiled[i];

		launch(c->work, streams[1], at);
		MUST(T->cuStreamSynchronize(streams[1]));
		c->total += 3;
		c->sum += c->total;
		MUST(T->cuMemcpyDtoH_v2(&sum, at, sizeof sum));
		MUST(T->cuMemcpyDtoH_v2(&value, c->hidden, sizeof value));
		printf("# of the %s: sum %llu, expected %llu, hidden %llu\n", c->name,
		       (unsigned long long)sum, (unsigned long long)c->sum,
		       (unsigned long long)value);
		good &= sum == c->sum && value == 77;
	}
	return good;
}

/* True: all that the program finds is as it should be. */
static bool round_of_work(void)
{
	CUdeviceptr far = reservation + 2 * granularity;
	uint64_t got[2] = {0}, of_far = 1, sum = 0;
	CUcontext is = NULL;
	size_t limit = 0;
	int priority = 0;

	load_and_unload();
	MUST(T->cuGraphExecKernelNodeSetParams_v2(executable, node, work_node()));
	for (int i = 0; i < 10; i++) {
		if (i % 2)
			MUST(T->cuGraphLaunch(executable, streams[i % STREAMS]));
		else
			launch(work, streams[i % STREAMS], reservation);
		MUST(T->cuStreamSynchronize(streams[i % STREAMS]));
		expected_total += 7;
		expected_sum += expected_total;
	}
	launch(of_second, streams[1], far); /* its factor is 0 */
	MUST(T->cuEventRecord(events[1], streams[1]));
	MUST(T->cuStreamWaitEvent(streams[2], events[1], 0));
	launch(follow, streams[2], reservation);
	MUST(T->cuEventRecord(events[3], streams[2]));
	MUST(T->cuEventSynchronize(events[3]));
	MUST(T->cuMemcpyDtoH_v2(got, reservation, sizeof got));
	MUST(T->cuMemcpyDtoH_v2(&of_far, far, sizeof of_far));
	MUST(T->cuMemcpyDtoH_v2(&sum, total, sizeof sum));
	MUST(T->cuCtxGetCurrent(&is));
	MUST(T->cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
	MUST(T->cuStreamGetPriority(streams[2], &priority));
	printf("# sum %llu total %llu, expected %llu %llu\n", (unsigned long long)got[0],
	       (unsigned long long)got[1], (unsigned long long)expected_sum,
	       (unsigned long long)expected_total);
	return round_of_compiled() && got[0] == expected_sum && got[1] == expected_total &&
	       sum == expected_total &&
	       of_far == 0 && is == context && limit == 4096 && priority == -1;
}

/* ---- a restart ------------------------------------------------------------------------------- */

static bool restart(void)
{
	struct gck_error err = {0};
	const char *unable = gck_cuda_records_unable();
	double start = now_ms(), saved, ended, loaded;
	int (*ns_end)(void);

	*(void **)&ns_end = dlsym(RTLD_DEFAULT, "gpu_ns_end");
	if (unable || gck_cuda_records_save(&err)) {
		printf("# %s\n", unable ? unable : err.text);
		return false;
	}
	saved = now_ms();
	if (ns_end())
		return false;
	ended = now_ms();
	if (gck_cuda_records_keep(&err)) {
		printf("# %s\n", err.text);
		return false;
	}
	load();
	loaded = now_ms();
	if (gck_cuda_records_replay(&err) || gck_cuda_records_complete(&err)) {
		printf("# %s\n", err.text);
		return false;
	}
	printf("replay_save %.1f ms\nreplay_end %.1f ms\nreplay_load %.1f ms\nreplay %.1f ms\n",
	       saved - start, ended - saved, loaded - ended, now_ms() - loaded);
	return true;
}

/* ---- what a call costs ----------------------------------------------------------------------- */

static double query_ns(const struct gck_cuda_real *t, CUstream stream)
{
	double start = now_ms();

	for (int i = 0; i < CALLS; i++)
		t->cuStreamQuery(stream);
	return (now_ms() - start) * 1e6 / CALLS;
}

static double launch_ns(const struct gck_cuda_real *t, CUfunction f, CUstream stream)
{
	CUdeviceptr at = reservation + 2 * granularity;
	void *params[] = {&at};
	double start = now_ms();

	for (int i = 0; i < LAUNCHES; i++)
		t->cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
	start = (now_ms() - start) * 1e6 / LAUNCHES;
	t->cuStreamSynchronize(stream);
	return start;
}

/* plain: the driver's own handles of streams[0] and of_second. */
static void measure(const char *when, CUstream plain, CUfunction f)
{
	query_ns(T, streams[0]);
	printf("replay_query_plain_%s %.1f ns\n", when, query_ns(&gck_cuda_driver, plain));
	printf("replay_query_%s %.1f ns\n", when, query_ns(T, streams[0]));
	launch_ns(T, of_second, streams[0]);
	printf("replay_launch_plain_%s %.1f ns\n", when, launch_ns(&gck_cuda_driver, f, plain));
	printf("replay_launch_%s %.1f ns\n", when, launch_ns(T, of_second, streams[0]));
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 3;
	float before = 0, after = 0;
	CUfunction f;
	CUstream s;

	load();
	gck_cuda_records_hook(&hooked);
	begin();
	ok(round_of_work(), "before a restart");
	MUST(T->cuEventRecord(events[2], streams[1]));
	MUST(T->cuEventSynchronize(events[2]));
	MUST(T->cuEventElapsedTime(&before, events[0], events[2]));
	measure("before", streams[0], of_second);
	for (int i = 0; i < rounds; i++) {
		if (!ok(restart(), "restart %d: all is made again", i + 1))
			return tap_done();
		ok(round_of_work(), "the program goes on with what it holds");
	}
	MUST(T->cuEventElapsedTime(&after, events[0], events[2]));
	ok(after > before - 0.01f && after < before + 0.01f,
	   "the time between events of before: %f, %f", (double)before, (double)after);
	MUST(gck_cuda_driver.cuStreamCreate(&s, 0));
	MUST(gck_cuda_driver.cuModuleGetFunction(
		&f, (CUmodule)(uintptr_t)records_now("module", (uintptr_t)second),
		"work"));
	measure("after", s, f);
	return tap_done();
}

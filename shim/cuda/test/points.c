/* SPDX-License-Identifier: Apache-2.0
 * Kernels with points: their order. A driver of a few functions notes what it is given, and runs it
 * when it is waited for; a kernel leaves while the word is set, and then goes on. */
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/allocation/allocate.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/capture.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/gate/follow.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/points/kernel.h"
#include "shim/cuda/points/launch.h"
#include "test/support/tap.h"

/* ---- the driver ----------------------------------------------------------------------------- */

enum { LEGACY = 1, B = 3, NB, BESIDE, STREAMS }; /* NB does not wait for LEGACY */
#define STREAM(n) ((CUstream)(uintptr_t)(n))
#define CONTEXT ((CUcontext)77)
#define DEVICE_TOTAL ((size_t)1 << 24)

struct kernel {
	const char *name;
	uint64_t variable[6];
	bool has_points;
};

static struct kernel kernels[] = {
	{"a", {0, 0, 0, 16, 0, 0}, true},
	{"b", {0, 0, 0, 64, 32, 1}, true},
	{"plain", {0}, false},
	{"g", {0, 0, 0, 16, 0, 2}, true}, /* it has barriers of the grid */
};

struct op {
	struct kernel *kernel; /* NULL: a write of a value */
	uint64_t value, *at;
	bool is_wide, is_cooperative;
	int argument;
};

static struct queue {
	struct op ops[64];
	int n;
} queues[STREAMS];

static char trace[2000];
static bool is_broken; /* a kernel has failed */
static bool asks_in_wait; /* a checkpoint comes while the program waits */
static bool captures[STREAMS];
static int allocated, freed;
struct gck_cuda_real gck_cuda_real;
_Atomic int gck_cuda_captures;
bool gck_cuda_is_loaded = true;
__thread struct gck_gate_thread *gck_gate_self __attribute__((tls_model("initial-exec")));
_Atomic uint32_t gck_gate_closed;

/* The word of the barriers of the grid, in the first record: zero at first, as it was left when a
 * launch goes on, and not zero then. */
static const char *meet(uint32_t *word, bool again)
{
	bool is_right = again == (*word != 0);

	++*word;
	return is_right ? "+" : "wrong";
}

/* A kernel leaves at its begin or in its middle; a launch that goes on finds what it left. */
static void run(const struct op *op)
{
	const uint64_t *v = op->kernel ? op->kernel->variable : NULL;
	char text[80];
	uint32_t *record;

	if (!op->kernel) {
		memcpy(op->at, &op->value, op->is_wide ? 8 : 4);
		return;
	}
	record = (uint32_t *)(uintptr_t)v[1];
	if (op->is_cooperative)
		strcat(trace, op->kernel->variable[5] & 2 && v[0]
				      ? meet(record + 3, v[2] >> 32) : "+");
	if (op->kernel->has_points && v[0] && *(uint32_t *)(uintptr_t)v[0]) {
		if (!(v[2] >> 32))
			*record = 1000 + op->argument;
		snprintf(text, sizeof text, "(%s%d) ", op->kernel->name, op->argument);
	} else if (op->kernel->has_points && v[0] && v[2] >> 32) {
		snprintf(text, sizeof text, "%s ", *record ? op->kernel->name : "nothing");
		if (*record)
			snprintf(text + strlen(text) - 1, 20, "%u ", *record - 1000);
		*record = 0;
	} else {
		snprintf(text, sizeof text, "%s%d ", op->kernel->name, op->argument);
	}
	strcat(trace, text);
}

static void give(CUstream stream, struct op op)
{
	struct queue *q = &queues[(uintptr_t)stream];

	q->ops[q->n++] = op;
}

static CUresult run_all(CUstream stream)
{
	struct queue *q = &queues[(uintptr_t)stream];

	if (is_broken)
		return CUDA_ERROR_LAUNCH_FAILED;
	if (asks_in_wait && stream != STREAM(BESIDE)) {
		asks_in_wait = false;
		gck_cuda_follow_ask(1);
	}
	for (int i = 0; i < q->n; i++)
		run(&q->ops[i]);
	q->n = 0;
	return CUDA_SUCCESS;
}

static CUresult query(CUstream stream)
{
	return queues[(uintptr_t)stream].n ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult launch_kernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			      unsigned by, unsigned bz, unsigned shared, CUstream stream,
			      void **parameters, void **extra)
{
	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
	give(stream, (struct op){(struct kernel *)f, .argument = *(int *)parameters[0]});
	return CUDA_SUCCESS;
}

static CUresult launch_cooperative(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
				   unsigned by, unsigned bz, unsigned shared, CUstream stream,
				   void **parameters)
{
	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
	give(stream, (struct op){(struct kernel *)f, .is_cooperative = true,
				 .argument = *(int *)parameters[0]});
	return CUDA_SUCCESS;
}

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction f, void **parameters,
			  void **extra)
{
	bool is_cooperative = false;

	(void)extra;
	for (unsigned i = 0; i < config->numAttrs; i++)
		is_cooperative |= config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
	give(config->hStream, (struct op){(struct kernel *)f, .is_cooperative = is_cooperative,
					  .argument = *(int *)parameters[0]});
	return CUDA_SUCCESS;
}

static CUresult write_64(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags)
{
	(void)flags;
	give(stream, (struct op){.value = value, .at = (uint64_t *)at, .is_wide = true});
	return CUDA_SUCCESS;
}

static CUresult write_32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
	(void)flags;
	give(stream, (struct op){.value = value, .at = (uint64_t *)at});
	return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr at, unsigned char value, size_t n, CUstream stream)
{
	(void)stream;
	memset((void *)at, value, n);
	return CUDA_SUCCESS;
}

static CUresult copy(void *to, CUdeviceptr from, size_t n, CUstream stream)
{
	(void)stream;
	memcpy(to, (void *)from, n);
	return CUDA_SUCCESS;
}

static CUresult flags_of(CUstream stream, unsigned *flags)
{
	*flags = (uintptr_t)stream == NB ? CU_STREAM_NON_BLOCKING : 0;
	return CUDA_SUCCESS;
}

static CUresult name_of(const char **name, CUfunction f)
{
	*name = ((struct kernel *)f)->name;
	return CUDA_SUCCESS;
}

static CUresult module_of(CUmodule *module, CUfunction f)
{
	*module = (CUmodule)f;
	return CUDA_SUCCESS;
}

static CUresult variable_of(CUdeviceptr *at, size_t *size, CUmodule module, const char *name)
{
	struct kernel *k = (struct kernel *)module;

	(void)name;
	*at = (CUdeviceptr)k->variable;
	*size = sizeof k->variable;
	return k->has_points ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult parameter(CUfunction f, size_t i, size_t *offset, size_t *size)
{
	(void)f;
	*offset = 0;
	*size = 4;
	return i ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult context_of(CUstream stream, CUcontext *context)
{
	(void)stream;
	*context = CONTEXT;
	return CUDA_SUCCESS;
}

static CUresult current(CUcontext *context)
{
	*context = CONTEXT;
	return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
	return context == CONTEXT ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult mode(CUstreamCaptureMode *m)
{
	(void)m;
	return CUDA_SUCCESS;
}

static CUresult new_stream(CUstream *stream, unsigned flags)
{
	(void)flags;
	*stream = STREAM(BESIDE);
	return CUDA_SUCCESS;
}

static CUresult device(CUdevice *d)
{
	*d = 0;
	return CUDA_SUCCESS;
}

static CUresult total(size_t *n, CUdevice d)
{
	(void)d;
	*n = DEVICE_TOTAL;
	return CUDA_SUCCESS;
}

static CUresult function_of(CUfunction *f, CUmodule module, const char *name)
{
	*f = NULL;
	return strcmp(name, "gpuckpt$points") || !((struct kernel *)module)->has_points
	       ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

/* ---- what is around ------------------------------------------------------------------------- */

CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t n)
{
	*at = (CUdeviceptr)malloc(n); /* not zeros */
	memset((void *)*at, 0x55, n);
	allocated++;
	return CUDA_SUCCESS;
}

bool gck_cuda_allocation_find(CUdeviceptr at, struct gck_cuda_allocation *a)
{
	a->base = at;
	return true;
}

CUresult gck_cuda_allocation_give_now(const struct gck_cuda_allocation *a)
{
	free((void *)a->base);
	freed++;
	return CUDA_SUCCESS;
}

bool gck_cuda_has(const void *real)
{
	return real != NULL;
}

bool gck_cuda_capture_has(CUstream stream)
{
	return captures[(uintptr_t)stream];
}

bool gck_cuda_capture_pause(void)
{
	return true;
}

void gck_cuda_capture_go_on(void)
{
}

int64_t gck_cuda_now_ns(void)
{
	return 0;
}

int gck_cuda_fail(struct gck_error *err, const char *function, CUresult rc)
{
	return gck_fail(err, EIO, "%s: %d", function, rc);
}

void gck_gate_wait(struct gck_gate_thread *t)
{
	(void)t;
}

void gck_gate_left(void)
{
}

struct gck_gate_thread *gck_gate_thread_new(const struct gck_gate_owner *owner)
{
	(void)owner;
	return NULL;
}

const struct gck_gate_owner gck_gate_owner;

/* ---- the test ------------------------------------------------------------------------------- */

static void launch_with(int stream, int kernel, int argument, CUlaunchAttribute *attributes,
			unsigned n)
{
	CUlaunchConfig config = {.gridDimX = 4, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 8,
				 .blockDimY = 1, .blockDimZ = 1, .sharedMemBytes = 100,
				 .attrs = attributes, .numAttrs = n};
	void *parameters[] = {&argument};

	if (gck_cuda_points_launch(STREAM(stream), &config, (CUfunction)&kernels[kernel],
				   parameters, NULL))
		abort();
}

static void launch(int stream, int kernel, int argument)
{
	launch_with(stream, kernel, argument, NULL, 0);
}

/* What ran since the last look. */
static const char *ran(void)
{
	static char copy_of[sizeof trace];

	strcpy(copy_of, trace);
	trace[0] = 0;
	return copy_of;
}

static const char *finish(void)
{
	for (int i = 0; i < STREAMS; i++)
		run_all(STREAM(i));
	return ran();
}

/* A checkpoint: all streams run until their kernels have left. */
static const char *checkpoint(void)
{
	gck_cuda_follow_ask(1);
	return finish();
}

static void go_on(const char *name)
{
	struct gck_error err = {0};

	is_int(gck_cuda_follow_settle(1, &err), 0, name);
}

static void orders(void)
{
	launch(B, 0, 1);
	launch(B, 0, 2);
	launch(NB, 1, 3);
	ok(all_of(gck_cuda_follow_running(), !trace[0]),
	   "three launches of kernels with points are queued, with nothing awaited");
	is_str(checkpoint(), "(a1) (a2) (b3) ", "they leave");
	is_int(gck_cuda_follow_query(STREAM(B), gck_cuda_follow_age, CUDA_SUCCESS),
	       CUDA_ERROR_NOT_READY, "their stream is not done");
	go_on("they are launched again");
	is_str(checkpoint(), "(a1) (a2) (b3) ", "they leave a second time");
	go_on("they are launched again");
	is_str(finish(), "a1 a2 b3 ", "each goes on with its own state, in its stream's order");
	gck_cuda_follow_all();
	ok(!gck_cuda_has_pointed(), "when they were awaited, they are done");
}

static void holds_back(void)
{
	launch(B, 0, 1);
	launch(NB, 1, 2);
	launch(B, 2, 3);
	is_str(ran(), "a1 ", "a plain kernel is given to its stream when that is done");
	launch(LEGACY, 2, 4);
	is_str(finish(), "plain4 plain3 b2 ", "the default stream does not wait for such a stream");
	gck_cuda_follow_all();
	launch(B, 0, 5);
	gck_cuda_follow(STREAM(LEGACY));
	is_str(ran(), "a5 ", "but for one that waits for it");
	launch(LEGACY, 0, 6);
	gck_cuda_follow(STREAM(NB));
	is_str(ran(), "", "a stream of its own does not wait for the default stream");
	gck_cuda_follow(STREAM(B));
	is_str(ran(), "a6 ", "others do");
	launch(B, 0, 7);
	launch(NB, 0, 8);
	is_str(ran(), "a7 ", "a kernel has one stream at a time");
	gck_cuda_follow_all();
	ran();
}

static void done_before(void)
{
	launch(B, 0, 1);
	run_all(STREAM(B));
	launch(B, 0, 2);
	is_str(checkpoint(), "a1 (a2) ", "a kernel was done before the word came");
	go_on("both are launched again");
	is_str(finish(), "nothing a2 ", "what was done is not done again");
	gck_cuda_follow_all();
	launch(B, 0, 3);
	is_str(finish(), "a3 ", "a later launch begins anew");
	gck_cuda_follow_all();
	for (int i = 0; i < 20; i++)
		launch(B, 0, i);
	finish();
	is_str(checkpoint(), "", "launches that were not awaited");
	go_on("are launched again");
	finish();
	gck_cuda_follow_all();
	ran();
}

static void asked_in_wait(void)
{
	launch(B, 0, 1);
	asks_in_wait = true;
	gck_cuda_follow(STREAM(B));
	is_str(ran(), "(a1) a1 ", "who waits as a kernel leaves waits until it has gone on");
}

static void cooperative(void)
{
	CUlaunchAttribute two[] = {gck_cuda_points_cooperative,
				   {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY}};

	launch_with(B, 3, 1, &gck_cuda_points_cooperative, 1);
	launch_with(B, 3, 2, two, 2);
	launch_with(NB, 0, 3, &gck_cuda_points_cooperative, 1);
	is_str(checkpoint(), "+(g1) +(g2) +(a3) ", "cooperative launches leave");
	go_on("they are launched again");
	is_str(checkpoint(), "+(g1) +(g2) +(a3) ", "cooperatively, and leave a second time");
	go_on("they are launched again");
	launch(B, 2, 4);
	is_str(finish(), "+g1 +g2 plain4 +a3 ", "a plain kernel behind them is held back");
	gck_cuda_follow_all();
	for (int i = 0; i < 2 * GCK_POINTS_SLOTS; i++)
		launch_with(B, 3, i, &gck_cuda_points_cooperative, 1);
	finish();
	gck_cuda_follow_all();
	launch_with(B, 3, 5, &gck_cuda_points_cooperative, 1);
	is_str(finish(), "+g5 ", "barriers of the grid begin at zero in each launch");
	gck_cuda_follow_all();
}

static void fails(void)
{
	launch(B, 0, 1);
	is_broken = true;
	gck_cuda_follow_all();
	is_broken = false;
	ok(!gck_cuda_has_pointed(), "nothing waits for a kernel that has failed");
	finish();
}

static void stays(void)
{
	CUlaunchConfig large = {.gridDimX = 1 << 20, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 8,
				.blockDimY = 1, .blockDimZ = 1};
	int argument = 9;
	void *parameters[] = {&argument};

	launch(NB, 1, 1);
	captures[B] = true;
	launch(B, 1, 2);
	captures[B] = false;
	is_str(ran(), "b1 ", "a kernel goes into a graph: its launches before are awaited");
	run_all(STREAM(BESIDE));
	ok(!kernels[1].variable[0], "from then on it never leaves");
	launch(NB, 1, 3);
	is_str(checkpoint(), "b2 b3 ", "and a checkpoint waits for it");
	gck_cuda_points_launch(STREAM(B), &large, (CUfunction)&kernels[0], parameters, NULL);
	ok(all_of(!gck_cuda_has_pointed(), !strcmp(finish(), "a9 ")),
	   "nor does one that would need too much memory");
}

static void ends(void)
{
	gck_cuda_follow_unload((CUmodule)&kernels[0], NULL);
	is_int(freed, allocated - 3, "an unloaded module's records are freed");
	launch(B, 0, 1);
	is_str(checkpoint(), "(a1) ", "the module is loaded again, and its kernel leaves again");
	gck_cuda_points_forget(CONTEXT);
	go_on("its context ends");
	is_str(finish(), "", "so nothing goes on");
}

int main(void)
{
	gck_cuda_real = (struct gck_cuda_real){
		.cuStreamSynchronize = run_all, .cuStreamQuery = query,
		.cuLaunchKernel = launch_kernel, .cuLaunchKernelEx = launch_ex,
		.cuLaunchCooperativeKernel = launch_cooperative,
		.cuStreamWriteValue64_v2 = write_64,
		.cuStreamWriteValue32_v2 = write_32, .cuMemsetD8Async = fill,
		.cuMemcpyDtoHAsync_v2 = copy, .cuStreamGetFlags = flags_of,
		.cuFuncGetName = name_of, .cuFuncGetModule = module_of,
		.cuModuleGetGlobal_v2 = variable_of, .cuFuncGetParamInfo = parameter,
		.cuStreamGetCtx = context_of, .cuCtxGetCurrent = current,
		.cuCtxPushCurrent_v2 = push, .cuCtxPopCurrent_v2 = current,
		.cuThreadExchangeStreamCaptureMode = mode, .cuStreamCreate = new_stream,
		.cuCtxGetDevice = device, .cuDeviceTotalMem_v2 = total,
		.cuModuleGetFunction = function_of,
	};
	gck_cuda_points_begin();
	gck_cuda_points_module((CUmodule)&kernels[2]);
	ok(!gck_cuda_has_points(), "a module without points");
	gck_cuda_points_module((CUmodule)&kernels[0]);
	ok(gck_cuda_has_points(), "a module with points");
	orders();
	holds_back();
	done_before();
	asked_in_wait();
	cooperative();
	fails();
	stays();
	ends();
	return tap_done();
}

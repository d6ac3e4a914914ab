/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: modules, kernels, host functions, values in memory, capture and graphs. */
#define _GNU_SOURCE
#include "test/support/driver/bodies.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct CUmod_st {
	struct CUmod_st *next; /* of all that are loaded */
	CUcontext context;
	struct CUfunc_st *functions;
	CUdeviceptr managed; /* its __managed__ variable; 0: none */
	char *text, *variables; /* of PTX; NULL */
};

struct CUfunc_st {
	struct CUfunc_st *next;
	void (*run)(void **params, const struct fake_grid *grid);
	int params;
};

struct CUgraph_st {
	struct fake_op *ops;
	size_t n;
};

struct CUgraphExec_st {
	struct CUgraph_st graph;
};

/* ---- modules -------------------------------------------------------------------------------- */

#define PTX_MODULES ((size_t)16 << 20) /* bytes of addresses for all modules' variables */

static char *places;               /* of modules of PTX: a page each, as they come and go */
static bool taken[PTX_MODULES / 4096];
static struct CUmod_st *modules;

static CUresult take_place_of_module(CUmodule module)
{
	size_t i = 0;

	if (!places)
		places = mmap(NULL, PTX_MODULES, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	while (i < PTX_MODULES / 4096 && taken[i])
		i++;
	if (i == PTX_MODULES / 4096)
		return CUDA_ERROR_OUT_OF_MEMORY;
	taken[i] = true;
	module->variables = places + 4096 * i;
	mmap(module->variables, 4096, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	return CUDA_SUCCESS;
}

/* The image "managed" has a __managed__ variable. */
CUresult fake_cuModuleLoadData(CUmodule *module, const void *image)
{
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*module = calloc(1, sizeof **module);
	(*module)->context = fake_current();
	fake_lock();
	(*module)->next = modules;
	modules = *module;
	fake_unlock();
	if (!strncmp(image, ".version", 8)) {
		(*module)->text = strdup(image);
		return take_place_of_module(*module);
	}
	return strcmp(image, "managed") ? CUDA_SUCCESS :
	       fake_cuMemAllocManaged(&(*module)->managed, 8, CU_MEM_ATTACH_GLOBAL);
}

CUresult fake_cuModuleLoad(CUmodule *module, const char *path)
{
	return fake_cuModuleLoadData(module, path);
}

/* With the lock. */
static void unload(const struct CUmod_st *module)
{
	struct CUmod_st **at = &modules;

	while (*at && *at != module)
		at = &(*at)->next;
	if (*at)
		*at = module->next;
	if (module->variables)
		taken[(module->variables - places) / 4096] = false;
}

void fake_context_modules_end(CUcontext context)
{
	const struct CUmod_st *next;

	for (const struct CUmod_st *m = modules; m; m = next) {
		next = m->next;
		if (m->context == context)
			unload(m);
	}
}

CUresult fake_cuModuleUnload(CUmodule module)
{
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	fake_lock();
	unload(module);
	fake_unlock();
	return module->managed ? fake_cuMemFree_v2(module->managed) : CUDA_SUCCESS;
}

CUresult fake_cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	char variable[256] = "";
	struct CUfunc_st *f = calloc(1, sizeof *f);
	const int *params;

	strncat(strncat(variable, name, sizeof variable - 8), "_params", 8);
	params = dlsym(RTLD_DEFAULT, variable);
	*(void **)&f->run = dlsym(RTLD_DEFAULT, name);
	if (!f->run || !params) {
		free(f);
		return CUDA_ERROR_NOT_FOUND;
	}
	f->params = *params;
	f->next = module->functions;
	module->functions = f;
	*function = f;
	return CUDA_SUCCESS;
}

/* The variable's place in its module: variables come in the order of the text. NULL: none. */
static const void *ptx_variable(const struct CUmod_st *module, const char *name)
{
	char ends[72];
	const char *end, *line;
	size_t n = 0;

	snprintf(ends, sizeof ends, " %s;\n", name);
	end = strstr(module->text, ends);
	if (!end)
		return NULL;
	for (line = module->text; line < end; line = strchr(line, '\n') + 1)
		n += !strncmp(line, ".visible .global ", 17) ||
		     !strncmp(line, ".visible .const ", 16) || !strncmp(line, ".const ", 7);
	return module->variables + 8 * n;
}

/* A __device__ variable is a variable of the program. */
CUresult fake_cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule module,
				   const char *name)
{
	const void *at = module->text ? ptx_variable(module, name)
					: module->managed ? (void *)(uintptr_t)module->managed
					 : dlsym(RTLD_DEFAULT, name);

	if (address)
		*address = (CUdeviceptr)(uintptr_t)at;
	if (size)
		*size = 8;
	return at ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* A library has one module for all contexts. */
struct CUlib_st {
	CUmodule module;
};

CUresult fake_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit,
				void **jit_values, unsigned int njit, CUlibraryOption *options,
				void **values, unsigned int n)
{
	(void)jit;
	(void)jit_values;
	(void)options;
	(void)values;
	if (njit || n)
		return CUDA_ERROR_NOT_SUPPORTED;
	*library = calloc(1, sizeof **library);
	return fake_cuModuleLoadData(&(*library)->module, code);
}

CUresult fake_cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	*module = library->module;
	return CUDA_SUCCESS;
}

CUresult fake_cuLibraryUnload(CUlibrary library)
{
	CUresult rc = fake_cuModuleUnload(library->module);

	free(library);
	return rc;
}

/* ---- launches ------------------------------------------------------------------------------- */

static CUresult give(CUstream stream, const struct fake_op *op)
{
	CUresult rc;

	fake_lock();
	rc = fake_give(fake_stream(stream), op);
	fake_unlock();
	return rc;
}

/* A kernel of FAKE_BLOCKS blocks has the device to itself: other kernels begin after its end.
 * Copies do not wait. */
static void take_place(bool all, unsigned *running, unsigned *alone)
{
	fake_lock();
	while (*alone || (all && *running))
		fake_wait();
	++*(all ? alone : running);
	fake_unlock();
}

static void run_kernel(struct fake_op *op)
{
	static unsigned running[FAKE_MAX_DEVICES], alone[FAKE_MAX_DEVICES];
	const struct CUfunc_st *f = (void *)(uintptr_t)op->args[0];
	CUdevice device = op->stream->context->device;
	bool all = op->grid.grid[0] >= FAKE_BLOCKS;
	void *params[11];

	for (int i = 0; i < f->params && i < 11; i++)
		params[i] = &op->args[1 + i];
	take_place(all, &running[device], &alone[device]);
	if (op->grid.shared <= FAKE_SHARED_MOST)
		f->run(params, &op->grid);
	fake_lock();
	if (op->grid.shared > FAKE_SHARED_MOST)
		op->stream->context->broken = CUDA_ERROR_LAUNCH_FAILED;
	--*(all ? &alone[device] : &running[device]);
	fake_changed();
	fake_unlock();
}

CUresult fake_cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			     unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			     CUstream stream, void **params, void **extra)
{
	struct fake_op op = {.run = run_kernel, .args = {(uintptr_t)f},
			     .grid = {{gx, gy, gz}, {bx, by, bz}, shared}};

	if (!f || extra || f->params > 11)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < f->params; i++)
		memcpy(&op.args[1 + i], params[i], 8);
	return give(stream, &op);
}

static void run_host(struct fake_op *op)
{
	((CUhostFn)(uintptr_t)op->args[0])((void *)(uintptr_t)op->args[1]);
}

CUresult fake_cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *data)
{
	return give(stream, &(struct fake_op){.run = run_host,
					      .args = {(uintptr_t)fn, (uintptr_t)data}});
}

static void run_callback(struct fake_op *op)
{
	((CUstreamCallback)(uintptr_t)op->args[0])((CUstream)(uintptr_t)op->args[2], CUDA_SUCCESS,
						   (void *)(uintptr_t)op->args[1]);
}

CUresult fake_cuStreamAddCallback(CUstream stream, CUstreamCallback fn, void *data,
				  unsigned int flags)
{
	(void)flags;
	return give(stream, &(struct fake_op){.run = run_callback,
			.args = {(uintptr_t)fn, (uintptr_t)data, (uintptr_t)stream}});
}

/* ---- values in memory ----------------------------------------------------------------------- */

static void run_wait_value(struct fake_op *op)
{
	const _Atomic uint32_t *at = (void *)(uintptr_t)op->args[0];
	struct timespec nap = {0, 100000};

	while ((int32_t)(*at - (uint32_t)op->args[1]) < 0) /* as CU_STREAM_WAIT_VALUE_GEQ */
		nanosleep(&nap, NULL);
}

CUresult fake_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
				     unsigned int flags)
{
	if (flags != CU_STREAM_WAIT_VALUE_GEQ)
		return CUDA_ERROR_NOT_SUPPORTED;
	return give(stream, &(struct fake_op){.run = run_wait_value, .args = {address, value}});
}

static void run_write_value(struct fake_op *op)
{
	*(_Atomic uint32_t *)(uintptr_t)op->args[0] = (uint32_t)op->args[1];
}

CUresult fake_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
				      unsigned int flags)
{
	(void)flags;
	return give(stream, &(struct fake_op){.run = run_write_value, .args = {address, value}});
}

/* ---- capture and graphs --------------------------------------------------------------------- */

CUresult fake_graph_add(struct CUgraph_st *g, const struct fake_op *op)
{
	struct fake_op *ops = realloc(g->ops, (g->n + 1) * sizeof *ops);

	if (!ops || op->block)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	g->ops = ops;
	g->ops[g->n++] = *op;
	return CUDA_SUCCESS;
}

CUresult fake_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before;

	fake_current();
	before = fake_capture_mode;
	fake_capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

CUresult fake_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	struct CUstream_st *s;

	fake_lock();
	s = fake_stream(stream);
	if (s) {
		s->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
		s->capture_mode = mode;
		s->graph = calloc(1, sizeof *s->graph);
	}
	fake_unlock();
	return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult fake_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CUresult rc = CUDA_SUCCESS;
	struct CUstream_st *s;

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	fake_lock();
	s = fake_stream(stream);
	if (!s || s->capture == CU_STREAM_CAPTURE_STATUS_NONE) {
		rc = CUDA_ERROR_ILLEGAL_STATE;
	} else {
		if (s->capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
			rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		*graph = rc ? NULL : s->graph;
		s->capture = CU_STREAM_CAPTURE_STATUS_NONE;
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	const struct CUstream_st *s, *c;
	CUresult rc = CUDA_SUCCESS;

	fake_lock();
	s = fake_stream(stream);
	c = s ? fake_capturing(s->context) : NULL;
	if (!s)
		rc = CUDA_ERROR_INVALID_HANDLE;
	else if (s == s->context->legacy && c && !(c->flags & CU_STREAM_NON_BLOCKING))
		rc = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*status = s ? s->capture : CU_STREAM_CAPTURE_STATUS_NONE;
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
					  unsigned long long flags)
{
	(void)flags;
	*exec = calloc(1, sizeof **exec);
	for (size_t i = 0; i < graph->n; i++)
		fake_graph_add(&(*exec)->graph, &graph->ops[i]);
	return CUDA_SUCCESS;
}

CUresult fake_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	CUresult rc = CUDA_SUCCESS;

	fake_lock();
	for (size_t i = 0; !rc && i < exec->graph.n; i++)
		rc = fake_give(fake_stream(stream), &exec->graph.ops[i]);
	fake_unlock();
	return rc;
}

CUresult fake_cuGraphDestroy(CUgraph graph)
{
	free(graph->ops);
	free(graph);
	return CUDA_SUCCESS;
}

/* A launch runs a copy, so this is safe. */
CUresult fake_cuGraphExecDestroy(CUgraphExec exec)
{
	free(exec->graph.ops);
	free(exec);
	return CUDA_SUCCESS;
}

/* ---- loaded anew ----------------------------------------------------------------------------- */

void fake_anew(void)
{
	fake_lock();
	fake_contexts_anew();
	fake_blocks_anew();
	fake_reservations_anew();
	fake_unlock();
}

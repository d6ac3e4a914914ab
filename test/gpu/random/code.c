/* SPDX-License-Identifier: Apache-2.0
 * Modules and libraries of PTX, of the cubin that the driver links of it, and of the fatbin that
 * GPU_RANDOM_FATBIN names; their functions, kernels and variables; launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu/random/ptx.h"
#include "test/gpu/random/random.h"

static const struct {
	const char *name;
	unsigned arguments;
} kernels[KINDS_OF_KERNELS] = {
	[ADD] = {"add", 2}, [MIX] = {"mix", 3}, [TOTAL] = {"grow", 2}, [JUMP] = {"jump", 1},
	[FOLLOW] = {"follow", 2}, [SHARED] = {"shared", 3}, [LINEAR] = {"linear", 3},
	[LINE] = {"line", 3}, [PLANE] = {"plane", 3}, [BODY] = {"body", 3}, [LEVEL] = {"level", 3},
	[PAINT] = {"paint", 3},
};

enum { FACTOR, PLACE, OTHERS };
static const char *const variables[] = {"factor", "place", "total", "hidden", "before", "behind"};
#define VARIABLES ((int)(sizeof variables / sizeof *variables))

static const void *images[4];
static int n_images;

/* ---- what is loaded -------------------------------------------------------------------------- */

static const void *read_fatbin(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *image = calloc(1, 1 << 20);
	size_t n = f ? fread(image, 1, 1 << 20, f) : 0;

	say("fatbin %d", n > 0);
	if (f)
		fclose(f);
	return n ? image : NULL;
}

static const void *link_cubin(void)
{
	CUlinkState link = NULL;
	size_t size = 0;
	void *made = NULL, *cubin = NULL;

	if (DO(cuLinkCreate, 0, NULL, NULL, &link))
		return NULL;
	if (!DO(cuLinkAddData, link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)ptx_first,
		strlen(ptx_first) + 1, "first", 0, NULL, NULL) &&
	    !DO(cuLinkComplete, link, &made, &size) && size) {
		cubin = malloc(size);
		memcpy(cubin, made, size);
	}
	DO(cuLinkDestroy, link);
	return cubin;
}

static const void *any_image(void)
{
	return images[draw((unsigned)n_images)];
}

static void load_module(void)
{
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS,
				  CU_JIT_ERROR_LOG_BUFFER};
	static char log[64];
	void *values[] = {(void *)sizeof log, (void *)(uintptr_t)(32 + draw(4) * 8), log};
	const void *image = any_image();
	CUmodule m = NULL;

	if (!(draw(2) ? DO(cuModuleLoadDataEx, &m, image, 3, options, values)
		      : DO(cuModuleLoadData, &m, image)))
		hold(MODULE, m, current());
}

/* `flag`: a library's own. */
static void unload_module(void)
{
	int i = any(MODULE);

	if (i >= 0 && !objects[i].flag && draw(2) && !DO(cuModuleUnload, H(CUmodule, i))) {
		end(i);
		tidy_graphs();
	}
}

static void load_library(void)
{
	CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
	const void *image = any_image();
	void *yes = (void *)(uintptr_t)1;
	CUlibrary l = NULL;

	if (!DO(cuLibraryLoadData, &l, image, NULL, NULL, 0, &preserved, &yes, draw(2)))
		hold(LIBRARY, l, -1);
}

static void unload_library(void)
{
	int i = any(LIBRARY);

	if (i >= 0 && draw(3) == 0 && !DO(cuLibraryUnload, H(CUlibrary, i))) {
		end(i);
		tidy_graphs();
	}
}

/* The object that has this handle; it is added, if there is none. */
static int note(enum kind kind, uint64_t handle, int of)
{
	int i = n_objects - 1;

	while (i >= 0 && !(is(i, kind) && objects[i].handle == handle))
		i--;
	say("known %d", i >= 0);
	return i < 0 ? hold_number(kind, handle, of) : i;
}

static void note_function(enum kind kind, uint64_t handle, int of, int what)
{
	int i = note(kind, handle, of);

	if (i >= 0)
		objects[i].what = what;
}

static void get_function(void)
{
	int i = any_here(MODULE), what = (int)draw(KINDS_OF_KERNELS);
	CUfunction f = NULL;
	const char *name;

	if (i < 0 || DO(cuModuleGetFunction, &f, H(CUmodule, i), kernels[what].name))
		return;
	note_function(FUNCTION, (uintptr_t)f, i, what);
	if (!DO(cuFuncGetName, &name, f))
		say("%s", name);
}

static void get_kernel(void)
{
	int i = any(LIBRARY), what = (int)draw(KINDS_OF_KERNELS);
	CUkernel k = NULL;
	const char *name;
	unsigned n = 0;

	if (i < 0 || DO(cuLibraryGetKernel, &k, H(CUlibrary, i), kernels[what].name))
		return;
	note_function(KERNEL, (uintptr_t)k, i, what);
	if (!DO(cuKernelGetName, &name, k))
		say("%s", name);
	if (!DO(cuLibraryGetKernelCount, &n, H(CUlibrary, i)))
		say("%u kernels", n);
}

static void get_function_of_kernel(void)
{
	int i = any(KERNEL);
	CUfunction f = NULL;

	if (i >= 0 && !DO(cuKernelGetFunction, &f, H(CUkernel, i)))
		note_function(FUNCTION, (uintptr_t)f, objects[i].of, objects[i].what);
}

static void get_part(void)
{
	int i = any(LIBRARY), part;
	CUmodule m = NULL;

	if (i < 0 || DO(cuLibraryGetModule, &m, H(CUlibrary, i)))
		return;
	part = note(MODULE, (uintptr_t)m, i);
	if (part >= 0)
		objects[part].flag = true;
}

/* ---- variables ------------------------------------------------------------------------------- */

static void get_variable(void)
{
	int of_library = draw(2), i = of_library ? any(LIBRARY) : any_here(MODULE), v;
	int which = (int)draw((unsigned)VARIABLES);
	CUdeviceptr at = 0;
	size_t size = 0;

	if (i < 0 || (of_library ? DO(cuLibraryGetGlobal, &at, &size, H(CUlibrary, i),
				      variables[which])
				 : DO(cuModuleGetGlobal, &at, &size, H(CUmodule, i),
				      variables[which])))
		return;
	say("size %zu", size);
	v = note(VARIABLE, at, i);
	if (v >= 0)
		objects[v].what = which;
}

/* It holds an address of memory, or a number. */
static void set_variable(void)
{
	int v = any_here(VARIABLE), m = any_memory();
	uint64_t value = draw(1000);

	if (v < 0)
		return;
	if (objects[v].what == PLACE) {
		value = m < 0 ? 0 : objects[m].handle + 8 * draw(LEAST / 8);
		objects[v].on = m;
	}
	if (objects[v].what != PLACE && draw(3) == 0)
		DO(cuMemsetD32, H(CUdeviceptr, v), (unsigned)value, 2);
	else
		DO(cuMemcpyHtoD, H(CUdeviceptr, v), &value, sizeof value);
	DO(cuCtxSynchronize);
}

static void look_at_variable(int v)
{
	uint64_t value = 0;

	if (v >= 0 && objects[v].what != PLACE &&
	    !DO(cuMemcpyDtoH, &value, H(CUdeviceptr, v), sizeof value))
		say("%s %llu", variables[objects[v].what], (unsigned long long)value);
}

static void look_at_any(void)
{
	look_at_variable(any_here(VARIABLE));
}

void code_digests(void)
{
	for (int i = 0; i < n_objects; i++) {
		if (is(i, VARIABLE) && be_in(objects[i].context)) {
			look_at_variable(i);
			be_back();
		}
	}
}

/* ---- launches -------------------------------------------------------------------------------- */

static bool has_kind(int i, int what)
{
	return objects[i].what == what || (what == ANYWHERE && objects[i].what < FOLLOW);
}

int any_function(int what)
{
	unsigned n = 0;
	int found = -1;

	for (int i = 0; i < n_objects && current() >= 0; i++) {
		if ((is(i, KERNEL) || (is(i, FUNCTION) && objects[i].context == current())) &&
		    has_kind(i, what) && draw(++n) == 0)
			found = i;
	}
	return found;
}

static void set_arguments(struct launch *l)
{
	l->size = sizeof(uint64_t) * kernels[objects[l->function].what].arguments;
	for (int i = 0; i < MOST_ARGUMENTS; i++)
		l->pointers[i] = &l->arguments[i];
	l->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
	l->extra[1] = l->arguments;
	l->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
	l->extra[3] = &l->size;
	l->extra[4] = CU_LAUNCH_PARAM_END;
}

bool choose_launch(struct launch *l, int what)
{
	*l = (struct launch){.function = any_function(what), .memory = any_memory(), .other = -1,
			     .blocks = 1, .threads = 1};
	if (l->function < 0 || l->memory < 0)
		return false;
	set_arguments(l);
	l->arguments[0] = objects[l->memory].handle + 8 * draw(LEAST / 8);
	l->arguments[1] = draw(1000);
	if (objects[l->function].what == MIX) {
		l->other = any_other_memory(l->memory, -1);
		l->arguments[0] = objects[l->memory].handle;
		l->arguments[1] = objects[l->other < 0 ? l->memory : l->other].handle;
		l->arguments[2] = draw(1000);
		l->threads = 32;
	}
	if (objects[l->function].what == ADD || objects[l->function].what == MIX)
		l->blocks = 1 + draw(2);
	return true;
}

CUresult launch(struct launch *l, unsigned shared, CUstream stream)
{
	CUlaunchConfig config = {l->blocks, 1, 1, l->threads, 1, 1, shared, stream, NULL, 0};
	CUfunction f = H(CUfunction, l->function);
	bool behind = draw(4) == 0; /* the arguments lie behind each other */
	void **pointers = behind ? NULL : l->pointers, **extra = behind ? l->extra : NULL;

	switch (draw(8)) {
	case 0:
		return DO(cuLaunchKernelEx, &config, f, pointers, extra);
	case 1:
		return DO(cuLaunchCooperativeKernel, f, l->blocks, 1, 1, l->threads, 1, 1, shared,
			  stream, l->pointers);
	default:
		return DO(cuLaunchKernel, f, l->blocks, 1, 1, l->threads, 1, 1, shared, stream,
			  pointers, extra);
	}
}

/* With a variable in place of memory, now and then. */
static void launch_any(void)
{
	int s = draw(4) ? any_here(STREAM) : -1, v = any_here(VARIABLE);
	struct launch l;

	if (!choose_launch(&l, ANYWHERE))
		return;
	if (v >= 0 && objects[v].what >= OTHERS && objects[l.function].what != MIX && draw(3) == 0)
		l.arguments[0] = objects[v].handle;
	launch(&l, 0, s < 0 && draw(2) ? CU_STREAM_PER_THREAD : H(CUstream, s));
	finish(s);
}

/* Through an address that a variable holds. */
static void launch_follow(void)
{
	int f = any_function(FOLLOW), v = any_here(VARIABLE), s = any_here(STREAM);
	struct launch l;

	if (f < 0 || v < 0 || objects[v].what != PLACE ||
	    (objects[v].on >= 0 && !objects[objects[v].on].alive) || !choose_launch(&l, FOLLOW))
		return;
	l.arguments[0] = objects[v].handle;
	launch(&l, 0, H(CUstream, s));
	finish(s);
}

/* More shared memory than there is needs the attribute. */
static void launch_shared(void)
{
	unsigned bytes = 1024 * (1 + draw(draw(2) ? 48 : 100));
	int s = any_here(STREAM);
	struct launch l;

	if (!choose_launch(&l, SHARED))
		return;
	l.arguments[2] = bytes;
	if (draw(2) && is(l.function, FUNCTION))
		DO(cuFuncSetAttribute, H(CUfunction, l.function),
		   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
	else if (draw(2) && is(l.function, KERNEL))
		DO(cuKernelSetAttribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
		   (int)bytes, H(CUkernel, l.function), 0);
	launch(&l, bytes, H(CUstream, s));
	finish(s);
}

static void look_at_function(void)
{
	int i = any_here(FUNCTION), k = any(KERNEL), v = 0;
	CUfunction_attribute a = (CUfunction_attribute)draw(CU_FUNC_ATTRIBUTE_MAX);
	size_t offset = 0, size = 0;
	CUmodule m = NULL;

	if (i >= 0 && !DO(cuFuncGetAttribute, &v, a, H(CUfunction, i)))
		say("attribute %d of %s %d", (int)a, kernels[objects[i].what].name, v);
	if (k >= 0 && !DO(cuKernelGetAttribute, &v, a, H(CUkernel, k), 0))
		say("attribute %d of %s %d", (int)a, kernels[objects[k].what].name, v);
	if (i < 0)
		return;
	if (!DO(cuFuncGetParamInfo, H(CUfunction, i), draw(3), &offset, &size))
		say("at %zu, %zu bytes", offset, size);
	if (is(objects[i].of, MODULE) && !DO(cuFuncGetModule, &m, H(CUfunction, i)))
		say("its module %d", H(CUmodule, objects[i].of) == m);
	if (!DO(cuOccupancyMaxActiveBlocksPerMultiprocessor, &v, H(CUfunction, i), 64,
		1024 * draw(40)))
		say("%d blocks", v);
	if (draw(3) == 0)
		DO(cuFuncSetCacheConfig, H(CUfunction, i), CU_FUNC_CACHE_PREFER_L1);
}

/* ---- steps ----------------------------------------------------------------------------------- */

void begin_code(void)
{
	const char *fatbin = getenv("GPU_RANDOM_FATBIN");

	images[n_images++] = ptx_first;
	images[n_images++] = ptx_later;
	if ((images[n_images] = link_cubin()))
		n_images++;
	if (fatbin && (images[n_images] = read_fatbin(fatbin)))
		n_images++;
	load_module();
	load_library();
	for (int i = 0; i < 6; i++) {
		get_function();
		get_kernel();
		get_variable();
	}
}

void code_step(void)
{
	static void (*const steps[])(void) = {
		load_module, unload_module, load_library, unload_library, get_function,
		get_function, get_function, get_kernel, get_kernel, get_function_of_kernel,
		get_part, get_variable, get_variable, set_variable, set_variable, look_at_any,
		look_at_any, launch_any, launch_any, launch_any, launch_any, launch_any,
		launch_follow, launch_shared, look_at_function};

	steps[draw(sizeof steps / sizeof *steps)]();
}

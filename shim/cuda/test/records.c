/* SPDX-License-Identifier: Apache-2.0
 * Random programs of the driver's functions run on two copies of the fake driver at once: plainly,
 * and behind the hooks of records/, with restarts into a fresh driver. All results, errors and
 * contents are the same. `cuda_records [SEED [PROGRAMS]]`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"
#include "shim/cuda/test/records_model.h"
#include "shim/cuda/test/records_look.h"
#include "test/support/cubin.h"
#include "test/support/driver/fake.h"
#include "test/support/tap.h"

#define PROGRAMS 150
#define PROGRAMS_LONG 2500
#define CALLS 300
#define DEVICES 2
#define THREADS 3
#define DEEP 16
#define LARGEST 256 /* elements of an array */
#define GRANULE ((size_t)16 << 10)

/* Both steps of a restart. */
static int again(struct gck_error *err)
{
	return gck_cuda_records_replay(err) || gck_cuda_records_complete(err);
}

struct gck_cuda_real worlds[WORLDS];
static void (*anew)(void);
static unsigned restarts, refusals;

struct object objects[MOST];
int n_objects;

static struct {
	int stack[DEEP], depth; /* of contexts, as the program knows it */
} threads[THREADS];
static int t; /* the thread that runs */
const char *wrong;

/* ---- kernels of the program ------------------------------------------------------------------ */

__attribute__((visibility("default"))) extern const int add_params;
const int add_params = 2;
__attribute__((visibility("default"))) void add(void **params, const struct fake_grid *grid);

void add(void **params, const struct fake_grid *grid)
{
	*(uint64_t *)(uintptr_t)*(uint64_t *)params[0] += *(uint64_t *)params[1] + grid->grid[0];
}

/* ---- both worlds ----------------------------------------------------------------------------- */


void same(const uint64_t v[WORLDS], const char *what)
{
	if (v[PLAIN] == v[ENGINE] || wrong)
		return;
	printf("# %s: 0x%llx and 0x%llx\n", what, (unsigned long long)v[PLAIN],
	       (unsigned long long)v[ENGINE]);
	wrong = what;
}

int object_of(const char *kind, uint64_t handle, int world)
{
	int i = n_objects - 1;

	while (i >= 0 && !(objects[i].alive && objects[i].handle[world] == handle &&
			   !strcmp(objects[i].kind, kind)))
		i--;
	return i;
}

/* The object that both worlds returned; -1: none. */
int returned(const char *kind, const uint64_t v[WORLDS])
{
	const uint64_t found[WORLDS] = {(uint64_t)object_of(kind, v[PLAIN], PLAIN),
					(uint64_t)object_of(kind, v[ENGINE], ENGINE)};

	same(found, "the object that a call returns");
	return (int)found[PLAIN];
}

int add_object(const char *kind, const uint64_t v[WORLDS], int of)
{
	if (n_objects == MOST)
		return -1;
	objects[n_objects] = (struct object){.kind = kind, .handle = {v[PLAIN], v[ENGINE]},
					     .of = of, .on = -1, .in = -1, .uses = 1,
					     .alive = true};
	return n_objects++;
}

void end(int i)
{
	if (i < 0 || !objects[i].alive)
		return;
	objects[i].alive = false;
	for (int j = 0; j < n_objects; j++) {
		if (objects[j].of == i || objects[j].in == i)
			end(j);
	}
}

bool is(int i, const char *kind)
{
	return objects[i].alive && !strcmp(objects[i].kind, kind);
}

int any_of(const char *kind, int of)
{
	int n = 0, found = -1;

	for (int i = 0; i < n_objects; i++) {
		if (is(i, kind) && (of < 0 || objects[i].of == of) && rand() % ++n == 0)
			found = i;
	}
	return found;
}

int any(const char *kind)
{
	return any_of(kind, -1);
}

int current(void)
{
	return threads[t].depth ? threads[t].stack[threads[t].depth - 1] : -1;
}

/* Whether a thread other than at its top, or another thread, has the context. */
static bool is_stacked(int context, bool but_my_top)
{
	for (int i = 0; i < THREADS; i++) {
		for (int j = 0; j < threads[i].depth; j++) {
			if (threads[i].stack[j] == context &&
			    !(but_my_top && i == t && j == threads[i].depth - 1))
				return true;
		}
	}
	return false;
}

/* ---- contexts -------------------------------------------------------------------------------- */

static int primary(int device)
{
	int i = n_objects - 1;

	while (i >= 0 && !(is(i, "context") && objects[i].primary && objects[i].device == device))
		i--;
	return i;
}

static void retain(void)
{
	uint64_t v[WORLDS] = {0};
	int device = rand() % DEVICES, i = primary(device);

	if (BOTH(cuDevicePrimaryCtxRetain((CUcontext *)&v[W], device)))
		return;
	if (i >= 0) {
		objects[i].uses++;
		if (returned("context", v) != i && !wrong)
			wrong = "another primary context";
	} else if ((i = add_object("context", v, -1)) >= 0) {
		objects[i].primary = true;
		objects[i].device = device;
	}
}

static void release(void)
{
	int device = rand() % DEVICES, i = primary(device);

	if (i >= 0 && objects[i].uses == 1 && is_stacked(i, false))
		return;
	if (!BOTH(cuDevicePrimaryCtxRelease_v2(device)) && i >= 0 && --objects[i].uses == 0)
		end(i);
}

static void reset(void)
{
	int device = rand() % DEVICES, i = primary(device);

	if (rand() % 4 || (i >= 0 && is_stacked(i, false)))
		return;
	if (!BOTH(cuDevicePrimaryCtxReset_v2(device)))
		end(i);
}

static void create_context(void)
{
	uint64_t v[WORLDS] = {0};
	int device = rand() % DEVICES, i;

	if (threads[t].depth == DEEP ||
	    BOTH(cuCtxCreate_v2((CUcontext *)&v[W], 0, device)))
		return;
	i = add_object("context", v, -1);
	if (i < 0)
		return;
	objects[i].device = device;
	threads[t].stack[threads[t].depth++] = i;
}

static void destroy_context(void)
{
	int i = any("context");

	if (i < 0 || rand() % 3 || is_stacked(i, true) || BOTH(cuCtxDestroy_v2(H(CUcontext, i))))
		return;
	if (current() == i)
		threads[t].depth--;
	end(i);
}

static void push(void)
{
	int i = any("context");

	if (i >= 0 && threads[t].depth < DEEP && !BOTH(cuCtxPushCurrent_v2(H(CUcontext, i))))
		threads[t].stack[threads[t].depth++] = i;
}

static void pop(void)
{
	uint64_t v[WORLDS] = {0};

	if (BOTH(cuCtxPopCurrent_v2((CUcontext *)&v[W])))
		return;
	if (returned("context", v) != current() && !wrong)
		wrong = "the context that was current";
	threads[t].depth--;
}

static void set_current(void)
{
	int i = rand() % 8 ? any("context") : -1;

	if (threads[t].depth == DEEP || BOTH(cuCtxSetCurrent(H(CUcontext, i))))
		return;
	threads[t].depth -= threads[t].depth > 0;
	if (i >= 0)
		threads[t].stack[threads[t].depth++] = i;
}

static uint64_t primaries[DEVICES][WORLDS]; /* handles of primary contexts, once they are known */

static void get_current(void)
{
	uint64_t v[WORLDS] = {0};

	BOTH(cuCtxGetCurrent((CUcontext *)&v[W]));
	if (returned("context", v) != current() && !wrong)
		wrong = "the current context";
	for (int d = 0; d < DEVICES; d++) {
		if (primaries[d][PLAIN] && (v[PLAIN] == primaries[d][PLAIN]) !=
						   (v[ENGINE] == primaries[d][ENGINE]))
			wrong = "a current context that may have ended";
	}
}

static void look_at_context(void)
{
	uint64_t v[WORLDS] = {0};
	int i = any("context");

	BOTH(cuCtxGetLimit((size_t *)&v[W], CU_LIMIT_STACK_SIZE));
	same(v, "a limit");
	BOTH(cuCtxGetDevice((CUdevice *)&v[W]));
	same(v, "the device");
	BOTH(cuCtxSynchronize());
	if (i >= 0)
		BOTH(cuCtxGetApiVersion(H(CUcontext, i), (unsigned int *)&v[W]));
	same(v, "a version");
}

static void set_limit(void)
{
	size_t size = 16u * (unsigned)(rand() % 200);

	BOTH(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, size));
}

static void exchange_mode(void)
{
	uint64_t v[WORLDS];

	v[PLAIN] = v[ENGINE] = (uint64_t)(rand() % 3);
	BOTH(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)&v[W]));
	same(v, "the capture mode");
}

/* ---- streams and events ---------------------------------------------------------------------- */

static void create_stream(void)
{
	uint64_t v[WORLDS] = {0};
	unsigned flags = (unsigned)(rand() % 2);
	int priority = -(rand() % 5);

	if (rand() % 2 ? BOTH(cuStreamCreate((CUstream *)&v[W], flags))
		       : BOTH(cuStreamCreateWithPriority((CUstream *)&v[W], flags, priority)))
		return;
	add_object("stream", v, current());
}

static void destroy_stream(void)
{
	int i = any("stream");

	if (i >= 0 && !BOTH(cuStreamDestroy_v2(H(CUstream, i))))
		end(i);
}

static void look_at_stream(void)
{
	uint64_t v[WORLDS] = {0};
	int i = rand() % 8 ? any("stream") : -1;

	BOTH(cuStreamSynchronize(H(CUstream, i)));
	BOTH(cuStreamQuery(H(CUstream, i)));
	if (i < 0)
		return;
	BOTH(cuStreamGetFlags(H(CUstream, i), (unsigned int *)&v[W]));
	same(v, "a stream's flags");
	BOTH(cuStreamGetPriority(H(CUstream, i), (int *)&v[W]));
	same(v, "a stream's priority");
	if (!BOTH(cuStreamGetCtx(H(CUstream, i), (CUcontext *)&v[W])) &&
	    returned("context", v) != objects[i].of && !wrong)
		wrong = "a stream's context";
}

static void create_event(void)
{
	uint64_t v[WORLDS] = {0};
	unsigned flags = rand() % 2 ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;

	if (!BOTH(cuEventCreate((CUevent *)&v[W], flags)))
		add_object("event", v, current());
}

static void destroy_event(void)
{
	int i = any("event");

	if (i >= 0 && !BOTH(cuEventDestroy_v2(H(CUevent, i))))
		end(i);
}

static void record(void)
{
	int stream = any("stream"), event = stream < 0 ? -1 : any_of("event", objects[stream].of);

	if (event < 0)
		return;
	objects[event].open = false;
	BOTH(cuEventRecord(H(CUevent, event), H(CUstream, stream)));
	BOTH(cuStreamWaitEvent(H(CUstream, stream), H(CUevent, event), 0));
	BOTH(cuEventSynchronize(H(CUevent, event)));
}

static void look_at_event(void)
{
	int a = any("event"), b = a < 0 ? -1 : any_of("event", objects[a].of);
	float ms[WORLDS];

	/* What a capture has recorded is not, after a restart. */
	if (b < 0 || objects[a].open || objects[b].open)
		return;
	BOTH(cuEventQuery(H(CUevent, a)));
	BOTH(cuEventElapsedTime(&ms[W], H(CUevent, a), H(CUevent, b)));
}

/* ---- modules --------------------------------------------------------------------------------- */

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
			  ".visible .global .align 8 .u64 first;\n"
			  ".const .align 8 .u64 second;\n"
			  ".visible .global .align 8 .u64 third;\n"
			  ".visible .entry add(.param .u64 a, .param .u64 b) { ret; }\n";

/* With the same variables; the fatbin's PTX has another. */
static struct test_cubin cubin;
static struct test_fatbin fatbin;

static const void *any_image(void)
{
	const void *const images[] = {ptx, &cubin, &fatbin};

	return images[rand() % 3];
}

/* Options of a load, and a log. */
static CUjit_option jit_options[] = {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS,
			     CU_JIT_ERROR_LOG_BUFFER};
static char jit_log[WORLDS][16];

static void **jit_values(int world, int registers)
{
	static void *values[3];

	values[0] = (void *)(uintptr_t)sizeof jit_log[world];
	values[1] = (void *)(uintptr_t)registers;
	values[2] = jit_log[world];
	return values;
}

static void load_module(void)
{
	const void *image = any_image();
	uint64_t v[WORLDS] = {0};
	int n = rand() % 40;

	if (!(n < 20 ? BOTH(cuModuleLoadDataEx((CUmodule *)&v[W], image, 3, jit_options,
					     jit_values(W, n)))
		     : BOTH(cuModuleLoadData((CUmodule *)&v[W], image))))
		add_object("module", v, current());
}

static void unload_module(void)
{
	int i = any("module");

	if (i >= 0 && rand() % 2 && !BOTH(cuModuleUnload(H(CUmodule, i))))
		end(i);
}

static int any_module(void)
{
	return any(rand() % 2 ? "module" : "part");
}

/* An object of a kind, in a context or in any, that both worlds returned, perhaps anew. */
int note(const char *kind, const uint64_t v[WORLDS], int of)
{
	return object_of(kind, v[PLAIN], PLAIN) < 0 ? add_object(kind, v, of) : returned(kind, v);
}

static void get_function(void)
{
	uint64_t v[WORLDS] = {0};
	int i = any_module();
	const char *name = rand() % 8 ? "add" : "subtract";

	if (i >= 0 && !BOTH(cuModuleGetFunction((CUfunction *)&v[W], H(CUmodule, i), name)))
		note("function", v, i);
}

static const char *variable_name(void)
{
	static const char *const names[] = {"first", "second", "third", "fourth"};

	return names[rand() % 4];
}

static void get_variable(void)
{
	uint64_t v[WORLDS] = {0}, size[WORLDS] = {0};
	const char *name = variable_name();
	int i = any_module();

	if (i < 0 || BOTH(cuModuleGetGlobal_v2((CUdeviceptr *)&v[W], (size_t *)&size[W],
					       H(CUmodule, i), name)))
		return;
	same(size, "a variable's size");
	note("variable", v, i);
}

/* ---- libraries ------------------------------------------------------------------------------- */

static void load_library(void)
{
	const void *image = any_image();
	uint64_t v[WORLDS] = {0};

	CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *yes = (void *)(uintptr_t)1;
	unsigned registers = (unsigned)rand() % 40, n = registers < 20 ? 3 : 0,
		 npreserved = registers & 1;

	if (!BOTH(cuLibraryLoadData((CUlibrary *)&v[W], image, jit_options,
				    jit_values(W, (int)registers), n, &preserved, &yes,
				    npreserved)))
		add_object("library", v, -1);
}

static void unload_library(void)
{
	int i = any("library");

	if (i >= 0 && rand() % 2 && !BOTH(cuLibraryUnload(H(CUlibrary, i))))
		end(i);
}

static void get_kernel(void)
{
	uint64_t v[WORLDS] = {0};
	int i = any("library");
	const char *name = rand() % 8 ? "add" : "subtract";

	if (i >= 0 && !BOTH(cuLibraryGetKernel((CUkernel *)&v[W], H(CUlibrary, i), name)))
		note("kernel", v, i);
}

static void list_kernels(void)
{
	uint64_t v[WORLDS][2] = {{0}}, first_one[WORLDS];
	unsigned n[WORLDS] = {0};
	int i = any("library");

	if (i < 0 || BOTH(cuLibraryGetKernelCount(&n[W], H(CUlibrary, i))) ||
	    BOTH(cuLibraryEnumerateKernels((CUkernel *)v[W], 2, H(CUlibrary, i))) || !n[PLAIN])
		return;
	for (int W = 0; W < WORLDS; W++)
		first_one[W] = v[W][0];
	if (n[PLAIN] != n[ENGINE] || v[ENGINE][1])
		wrong = "how many kernels there are";
	note("kernel", first_one, i);
}

static void use_attribute(void)
{
	int i = any("kernel"), v[WORLDS] = {0}, size = rand() % 4096, device = rand() % DEVICES;
	static const CUfunction_attribute which = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

	if (i < 0)
		return;
	if (rand() % 3 == 0)
		BOTH(cuKernelSetAttribute(which, size, H(CUkernel, i), device));
	if (rand() % 2)
		BOTH(cuKernelGetAttribute(&v[W], which, H(CUkernel, i), device));
	else
		BOTH(cuKernelGetAttribute(&v[W], CU_FUNC_ATTRIBUTE_NUM_REGS, H(CUkernel, i),
					  device));
	if (v[PLAIN] != v[ENGINE])
		wrong = "an attribute of a kernel";
}

static void get_function_of_kernel(void)
{
	uint64_t v[WORLDS] = {0};
	int i = any("kernel"), f;

	if (i < 0 || BOTH(cuKernelGetFunction((CUfunction *)&v[W], H(CUkernel, i))))
		return;
	f = note("function", v, i);
	if (f >= 0)
		objects[f].in = current();
}

static void get_part(void)
{
	uint64_t v[WORLDS] = {0};
	int i = any("library"), m;

	if (i < 0 || BOTH(cuLibraryGetModule((CUmodule *)&v[W], H(CUlibrary, i))))
		return;
	m = note("part", v, i);
	if (m >= 0)
		objects[m].in = current();
}

static void get_variable_of_library(void)
{
	uint64_t v[WORLDS] = {0}, size[WORLDS] = {0};
	const char *name = variable_name();
	int i = any("library"), a;

	if (i < 0 || BOTH(cuLibraryGetGlobal((CUdeviceptr *)&v[W], (size_t *)&size[W],
					     H(CUlibrary, i), name)))
		return;
	same(size, "a variable's size");
	a = note("place", v, i);
	if (a >= 0)
		objects[a].in = current();
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void reserve(void)
{
	uint64_t v[WORLDS] = {0};

	if (any("reservation") >= 0 && rand() % 3)
		return;
	if (!BOTH(cuMemAddressReserve((CUdeviceptr *)&v[W], PARTS * GRANULE, 0, 0, 0)))
		add_object("reservation", v, -1);
}

static void free_reservation(void)
{
	int i = any("reservation");

	if (i >= 0 && rand() % 3 == 0 &&
	    !BOTH(cuMemAddressFree(H(CUdeviceptr, i), PARTS * GRANULE)))
		end(i);
}

static void map(int physical)
{
	int r = any("reservation");
	size_t offset = GRANULE * (unsigned)(rand() % PARTS);
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	uint64_t v[WORLDS];
	int i;

	if (r < 0 || BOTH(cuMemMap(H(CUdeviceptr, r) + offset, GRANULE, 0,
				   H(CUmemGenericAllocationHandle, physical), 0)))
		return;
	for (int W = 0; W < WORLDS; W++)
		v[W] = objects[r].handle[W] + offset;
	i = add_object("mapping", v, r);
	if (i < 0)
		return;
	objects[i].on = physical;
	objects[i].device = objects[physical].device;
	access.location.id = objects[physical].device;
	if (rand() % 3)
		objects[i].open = !BOTH(cuMemSetAccess(H(CUdeviceptr, i), GRANULE, &access, 1));
}

/* Access to all parts of a reservation at once. */
static void open_all(void)
{
	int r = any("reservation"), n = 0;
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
					       .id = rand() % DEVICES},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	for (int i = 0; i < n_objects; i++)
		n += is(i, "mapping") && objects[i].of == r &&
		     objects[i].device == access.location.id;
	if (r < 0 || n < PARTS ||
	    BOTH(cuMemSetAccess(H(CUdeviceptr, r), PARTS * GRANULE, &access, 1)))
		return;
	for (int i = 0; i < n_objects; i++)
		objects[i].open |= is(i, "mapping") && objects[i].of == r;
}

static void create_memory(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
						 .id = rand() % DEVICES}};
	uint64_t v[WORLDS] = {0};
	int i;

	if (BOTH(cuMemCreate((CUmemGenericAllocationHandle *)&v[W], GRANULE, &prop, 0)))
		return;
	i = add_object("physical", v, -1);
	if (i < 0)
		return;
	objects[i].device = prop.location.id;
	map(i);
}

static void map_again(void)
{
	int i = any("physical");

	if (i >= 0)
		map(i);
}

/* Its handle is given back; mappings of it stay. */
static void release_memory(void)
{
	int i = any("physical");

	if (i < 0 || BOTH(cuMemRelease(H(CUmemGenericAllocationHandle, i))))
		return;
	if (--objects[i].uses == 0)
		objects[i].alive = false;
}

static void retain_memory(void)
{
	uint64_t v[WORLDS] = {0};
	int i = any("mapping"), m = i < 0 ? -1 : objects[i].on;

	if (i < 0 || BOTH(cuMemRetainAllocationHandle((CUmemGenericAllocationHandle *)&v[W],
						      (void *)H(uintptr_t, i))))
		return;
	if ((v[PLAIN] != objects[m].handle[PLAIN] || v[ENGINE] != objects[m].handle[ENGINE]) &&
	    !wrong)
		wrong = "the handle of mapped memory";
	objects[m].alive = true;
	objects[m].uses++;
}

static void unmap(void)
{
	int i = any("mapping");

	if (i >= 0 && rand() % 2 && !BOTH(cuMemUnmap(H(CUdeviceptr, i), GRANULE)))
		end(i);
}

/* A place that the current context may use; -1: none. */
int any_place(uint64_t *offset)
{
	int kind = rand() % 8, i = any(kind == 0 ? "variable" : kind == 1 ? "place" : "mapping");

	*offset = i >= 0 && is(i, "mapping") ? 8u * (unsigned)(rand() % 4) : 0;
	if (i < 0 || current() < 0)
		return -1;
	return !is(i, "mapping") || (objects[i].open &&
				     objects[i].device == objects[current()].device) ? i : -1;
}

static void write_memory(void)
{
	uint64_t offset, value = (uint64_t)rand();
	int i = any_place(&offset);

	if (i >= 0 && rand() % 2)
		BOTH(cuMemcpyHtoD_v2(H(CUdeviceptr, i) + offset, &value, 8));
	else if (i >= 0)
		BOTH(cuMemsetD32_v2(H(CUdeviceptr, i) + offset, (unsigned)value, 2));
	BOTH(cuCtxSynchronize());
}

static void read_memory(void)
{
	uint64_t v[WORLDS] = {0}, offset;
	int i = any_place(&offset);

	if (i >= 0)
		BOTH(cuMemcpyDtoH_v2(&v[W], H(CUdeviceptr, i) + offset, 8));
	same(v, "the contents of memory");
}

static void launch(void)
{
	uint64_t offset, by = (uint64_t)rand(), at[WORLDS];
	int i = any_place(&offset), f = any(rand() % 2 ? "function" : "kernel");
	int s = any_of("stream", current());

	if (i < 0 || f < 0)
		return;
	for (int W = 0; W < WORLDS; W++)
		at[W] = objects[i].handle[W] + offset;
	BOTH(cuLaunchKernel(H(CUfunction, f), 3, 1, 1, 1, 1, 1, 0, H(CUstream, s),
			    ((void *[]){&at[W], &by}), NULL));
	BOTH(cuStreamSynchronize(H(CUstream, s)));
}

/* ---- pinned memory of the host --------------------------------------------------------------- */

#define PINNED ((size_t)8192)

static void pin(void)
{
	uint64_t v[WORLDS] = {0};
	unsigned flags = (unsigned)rand() % 4;
	bool own = rand() % 2;
	int i;

	if (own) {
		for (int W = 0; W < WORLDS; W++)
			v[W] = (uintptr_t)mmap(NULL, PINNED, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (BOTH(cuMemHostRegister_v2((void *)(uintptr_t)v[W], PINNED, flags))) {
			for (int W = 0; W < WORLDS; W++)
				munmap((void *)(uintptr_t)v[W], PINNED);
			return;
		}
	} else if (flags ? BOTH(cuMemHostAlloc((void **)&v[W], PINNED, flags))
			 : BOTH(cuMemAllocHost_v2((void **)&v[W], PINNED))) {
		return;
	}
	i = add_object("host", v, -1);
	if (i < 0)
		return;
	objects[i].on = current();
	objects[i].open = own;
}

static void pin_again(void)
{
	int i = any("host");

	if (i >= 0)
		BOTH(cuMemHostRegister_v2(H(void *, i), PINNED, 0));
}

static void give_back(int i)
{
	/* The function for the other kind of memory says that it is not of that kind. */
	if (objects[i].open)
		BOTH(cuMemFreeHost(H(void *, i)));
	else
		BOTH(cuMemHostUnregister(H(void *, i)));
	if (objects[i].open ? BOTH(cuMemHostUnregister(H(void *, i)))
			    : BOTH(cuMemFreeHost(H(void *, i))))
		return;
	for (int W = 0; W < WORLDS && objects[i].open; W++)
		munmap((void *)(uintptr_t)objects[i].handle[W], PINNED);
	end(i);
}

static void unpin(void)
{
	int i = any("host");

	if (i >= 0 && rand() % 2)
		give_back(i);
}

/* The GPU uses it at the same place, and nothing else is said of it. */
static void use_pinned(void)
{
	uint64_t at[WORLDS] = {0}, by = (uint64_t)rand(), v[WORLDS] = {0};
	int i = any("host"), f = any("function");

	if (i < 0)
		return;
	BOTH(cuMemHostGetFlags((unsigned int *)&v[W], H(void *, i)));
	same(v, "the flags of pinned memory");
	if (BOTH(cuMemHostGetDevicePointer_v2((CUdeviceptr *)&at[W], H(void *, i), 0)) || f < 0)
		return;
	BOTH(cuLaunchKernel(H(CUfunction, f), 2, 1, 1, 1, 1, 1, 0, NULL,
			    ((void *[]){&at[W], &by}), NULL));
	BOTH(cuCtxSynchronize());
	for (int W = 0; W < WORLDS; W++)
		v[W] = *(const uint64_t *)(uintptr_t)objects[i].handle[W];
	same(v, "the contents of pinned memory");
}

/* ---- arrays, textures and surfaces ----------------------------------------------------------- */

static void create_array(void)
{
	const unsigned w = 1 + (unsigned)rand() % 8, h = (unsigned)rand() % 4;
	const unsigned d = h ? (unsigned)rand() % 3 : 0;
	const CUDA_ARRAY3D_DESCRIPTOR about = {w, h, d, CU_AD_FORMAT_UNSIGNED_INT32, 2, 0};
	const CUDA_ARRAY_DESCRIPTOR flat = {w, h, CU_AD_FORMAT_UNSIGNED_INT32, 2};
	uint64_t v[WORLDS] = {0};
	int i;

	if (d || rand() % 2 ? BOTH(cuArray3DCreate_v2((CUarray *)&v[W], &about))
			    : BOTH(cuArrayCreate_v2((CUarray *)&v[W], &flat)))
		return;
	i = add_object("array", v, current());
	if (i >= 0)
		memcpy(objects[i].extent, (const unsigned[]){w, h ? h : 1, d ? d : 1},
		       sizeof objects[i].extent);
}

static void destroy_array(void)
{
	int i = any("array");

	if (i >= 0 && rand() % 2 && !BOTH(cuArrayDestroy(H(CUarray, i))))
		end(i);
}

/* All of it is written, or read. */
static void use_array(void)
{
	static uint64_t data[WORLDS][LARGEST];
	int i = any("array"), first = rand();
	const unsigned *n = i < 0 ? NULL : objects[i].extent;
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			   .dstMemoryType = CU_MEMORYTYPE_HOST};

	if (i < 0)
		return;
	c.WidthInBytes = c.srcPitch = c.dstPitch = 8 * n[0];
	c.Height = c.srcHeight = c.dstHeight = n[1];
	c.Depth = n[2];
	if (rand() % 2) {
		BOTH(cuMemcpy3D_v2((c.srcArray = H(CUarray, i), c.dstHost = data[W], &c)));
		if (memcmp(data[PLAIN], data[ENGINE], 8 * n[0] * n[1] * n[2]))
			wrong = "the contents of an array";
		return;
	}
	for (unsigned k = 0; k < n[0] * n[1] * n[2]; k++)
		data[PLAIN][k] = (uint64_t)first + k;
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	BOTH(cuMemcpy3D_v2((c.dstArray = H(CUarray, i), c.srcHost = data[PLAIN], &c)));
}

/* A level of one that is there, known or not. */
static void get_level(void)
{
	uint64_t v[WORLDS] = {0};
	int i = any("mipmap"), level = rand() % 5, array;

	if (i < 0 || BOTH(cuMipmappedArrayGetLevel((CUarray *)&v[W], H(CUmipmappedArray, i),
						   (unsigned)level)))
		return;
	array = note("array", v, i);
	for (int k = 0; k < 3 && array >= 0; k++)
		objects[array].extent[k] = objects[i].extent[k] >> level
						   ? objects[i].extent[k] >> level : 1;
}

static void create_mipmap(void)
{
	const unsigned w = 1 + (unsigned)rand() % 16, h = (unsigned)rand() % 16;
	const CUDA_ARRAY3D_DESCRIPTOR about = {w, h, 0, CU_AD_FORMAT_UNSIGNED_INT32, 2, 0};
	uint64_t v[WORLDS] = {0};
	unsigned levels = (unsigned)rand() % 6;
	int i;

	if (BOTH(cuMipmappedArrayCreate((CUmipmappedArray *)&v[W], &about, levels)))
		return;
	i = add_object("mipmap", v, current());
	if (i >= 0)
		memcpy(objects[i].extent, (const unsigned[]){w, h ? h : 1, 1},
		       sizeof objects[i].extent);
	get_level();
}

static void destroy_mipmap(void)
{
	int i = any("mipmap");

	if (i >= 0 && rand() % 2 && !BOTH(cuMipmappedArrayDestroy(H(CUmipmappedArray, i))))
		end(i);
}

static CUDA_RESOURCE_DESC resource_of(int i, int world)
{
	CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_ARRAY};

	if (is(i, "array")) {
		d.res.array.hArray = (CUarray)(uintptr_t)objects[i].handle[world];
		return d;
	}
	if (is(i, "mipmap")) {
		d.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
		d.res.mipmap.hMipmappedArray =
			(CUmipmappedArray)(uintptr_t)objects[i].handle[world];
		return d;
	}
	d.resType = CU_RESOURCE_TYPE_LINEAR;
	d.res.linear.devPtr = objects[i].handle[world];
	d.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
	d.res.linear.numChannels = 1;
	d.res.linear.sizeInBytes = GRANULE;
	return d;
}

static void create_texture(void)
{
	const CUDA_TEXTURE_DESC about = {.maxAnisotropy = (unsigned)rand() % 16};
	static const char *const kinds[] = {"array", "array", "mipmap", "mapping"};
	CUDA_RESOURCE_DESC d[WORLDS];
	uint64_t v[WORLDS] = {0};
	int on = any(kinds[rand() % 4]), i;
	bool is_surface = rand() % 2;

	if (on < 0 || (is(on, "mapping") && !objects[on].open))
		return;
	for (int W = 0; W < WORLDS; W++)
		d[W] = resource_of(on, W);
	if (is_surface ? BOTH(cuSurfObjectCreate((CUsurfObject *)&v[W], &d[W]))
		       : BOTH(cuTexObjectCreate((CUtexObject *)&v[W], &d[W], &about, NULL)))
		return;
	i = add_object(is_surface ? "surface" : "texture", v, current());
	if (i >= 0)
		objects[i].on = on;
}

static CUresult destroy_texture(int i)
{
	return is(i, "texture") ? BOTH(cuTexObjectDestroy(H(CUtexObject, i)))
				: BOTH(cuSurfObjectDestroy(H(CUsurfObject, i)));
}

static void destroy_any_texture(void)
{
	int i = any(rand() % 2 ? "texture" : "surface");

	if (i >= 0 && !destroy_texture(i))
		end(i);
}

/* It means what it meant, and its number, which kernels have, is the driver's. */
static void look_at_texture(void)
{
	CUDA_RESOURCE_DESC d[WORLDS] = {{0}};
	CUDA_TEXTURE_DESC about[WORLDS] = {{.flags = 0}};
	int i = any(rand() % 2 ? "texture" : "surface");

	if (i < 0)
		return;
	if (records_now(objects[i].kind, objects[i].handle[ENGINE]) !=
	    objects[i].handle[ENGINE])
		wrong = "a texture's number";
	if (is(i, "texture")) {
		BOTH(cuTexObjectGetResourceDesc(&d[W], H(CUtexObject, i)));
		BOTH(cuTexObjectGetTextureDesc(&about[W], H(CUtexObject, i)));
		if (about[PLAIN].maxAnisotropy != about[ENGINE].maxAnisotropy)
			wrong = "what a texture is";
	} else {
		BOTH(cuSurfObjectGetResourceDesc(&d[W], H(CUsurfObject, i)));
	}
	for (int W = 0; W < WORLDS && (is(objects[i].on, "array") || is(objects[i].on, "mipmap"));
	     W++) {
		if (d[W].res.array.hArray != H(CUarray, objects[i].on))
			wrong = "the array of a texture";
	}
}

/* ---- pools ----------------------------------------------------------------------------------- */

static void create_pool(void)
{
	const CUmemPoolProps about = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
						   .id = rand() % DEVICES}};
	uint64_t v[WORLDS] = {0};
	int i;

	if (BOTH(cuMemPoolCreate((CUmemoryPool *)&v[W], &about)))
		return;
	i = add_object("pool", v, -1);
	if (i >= 0)
		objects[i].device = about.location.id;
}

/* A device's own is not. */
static void destroy_pool(void)
{
	int i = any("pool");

	if (i >= 0 && rand() % 2 && !BOTH(cuMemPoolDestroy(H(CUmemoryPool, i))))
		end(i);
}

/* That of a device, its own or the present one. */
static void get_pool(void)
{
	uint64_t v[WORLDS] = {0};
	int device = rand() % DEVICES, i;

	if (rand() % 2 ? BOTH(cuDeviceGetDefaultMemPool((CUmemoryPool *)&v[W], device))
		       : BOTH(cuDeviceGetMemPool((CUmemoryPool *)&v[W], device)))
		return;
	i = note("pool", v, -1);
	if (i >= 0)
		objects[i].device = device;
}

static void set_pool(void)
{
	int i = any("pool"), which = rand() % 6, device;
	uint64_t value = which < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? (uint64_t)rand() % 2
								    : (uint64_t)rand();
	const CUmemAccessDesc access = {{.type = CU_MEM_LOCATION_TYPE_DEVICE,
					 .id = rand() % (DEVICES + 1)},
					rand() % 2 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
						   : CU_MEM_ACCESS_FLAGS_PROT_NONE};

	if (i < 0)
		return;
	BOTH(cuMemPoolSetAttribute(H(CUmemoryPool, i), (CUmemPool_attribute)which, &value));
	if (rand() % 2)
		BOTH(cuMemPoolSetAccess(H(CUmemoryPool, i), &access, 1));
	device = rand() % 8 ? objects[i].device : DEVICES;
	if (rand() % 2)
		BOTH(cuDeviceSetMemPool(device, H(CUmemoryPool, i)));
}

static void look_at_pool(void)
{
	int i = any("pool"), which = rand() % (CU_MEMPOOL_ATTR_USED_MEM_HIGH + 2);
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = rand() % DEVICES};
	uint64_t v[WORLDS] = {0};

	if (i < 0)
		return;
	BOTH(cuMemPoolGetAttribute(H(CUmemoryPool, i), (CUmemPool_attribute)which, &v[W]));
	same(v, "a setting of a pool");
	BOTH(cuMemPoolGetAccess((CUmemAccess_flags *)&v[W], H(CUmemoryPool, i), &location));
	same(v, "access to a pool");
}

/* ---- private tables -------------------------------------------------------------------------- */

/* By the first bytes of their ids: as programs of the CUDA runtime use them. */
enum { PRIMARY, CALLBACKS, CURRENT, STORAGE, CHECKS, ID, TOOLS, CACHE, HASH, TABLES };
static const char table_ids[TABLES][17] = {
	"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9",
	"\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66",
	"\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc",
	"\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93",
	"\x26\x3e\x88\x60\x7c\xd2\x61\x43\x92\xf6\xbb\xd5\x00\x6d\xfa\x7e",
	"\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2",
	"\x6e\x16\x3f\xbe\xb9\x58\x44\x4d\x83\x5c\xe1\x82\xaf\xf1\x99\x1e",
	"\xda\x91\x51\xd3\x3a\xe6\xcc\x41\xa5\xc0\x4f\x26\xd5\x33\xe3\x28",
	"\xd4\x08\x20\x55\xbd\xe6\x70\x4b\x8d\x34\xba\x12\x3c\x66\xe1\xf2",
};

typedef void function(void);
typedef void end_storage(CUcontext context, void *key, void *value);
typedef CUresult get_primary(CUcontext *context, CUdevice device);
typedef CUresult get_current_context(CUcontext *context);
typedef void *get_buffer(void **at, size_t *size);
typedef CUresult put_storage(CUcontext context, void *key, void *value, end_storage *end);
typedef CUresult delete_storage(CUcontext context, void *key, void **value);
typedef CUresult get_storage(void **value, CUcontext context, void *key);
typedef CUresult check_context(CUcontext context, uint32_t *flags, const void **about);
typedef CUresult get_id(CUcontext context, uint32_t *id);
typedef CUresult open_entry(void **entry, int kind, const void *key, size_t size);
typedef CUresult close_entry(void *entry);
typedef void told_function(void *arg, CUfunction f, const char *name);
typedef uint64_t tell_functions(CUcontext context, CUmodule module, told_function *told, void *arg);
typedef CUresult get_hash(uint32_t version, uint64_t seconds, uint64_t result[2]);

static function **tables[WORLDS][TABLES]; /* some are those of drivers that have ended */
static uint32_t *buffers[WORLDS];
static size_t buffer_size; /* in words */
static uint64_t ended[WORLDS]; /* a sum of what was kept beside contexts that have ended */
static char keys[3];

/* A function of a table, in both worlds. */
#define PRIVATE(type, table, slot, arguments) \
	__extension__({ \
		CUresult rc_[WORLDS]; \
		for (int W = 0; W < WORLDS; W++) \
			rc_[W] = ((type *)tables[W][table][slot])arguments; \
		if (rc_[PLAIN] != rc_[ENGINE] && !wrong) { \
			printf("# " #type ": %d and %d\n", rc_[PLAIN], rc_[ENGINE]); \
			wrong = "the results differ"; \
		} \
		rc_[PLAIN]; \
	})

static void ask_table(int i)
{
	CUuuid id;

	memcpy(&id, table_ids[i], sizeof id);
	BOTH(cuGetExportTable((const void **)&tables[W][i], &id));
}

static void ask_tables(void)
{
	if (!tables[PLAIN][PRIMARY]) {
		for (int i = 0; i < TABLES; i++)
			ask_table(i);
	}
	ask_table(rand() % TABLES);
}

static void look_at_primary(void)
{
	int device = rand() % DEVICES;
	uint64_t v[WORLDS] = {0};

	ask_tables();
	if (PRIVATE(get_primary, PRIMARY, 2, ((CUcontext *)&v[W], device)))
		return;
	for (int W = 0; W < WORLDS; W++) {
		if (!primaries[device][W])
			primaries[device][W] = v[W];
		if (v[W] != primaries[device][W])
			wrong = "the handle of a primary context";
		for (int i = 0; i < n_objects; i++) {
			if (is(i, "context") && objects[i].primary && objects[i].device == device &&
			    v[W] != objects[i].handle[W])
				wrong = "a primary context's handle is another";
		}
	}
	if (!BOTH(cuCtxPushCurrent_v2((CUcontext)(uintptr_t)v[W])))
		BOTH(cuCtxPopCurrent_v2(NULL));
}

static void end_in(int world, CUcontext context, const void *key, const void *value)
{
	ended[world] += (uint64_t)(object_of("context", (uintptr_t)context, world) + 2) *
			(uintptr_t)value ^ (uint64_t)((const char *)key - keys);
}

static void end_plain(CUcontext context, void *key, void *value)
{
	end_in(PLAIN, context, key, value);
}

static void end_engine(CUcontext context, void *key, void *value)
{
	end_in(ENGINE, context, key, value);
}

static void keep(void)
{
	int i = rand() % 2 ? any("context") : -1;
	void *key = &keys[rand() % 3], *value = (void *)(uintptr_t)(rand() + 1);

	ask_tables();
	PRIVATE(put_storage, STORAGE, 0, (H(CUcontext, i), key, value,
					  W == PLAIN ? end_plain : end_engine));
}

static void look_at_kept(void)
{
	int i = rand() % 2 ? any("context") : -1;
	void *key = &keys[rand() % 3];
	uint64_t v[WORLDS] = {0};

	ask_tables();
	if (rand() % 4)
		PRIVATE(get_storage, STORAGE, 2, ((void **)&v[W], H(CUcontext, i), key));
	else
		PRIVATE(delete_storage, STORAGE, 1, (H(CUcontext, i), key, (void **)&v[W]));
	same(v, "what is kept beside a context");
	same(ended, "what was kept beside contexts that have ended");
}

static void look_at_private(void)
{
	int i = any("context");
	uint64_t v[WORLDS] = {0}, sums[WORLDS][2];
	uint32_t id[WORLDS] = {0};
	const void *about;

	ask_tables();
	if (!PRIVATE(get_current_context, CURRENT, 2, ((CUcontext *)&v[W])) && v[PLAIN])
		returned("context", v);
	PRIVATE(get_id, ID, 4, (H(CUcontext, i), &id[W]));
	PRIVATE(check_context, CHECKS, 2, (H(CUcontext, i), &id[W], &about));
	ask_table(PRIMARY);
	ask_table(HASH);
	PRIVATE(get_hash, HASH, 1, (13000, 7, sums[W]));
	for (int W = 0; W < WORLDS; W++) {
		if (sums[W][0] != (13000 ^ 7 ^ (uintptr_t)tables[W][PRIMARY]))
			wrong = "the hash of the tables' addresses";
	}
}

static void take_function(void *arg, CUfunction f, const char *name)
{
	*(uint64_t *)arg = strcmp(name, "add") ? 0 : (uintptr_t)f;
}

/* As a program does that has a module with one function. */
static void take_functions(void)
{
	uint64_t v[WORLDS] = {0};
	int i = any_module();

	ask_tables();
	if (i >= 0 && PRIVATE(tell_functions, TOOLS, 7,
			      (H(CUcontext, objects[i].in), H(CUmodule, i), take_function, &v[W])))
		note("function", v, i);
}

static void look_at_buffers(void)
{
	ask_tables();
	for (int W = 0; W < WORLDS; W++) {
		if (!buffers[W])
			((get_buffer *)tables[W][CALLBACKS][2])((void **)&buffers[W], &buffer_size);
	}
	if (memcmp(buffers[PLAIN], buffers[ENGINE], buffer_size * sizeof *buffers[PLAIN]))
		wrong = "what the runtime reads of the driver";
}

/* ---- what the engine cannot make again ------------------------------------------------------- */

static void allocate(void)
{
	uint64_t v[WORLDS] = {0};

	if (rand() % 4 == 0 && !BOTH(cuMemAlloc_v2((CUdeviceptr *)&v[W], 4096)))
		add_object("memory", v, current());
}

static void free_memory(void)
{
	int i = any("memory");

	if (i >= 0 && !BOTH(cuMemFree_v2(H(CUdeviceptr, i))))
		end(i);
}

/* ---- programs -------------------------------------------------------------------------------- */

static void (*const steps[])(void) = {
	retain, release, reset, create_context, destroy_context, push, pop, set_current,
	set_current, get_current, look_at_context, set_limit, exchange_mode, create_stream,
	create_stream, destroy_stream, look_at_stream, create_event, create_event, destroy_event,
	record, record, look_at_event, look_at_event, load_module, load_module, unload_module,
	get_function, get_function, get_variable, get_variable, load_library, load_library,
	unload_library, get_kernel, get_kernel, list_kernels, use_attribute, use_attribute,
	get_function_of_kernel, get_part, get_variable_of_library, get_variable_of_library,
	reserve, free_reservation, create_memory, create_memory, map_again, open_all,
	release_memory, retain_memory, unmap, write_memory, write_memory, read_memory, read_memory,
	read_memory, create_array, create_mipmap, create_mipmap, destroy_mipmap, get_level,
	get_level, create_array, destroy_array, use_array, use_array, use_array, create_texture,
	create_texture, create_texture, destroy_any_texture, look_at_texture, look_at_texture, pin,
	pin_again, unpin, use_pinned, use_pinned, launch, launch, launch, allocate, free_memory,
	free_memory, look_at_primary, keep, keep, look_at_kept, look_at_kept, look_at_private,
	create_pool, destroy_pool, get_pool, get_pool, set_pool, set_pool, look_at_pool,
	look_at_pool, look_at_buffers, take_functions, graph_step, graph_step, graph_step,
	graph_step, graph_step, graph_step,
};

/* With which a program of graphs begins. */
static void (*const first_steps[])(void) = {
	create_context, create_stream, create_stream, create_event, create_event, create_event,
	load_module, get_function, get_function, load_library, get_kernel, get_kernel, get_variable,
	create_array, create_array, reserve, create_memory, create_memory, create_memory,
	create_memory, map_again, pin, pin,
};

static sem_t begin[THREADS], done;
static void (*step)(void);

static void *thread(void *arg)
{
	sem_t *mine = arg;

	for (;;) {
		while (sem_wait(mine))
			;
		if (!step)
			return NULL;
		step();
		sem_post(&done);
	}
}

static void run_in(int thread, void (*what)(void))
{
	t = thread;
	step = what;
	sem_post(&begin[t]);
	while (sem_wait(&done))
		;
}

/* Programs of graphs have their context in the first thread. */
static void run(void (*what)(void))
{
	run_in(what == graph_step && rand() % 4 ? 0 : rand() % THREADS, what);
}

/* How many objects may be recorded that the program does not know: functions of kernels' nodes,
 * devices' own pools, which an earlier program has asked for. */
static int unknown_of(const char *kind)
{
	return !strcmp(kind, "function") ? MOST : !strcmp(kind, "pool") ? DEVICES : 0;
}

static bool counts_agree(void)
{
	static const char *const kinds[] = {
		"context", "stream", "event", "module", "function", "variable", "library",
		"kernel", "reservation", "physical", "mapping", "memory", "array", "mipmap",
		"pool", "texture", "surface", "host", "graph", "executable"
	};

	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		int n = 0, recorded = records_count(kinds[k]);

		for (int i = 0; i < n_objects; i++)
			n += is(i, kinds[k]);
		if (recorded < n || recorded > n + unknown_of(kinds[k])) {
			printf("# %d of kind %s, %d records\n", n, kinds[k], recorded);
			return false;
		}
	}
	return true;
}

/* Without what it was made on. */
static bool is_left(int i, const char *kind)
{
	return is(i, kind) && !objects[objects[i].on].alive;
}

/* What the engine names is there. */
static bool may_refuse(void)
{
	int i = n_objects - 1;

	while (i >= 0 && !(is_left(i, "texture") || is_left(i, "surface") || is_left(i, "host")))
		i--;
	return i >= 0 || any("memory") >= 0 || !graphs_are_sound();
}

/* Gives away what the engine cannot make again. */
static void tidy(void)
{
	for (int i = 0; i < n_objects; i++) {
		if (is(i, "memory") && !BOTH(cuMemFree_v2(H(CUdeviceptr, i))))
			end(i);
		if ((is_left(i, "texture") || is_left(i, "surface")) && !destroy_texture(i))
			end(i);
		if (is_left(i, "host"))
			give_back(i);
	}
	tidy_graphs();
}

static bool none_is_current(void)
{
	CUcontext c = NULL;

	gck_cuda_driver.cuCtxGetCurrent(&c);
	return !c;
}

static bool restart(void)
{
	struct gck_error err = {0};
	const char *unable;

	if (rand() % 8)
		run(tidy);
	unable = gck_cuda_records_unable();

	if (unable) {
		refusals++;
		if (!may_refuse())
			printf("# %s\n", unable);
		return may_refuse();
	}
	restarts++;
	if (gck_cuda_records_save(&err) == 0) {
		anew();
		if (gck_cuda_records_keep(&err) == 0 && again(&err) == 0 &&
		    none_is_current())
			return true;
	}
	printf("# %s, or a context is current\n", err.text);
	return false;
}

static bool program(unsigned seed)
{
	srand(seed);
	n_objects = 0;
	memset(threads, 0, sizeof threads);
	for (size_t i = 0; i < sizeof first_steps / sizeof *first_steps && seed % 2; i++)
		run_in(0, first_steps[i]);
	for (int i = 0; i < CALLS; i++) {
		bool good = true;

		if (rand() % 40 == 0)
			good = restart();
		else
			run(seed % 2 && rand() % 4
				    ? graph_step
				    : steps[(size_t)rand() % (sizeof steps / sizeof *steps)]);
		if (good && !wrong && counts_agree())
			continue;
		printf("# seed %u, call %d: %s\n", seed, i, wrong ? wrong : "");
		return false;
	}
	return true;
}

/* Ends what the program has left, in the threads that have it. */
static void clear_stack(void)
{
	uint64_t v[WORLDS];

	while (threads[t].depth) {
		BOTH(cuCtxPopCurrent_v2((CUcontext *)&v[W]));
		threads[t].depth--;
	}
	v[PLAIN] = v[ENGINE] = CU_STREAM_CAPTURE_MODE_GLOBAL;
	BOTH(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)&v[W]));
}

/* The newest first: mappings go before reservations. */
static void clear_objects(void)
{
	for (int i = n_objects; i-- > 0;) {
		clear_graph(i);
		if (is(i, "mapping"))
			BOTH(cuMemUnmap(H(CUdeviceptr, i), GRANULE));
		else if (is(i, "reservation"))
			BOTH(cuMemAddressFree(H(CUdeviceptr, i), PARTS * GRANULE));
		else if (is(i, "host"))
			give_back(i);
		else if (is(i, "library"))
			BOTH(cuLibraryUnload(H(CUlibrary, i)));
		else if (is(i, "pool"))
			BOTH(cuMemPoolDestroy(H(CUmemoryPool, i)));
		else if (is(i, "context") && !objects[i].primary)
			BOTH(cuCtxDestroy_v2(H(CUcontext, i)));
		while (is(i, "physical") && objects[i].uses--) {
			BOTH(cuMemRelease(H(CUmemGenericAllocationHandle, i)));
			objects[i].alive = objects[i].uses > 0;
		}
	}
	end_users();
	for (int device = 0; device < DEVICES; device++)
		BOTH(cuDevicePrimaryCtxReset_v2(device));
}

static bool clear(void)
{
	for (int i = 0; i < THREADS; i++) {
		t = i;
		step = clear_stack;
		sem_post(&begin[i]);
		while (sem_wait(&done))
			;
	}
	run(clear_objects);
	n_objects = 0;
	if (wrong)
		printf("# at the end: %s\n", wrong);
	return !wrong && counts_agree();
}

/* ---- TAP of all files ------------------------------------------------------------------------ */

bool claim(bool good, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return ok(good, "%s", text);
}

void claim_int(long long got, long long wanted, const char *name)
{
	is_int(got, wanted, name);
}

void claim_str(const char *got, const char *wanted, const char *name)
{
	is_str(got, wanted, name);
}

/* ---- single cases ---------------------------------------------------------------------------- */

#define E (&worlds[ENGINE])

static bool restarted(void)
{
	struct gck_error err = {0};
	const char *unable = gck_cuda_records_unable();

	if (!unable && gck_cuda_records_save(&err) == 0) {
		anew();
		if (gck_cuda_records_keep(&err) == 0 && again(&err) == 0)
			return true;
	}
	printf("# %s\n", unable ? unable : err.text);
	return false;
}

/* The time between two events has the pause of a restart, if there was one. */
static void test_elapsed(void)
{
	CUevent events[3];
	float before = 0, after = 0, over = 0;
	CUcontext context;

	E->cuCtxCreate_v2(&context, 0, 0);
	for (int i = 0; i < 3; i++) {
		E->cuEventCreate(&events[i], 0);
		if (i == 2)
			ok(restarted(), "a restart");
		usleep(20000);
		E->cuEventRecord(events[i], NULL);
		E->cuEventSynchronize(events[i]);
	}
	usleep(20000);
	E->cuEventElapsedTime(&over, events[1], events[2]);
	ok(over >= 20 && over < 1e6f, "the time between events, one from before a restart: %f",
	   (double)over);
	E->cuEventElapsedTime(&before, events[0], events[1]);
	ok(restarted(), "another restart");
	E->cuEventElapsedTime(&after, events[0], events[1]);
	ok(after > before - 1 && after < before + 1,
	   "the time between events of before: %f, %f", (double)before, (double)after);
	E->cuCtxDestroy_v2(context);
}

static CUstream launched_on;

static CUresult launch_seen(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
	(void)f;
	(void)params;
	(void)extra;
	launched_on = config->hStream;
	return CUDA_SUCCESS;
}

static CUgraphNodeParams node_seen;

static CUresult nodes_seen(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
	(void)exec;
	(void)node;
	node_seen = *params;
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult operations_seen(CUarrayMapInfo *list, unsigned n, CUstream stream)
{
	(void)list;
	(void)n;
	(void)stream;
	return CUDA_SUCCESS;
}

/* Handles inside structures are translated, or the call is refused. */
static void test_structures(void)
{
	const struct gck_cuda_real before = gck_cuda_driver;
	CUlaunchAttribute event = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
	CUlaunchConfig config = {0};
	CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	CUarrayMapInfo map = {.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL};
	CUcontext context;

	E->cuCtxCreate_v2(&context, 0, 0);
	E->cuStreamCreate(&config.hStream, 0);
	ok(restarted(), "a restart with a stream");
	gck_cuda_driver.cuLaunchKernelEx = launch_seen;
	gck_cuda_driver.cuGraphExecNodeSetParams = nodes_seen;
	E->cuLaunchKernelEx(&config, NULL, NULL, NULL);
	ok(launched_on != config.hStream &&
	   (uintptr_t)launched_on == records_now("stream", (uintptr_t)config.hStream),
	   "a launch's stream inside a structure is the driver's own");
	config.attrs = &event;
	config.numAttrs = 1;
	is_int(E->cuLaunchKernelEx(&config, NULL, NULL, NULL), CUDA_ERROR_NOT_SUPPORTED,
	       "an event in a launch's attributes is refused");
	node.kernel.ctx = context;
	E->cuGraphExecNodeSetParams(NULL, NULL, &node);
	ok(node_seen.kernel.ctx != context && (uintptr_t)node_seen.kernel.ctx ==
	   records_now("context", (uintptr_t)context),
	   "a node's context inside a structure is the driver's own");
	gck_cuda_driver.cuMemMapArrayAsync = operations_seen;
	is_int(E->cuMemMapArrayAsync(&map, 1, NULL), CUDA_ERROR_NOT_SUPPORTED,
	       "a structure that cannot be translated is refused");
	gck_cuda_driver = before;
	E->cuCtxDestroy_v2(context);
}

static void refuses(const char *text, const char *what)
{
	const char *unable = gck_cuda_records_unable();

	ok(unable && strstr(unable, text), "%s is named: %s", what, unable ? unable : "");
}

static void *other_thread(void *context)
{
	E->cuCtxPushCurrent_v2(context);
	sem_post(&begin[0]);
	while (sem_wait(&begin[1]))
		;
	return NULL;
}

/* The last module has its place beside one that has ended, and that one beside one whose context
 * has, which is primary or not. */
static void test_beside_ended(bool primary)
{
	CUmodule first, second, third;
	CUdeviceptr at, again;
	CUcontext other;
	size_t size;

	if (primary) {
		E->cuDevicePrimaryCtxRetain(&other, 0);
		E->cuCtxPushCurrent_v2(other);
	} else {
		E->cuCtxCreate_v2(&other, 0, 0);
	}
	E->cuModuleLoadData(&first, ptx);
	E->cuCtxPopCurrent_v2(NULL);
	E->cuModuleLoadData(&second, ptx);
	if (primary)
		E->cuDevicePrimaryCtxRelease_v2(0);
	else
		E->cuCtxDestroy_v2(other);
	E->cuModuleLoadData(&third, ptx);
	E->cuModuleUnload(second);
	E->cuModuleGetGlobal_v2(&at, &size, third, "third");
	ok(restarted(), "a module beside one that ended beside one whose %scontext has",
	   primary ? "primary " : "");
	E->cuModuleGetGlobal_v2(&again, &size, third, "third");
	ok(at == again, "its variables are where they were");
	E->cuModuleUnload(third);
}

static const unsigned char unknown[16] = {0x50, 0xed, 0x55, 0xba, 2, 0, 16};

static CUresult load_plain(CUlibrary *library, const void *image)
{
	return E->cuLibraryLoadData(library, image, NULL, NULL, 0, NULL, NULL, 0);
}

static CUresult no_library(CUlibrary *library, const void *code, CUjit_option *jit,
			   void **jit_values, unsigned int njit, CUlibraryOption *options,
			   void **values, unsigned int n)
{
	(void)library;
	(void)code;
	(void)jit;
	(void)jit_values;
	(void)njit;
	(void)options;
	(void)values;
	(void)n;
	return CUDA_ERROR_NOT_SUPPORTED;
}

static void test_libraries(void)
{
	__typeof__(gck_cuda_driver.cuLibraryLoadData) before;
	CUlibrary library;
	CUcontext context;
	CUmodule part, later;

	E->cuCtxCreate_v2(&context, 0, 0);
	load_plain(&library, unknown);
	E->cuLibraryGetModule(&part, library);
	refuses("cuLibraryLoadData", "a library of an unknown kind of fatbin");
	E->cuModuleLoadData(&later, ptx);
	E->cuLibraryUnload(library);
	refuses("beside one that has ended", "a module beside it, once it has ended");
	E->cuModuleUnload(later);
	load_plain(&library, ptx);
	E->cuModuleLoadData(&later, ptx);
	E->cuLibraryUnload(library);
	ok(restarted(), "a module beside a library that has ended can be made again");
	E->cuModuleUnload(later);
	load_plain(&library, ptx);
	E->cuLibraryUnload(library);
	before = gck_cuda_driver.cuLibraryLoadData;
	gck_cuda_driver.cuLibraryLoadData = no_library;
	ok(restarted(), "without that module the library is not made again");
	gck_cuda_driver.cuLibraryLoadData = before;
	E->cuCtxDestroy_v2(context);
}

static CUarray given;

static CUresult same_array(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *about)
{
	(void)about;
	*array = given;
	return CUDA_SUCCESS;
}

/* Memory that is not mapped while a restart is, or without access, or on a device without a
 * context. */
static void test_unmapped(void)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
						       .id = 1}};
	const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle memory;
	uint64_t seven = 7, v = 0;
	CUcontext context;
	CUdeviceptr at;

	E->cuCtxCreate_v2(&context, 0, 1);
	E->cuMemAddressReserve(&at, 2 * GRANULE, 0, 0, 0);
	E->cuMemCreate(&memory, GRANULE, &prop, 0);
	E->cuMemMap(at, GRANULE, 0, memory, 0);
	E->cuMemSetAccess(at, GRANULE, &access, 1);
	E->cuMemcpyHtoD_v2(at, &seven, 8);
	E->cuMemUnmap(at, GRANULE);
	E->cuCtxDestroy_v2(context);
	ok(restarted(), "memory that is not mapped is made again without a context");
	E->cuCtxCreate_v2(&context, 0, 1);
	E->cuMemMap(at + GRANULE, GRANULE, 0, memory, 0);
	E->cuMemRelease(memory);
	ok(restarted(), "so is memory without access or handle");
	E->cuMemSetAccess(at + GRANULE, GRANULE, &access, 1);
	E->cuMemcpyDtoH_v2(&v, at + GRANULE, 8);
	is_int((int)v, 7, "it has its contents");
	E->cuMemUnmap(at + GRANULE, GRANULE);
	E->cuMemAddressFree(at, 2 * GRANULE);
	E->cuCtxDestroy_v2(context);
}

/* A texture of memory that goes. */
static void refuse_unmapped(void)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
	CUdeviceptr *at = &resource.res.linear.devPtr;
	CUmemGenericAllocationHandle memory;
	CUsurfObject surface;

	E->cuMemAddressReserve(at, GRANULE, 0, 0, 0);
	E->cuMemCreate(&memory, GRANULE, &prop, 0);
	E->cuMemMap(*at, GRANULE, 0, memory, 0);
	E->cuMemSetAccess(*at, GRANULE, &access, 1);
	E->cuSurfObjectCreate(&surface, &resource);
	is_str(gck_cuda_records_unable(), NULL, "a surface of memory can be made again");
	E->cuMemUnmap(*at, GRANULE);
	E->cuMemRelease(memory);
	refuses("its memory is not mapped", "one without its memory");
	E->cuSurfObjectDestroy(surface);
	E->cuMemAddressFree(*at, GRANULE);
}

static void test_textures(void)
{
	const CUDA_ARRAY_DESCRIPTOR flat = {4, 4, CU_AD_FORMAT_FLOAT, 1};
	const CUDA_ARRAY3D_DESCRIPTOR sparse = {4, 4, 4, CU_AD_FORMAT_FLOAT, 1,
						CUDA_ARRAY3D_SPARSE};
	__typeof__(gck_cuda_driver.cuArrayCreate_v2) before = gck_cuda_driver.cuArrayCreate_v2;
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC about = {0};
	CUmipmappedArray mipmap;
	CUtexObject texture;
	CUcontext context;
	CUarray array;

	E->cuCtxCreate_v2(&context, 0, 0);
	E->cuArray3DCreate_v2(&array, &sparse);
	refuses("an array of another kind", "a sparse array");
	E->cuArrayDestroy(array);
	E->cuMipmappedArrayCreate(&mipmap, &sparse, 2);
	refuses("a mipmapped array of another kind", "a sparse mipmapped array");
	E->cuMipmappedArrayDestroy(mipmap);
	refuse_unmapped();
	E->cuArrayCreate_v2(&given, &flat);
	resource.res.array.hArray = given;
	E->cuTexObjectCreate(&texture, &resource, &about, NULL);
	is_str(gck_cuda_records_unable(), NULL, "a texture of an array can be made again");
	E->cuArrayDestroy(given);
	refuses("its array has ended", "one without its array");
	gck_cuda_driver.cuArrayCreate_v2 = same_array;
	E->cuArrayCreate_v2(&array, &flat);
	refuses("its array has ended", "one with a later array of the same handle");
	gck_cuda_driver.cuArrayCreate_v2 = before;
	E->cuCtxDestroy_v2(context);
	E->cuCtxCreate_v2(&context, 0, 0);
	E->cuArrayCreate_v2(&given, &flat);
	gck_cuda_driver.cuArrayCreate_v2 = same_array;
	E->cuArrayCreate_v2(&array, &flat);
	refuses("a handle of two objects", "two arrays with one handle");
	gck_cuda_driver.cuArrayCreate_v2 = before;
	E->cuCtxDestroy_v2(context);
	is_str(gck_cuda_records_unable(), NULL, "without them all can be made again");
}

static CUresult other_number(CUtexObject *texture, const CUDA_RESOURCE_DESC *resource,
			     const CUDA_TEXTURE_DESC *about, const CUDA_RESOURCE_VIEW_DESC *view)
{
	(void)resource;
	(void)about;
	(void)view;
	*texture = 1000;
	return CUDA_SUCCESS;
}

/* A restart in which a texture gets another number fails. The last test: nothing can go on. */
static void test_other_number(void)
{
	const CUDA_ARRAY_DESCRIPTOR flat = {4, 4, CU_AD_FORMAT_FLOAT, 1};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC about = {0};
	struct gck_error err = {0};
	CUtexObject texture;
	CUcontext context;

	E->cuCtxCreate_v2(&context, 0, 0);
	E->cuArrayCreate_v2(&resource.res.array.hArray, &flat);
	E->cuTexObjectCreate(&texture, &resource, &about, NULL);
	ok(!gck_cuda_records_save(&err), "a texture is saved");
	anew();
	gck_cuda_driver.cuTexObjectCreate = other_number;
	ok(again(&err) && strstr(err.text, "texture 0x1 is at 0x3e8"),
	   "its other number is named: %s", err.text);
}

/* The first is known. */
static CUresult any_options(CUmodule *module, const void *image, unsigned int n,
			    CUjit_option *options, void **values)
{
	(void)n;
	(void)options;
	(void)values;
	return gck_cuda_driver.cuModuleLoadData(module, image);
}

/* The runtime compares the context that is current, and has ended, with the one that it knows. */
static void test_ended_primary(void)
{
	CUcontext context, current, told, again;

	E->cuDevicePrimaryCtxRetain(&context, 0);
	E->cuCtxSetCurrent(context);
	ok(restarted(), "a primary context is made again");
	E->cuDevicePrimaryCtxReset_v2(0);
	E->cuCtxGetCurrent(&current);
	ask_tables();
	((get_current_context *)tables[ENGINE][CURRENT][2])(&told);
	E->cuDevicePrimaryCtxRetain(&again, 0);
	ok(current == context && told == context && again == context,
	   "its handle is the same when it has ended, and when it is there again");
	E->cuCtxSetCurrent(NULL);
	E->cuDevicePrimaryCtxRelease_v2(0);
}

/* Options whose values are addresses are named. */
static void test_options(void)
{
	CUjit_option option = CU_JIT_GLOBAL_SYMBOL_ADDRESSES;
	CUresult (*before)(CUmodule *, const void *, unsigned int, CUjit_option *, void **) =
		gck_cuda_driver.cuModuleLoadDataEx;
	CUmodule module;
	void *value = NULL;

	gck_cuda_driver.cuModuleLoadDataEx = any_options;
	E->cuModuleLoadDataEx(&module, ptx, 1, &option, &value);
	gck_cuda_driver.cuModuleLoadDataEx = before;
	refuses("cuModuleLoadDataEx", "a module with addresses among its options");
	E->cuModuleUnload(module);
}

static void test_refusals(void)
{
	const CUmemPoolProps host = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}};
	CUcontext context, other;
	CUdeviceptr at;
	CUmodule a, b;
	CUgraph graph;
	CUstream stream;
	CUmemoryPool pool;
	pthread_t id;

	E->cuCtxCreate_v2(&context, 0, 0);
	is_str(gck_cuda_records_unable(), NULL, "a context can be made again");
	E->cuMemAlloc_v2(&at, 100);
	refuses("cuMemAlloc_v2", "memory of the driver's own");
	E->cuMemFree_v2(at);
	E->cuMemPoolCreate(&pool, &host);
	refuses("a pool of another kind", "a pool of the host's memory");
	E->cuMemPoolDestroy(pool);
	E->cuModuleLoadData(&a, unknown);
	refuses("cuModuleLoadData", "a module of an unknown kind of fatbin");
	E->cuModuleUnload(a);
	test_cubin(&cubin, TEST_MANAGED);
	E->cuModuleLoadData(&a, &cubin);
	test_cubin(&cubin, 0);
	refuses("managed variables", "a cubin with a managed variable");
	E->cuModuleUnload(a);
	cubin.symbols[1].st_name = test_cubin_name(&cubin, "malloc");
	E->cuModuleLoadData(&a, &cubin);
	test_cubin(&cubin, 0);
	refuses("kernels allocate memory", "a cubin with a kernel that allocates");
	E->cuModuleUnload(a);
	E->cuModuleLoadData(&a, ".version 8.0\n.target sm_90\n.address_size 64\n"
				".extern .func (.param .b64 r) malloc (.param .b64 n);\n");
	refuses("kernels allocate memory", "PTX with a kernel that allocates");
	E->cuModuleUnload(a);
	E->cuModuleLoadData(&a, "not PTX");
	refuses("variables are not known", "a module of another text");
	E->cuModuleUnload(a);
	E->cuModuleLoadData(&a, ptx);
	E->cuModuleLoadData(&b, ptx);
	is_str(gck_cuda_records_unable(), NULL, "two modules can be made again");
	E->cuModuleUnload(a);
	is_str(gck_cuda_records_unable(), NULL, "nor does the end of one keep the other from it");
	E->cuModuleUnload(b);
	test_options();
	test_beside_ended(false);
	test_beside_ended(true);
	E->cuStreamCreate(&stream, 0);
	E->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	refuses("it is in a capture", "a stream in a capture");
	E->cuStreamEndCapture(stream, &graph);
	is_str(gck_cuda_records_unable(), NULL, "what it has captured can be made again");
	E->cuGraphDestroy(graph);
	is_str(gck_cuda_records_unable(), NULL, "without it the stream can be made again");
	E->cuStreamDestroy_v2(stream);
	E->cuCtxCreate_v2(&other, 0, 0);
	E->cuCtxPopCurrent_v2(NULL);
	pthread_create(&id, NULL, other_thread, other);
	while (sem_wait(&begin[0]))
		;
	E->cuCtxDestroy_v2(other);
	refuses("a thread whose current context has ended", "another thread's context");
	sem_post(&begin[1]);
	pthread_join(id, NULL);
	is_str(gck_cuda_records_unable(), NULL, "a thread that has ended has none");
	E->cuCtxDestroy_v2(context);
}

/* ---- who is told of checkpoints -------------------------------------------------------------- */

static int told;

/* In the order of the calls. */
static enum fake_listened heard[8];

static int hear(enum fake_listened what)
{
	heard[told++ % 8] = what;
	return 0;
}

static int hear_lock(const void *request)
{
	const struct fake_lock_request *lock = request;

	return lock->end_ns > 0 ? hear(FAKE_LOCK) : 1;
}

static int hear_unlock(const void *none)
{
	(void)none;
	return hear(FAKE_UNLOCK);
}

static int hear_checkpoint(const void *none)
{
	(void)none;
	return hear(FAKE_CHECKPOINT);
}

static int hear_restore(const void *request)
{
	const struct fake_restore_request *restore = request;
	CUuuid first;

	gck_cuda_driver.cuDeviceGetUuid_v2(&first, 0);
	return restore->n && !memcmp(restore->gpus[0].was, &first, sizeof first)
		       ? hear(FAKE_RESTORE) : 1;
}

struct listener_about {
	size_t size;
	void *unknown;
	fake_listen *told[4];
};

typedef CUresult make_listener(void **listener, const struct listener_about *about);
typedef uint64_t use_listener(void *listener);

/* The driver's own checkpoint calls it as often as it is locked and unlocked. */
static int times_told(void)
{
	told = 0;
	gck_cuda_driver.cuCheckpointProcessLock(getpid(), NULL);
	gck_cuda_driver.cuCheckpointProcessUnlock(getpid(), NULL);
	return told;
}

static bool closes(void)
{
	struct gck_error err = {0};

	told = 0;
	return all_of(!gck_cuda_records_listeners_close(INT64_MAX, &err), told == 2,
		      heard[0] == FAKE_LOCK, heard[1] == FAKE_CHECKPOINT);
}

static bool opens(void)
{
	told = 0;
	gck_cuda_records_listeners_open();
	return all_of(told == 2, heard[0] == FAKE_RESTORE, heard[1] == FAKE_UNLOCK);
}

static void **listeners_table(void)
{
	static const CUuuid id = {"\x69\xa2\x8e\x9f\x24\x49\x8b\x47\xb0\x30\xc5\xda\x33\x0e"
				  "\xa4\xe9"};
	const void *table;

	E->cuGetExportTable(&table, &id);
	return (void **)(uintptr_t)table;
}

/* As NVML has it, which closes its descriptors in a checkpoint. */
static void test_listeners(void)
{
	struct listener_about about = {
		0, NULL, {hear_lock, hear_unlock, hear_checkpoint, hear_restore}};
	struct gck_error err = {0};
	void **call = listeners_table(), *listener;
	CUuuid first;

	gck_cuda_driver.cuDeviceGetUuid_v2(&first, 0);
	gck_cuda_state.devices.n = gck_cuda_state.devices.all = 1;
	memcpy(gck_cuda_state.devices.v[0].uuid, &first, sizeof first);
	((make_listener *)call[19])(&listener, &about);
	memset(&about, 0, sizeof about); /* the driver has a copy */
	((use_listener *)call[21])(listener);
	is_int(times_told(), 2, "the driver calls a listener");
	is_str(gck_cuda_records_unable(), NULL, "it can be made again");
	ok(all_of(closes(), opens()), "it is told of a checkpoint, and that it is over");
	((use_listener *)call[22])(listener);
	is_int(times_told(), 0, "until it is taken out");
	((use_listener *)call[21])(listener);
	ok(all_of(!gck_cuda_records_save(&err), closes()), "it is told of one more");
	anew();
	ok(!gck_cuda_records_keep(&err) && !again(&err), "and is made again: %s", err.text);
	ok(opens(), "it is told in the end");
	gck_cuda_driver.cuInit(0);
	is_int(times_told(), 2, "the fresh driver calls it");
	((use_listener *)call[22])(listener);
	is_int(times_told(), 0, "and takes the handle of before");
	((use_listener *)call[20])(listener);
}

/* For which GPUs the modules have code; what several have is there once. */
static void test_code(void)
{
	static const char wanted[] = "sm_90\0sm_90a\0compute_70 sm_90\0compute_80";
	char code[100] = "";
	CUcontext context;
	CUmodule m;

	E->cuCtxCreate_v2(&context, 0, 0);
	E->cuModuleLoadData(&m, &cubin);
	E->cuModuleLoadData(&m, &cubin);
	cubin.head.e_ident[EI_ABIVERSION] = 8;
	cubin.head.e_flags = 90 << 8 | 8;
	E->cuModuleLoadData(&m, &cubin);
	test_cubin(&cubin, 0);
	E->cuModuleLoadData(&m, &fatbin);
	E->cuModuleLoadData(&m, ".version 8.0\n.target sm_80\n");
	is_int((int)gck_cuda_records_code(code, sizeof code), (int)sizeof wanted,
	       "the modules' code is listed");
	ok(!memcmp(code, wanted, sizeof wanted), "with the GPUs that it is for: %s", code);
	is_int((int)gck_cuda_records_code(code, 10), 6, "as far as there is room");
	E->cuCtxDestroy_v2(context);
}

static int hear_and_fail(const void *request)
{
	(void)request;
	hear(FAKE_RESTORE);
	return 999;
}

/* The program goes on without it. */
static void test_lost_listener(void)
{
	const struct listener_about about = {
		0, NULL, {hear_lock, hear_unlock, hear_checkpoint, hear_and_fail}};
	void **call = listeners_table(), *listener;

	((make_listener *)call[19])(&listener, &about);
	((use_listener *)call[21])(listener);
	ok(all_of(closes(), opens()), "a listener that cannot open the GPU again is unlocked");
	((use_listener *)call[22])(listener);
	((use_listener *)call[20])(listener);
	refuses("NVML", "it, from then on,");
}

/* A program may keep them, and the driver's are gone with it. */
static void test_texts(void)
{
	const char *text, *again, *own;

	E->cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text);
	E->cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &again);
	gck_cuda_driver.cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &own);
	ok(all_of(text != own, text == again, !strcmp(text, own)),
	   "a text of the driver's is a copy");
}

static bool doubts(const char *text)
{
	const char *why = gck_cuda_records_doubt();

	return why && strstr(why, text);
}

/* What ends may have had a place that a later module's depends on. */
static void test_doubts(void)
{
	CUcontext context;
	CUmodule first, second;
	CUstream stream;
	CUevent event;

	E->cuCtxCreate_v2(&context, 0, 0);
	E->cuModuleLoadData(&first, ptx);
	E->cuStreamCreate(&stream, 0);
	E->cuEventCreate(&event, 0);
	E->cuModuleLoadData(&second, ptx);
	E->cuEventDestroy_v2(event);
	is_str(gck_cuda_records_doubt(), NULL, "modules have places of their own");
	E->cuStreamDestroy_v2(stream);
	ok(doubts("module"), "but beside a stream that has ended: %s", gck_cuda_records_doubt());
	E->cuModuleUnload(second);
	is_str(gck_cuda_records_doubt(), NULL, "one that had its place before has not");
	E->cuModuleLoadData(&second, ptx);
	E->cuModuleUnload(first);
	ok(doubts("module"), "nor is one sure that has to be made again");
	E->cuCtxDestroy_v2(context);
	is_str(gck_cuda_records_doubt(), NULL, "nothing is left");
}

/* Nothing takes back the last three. */
static void test_lasting_refusals(void)
{
	const void *table;
	void *entry;

	((open_entry *)tables[ENGINE][CACHE][1])(&entry, 0, "", 1);
	refuses("cache of compiled programs", "an entry of the cache that is open");
	((close_entry *)tables[ENGINE][CACHE][2])(entry);
	is_str(gck_cuda_records_unable(), NULL, "one that was closed is none");
	test_lost_listener();
	E->cuGetExportTable(&table, &(const CUuuid){{0}});
	refuses("private table of the driver that is not known", "a table that is not known");
	tables[ENGINE][TOOLS][6]();
	refuses("function 6 of the driver's private table 6e163fbe",
		"a function that is not known");
}

static void end_threads(pthread_t *ids)
{
	step = NULL;
	for (int i = 0; i < THREADS; i++) {
		sem_post(&begin[i]);
		pthread_join(ids[i], NULL);
	}
}

/* ---- the drivers ----------------------------------------------------------------------------- */

/* A second copy of a library is one of another file. */
static void *load_copy(const char *path)
{
	char name[64];
	int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("driver", MFD_CLOEXEC);
	struct stat st;

	if (from < 0 || to < 0 || fstat(from, &st) ||
	    sendfile(to, from, NULL, (size_t)st.st_size) != st.st_size)
		return NULL;
	close(from);
	snprintf(name, sizeof name, "/proc/self/fd/%d", to);
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static bool find_functions(void *library, struct gck_cuda_real *table)
{
	if (library)
		gck_cuda_records_find(table, dlsym, library);
	return library && !table->cuInit(0);
}

static bool load_drivers(void)
{
	void *other = load_copy(GCK_TEST_DRIVER);

	if (!find_functions(dlopen(GCK_TEST_DRIVER, RTLD_NOW), &worlds[PLAIN]) ||
	    !find_functions(other, &gck_cuda_driver))
		return false;
	*(void **)&anew = dlsym(other, "fake_anew");
	gck_cuda_records_hook(&worlds[ENGINE]);
	return anew && !worlds[ENGINE].cuInit(0);
}

/* Threads that take turns, thousands of times, need not wait for another CPU each time. */
static void use_one_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof one, &one))
		printf("# on several CPUs\n");
}

int main(int argc, char **argv)
{
	unsigned first = argc > 1 ? (unsigned)atoi(argv[1]) : 1, n_done = 0;
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : argc > 1 ? 1
		     : tap_is_long() ? PROGRAMS_LONG : PROGRAMS;
	pthread_t ids[THREADS];

	setenv("FAKE_CUDA_DEVICES", "2", 1);
	setenv("FAKE_CUDA_GRANULE", "16", 1);
	use_one_cpu();
	test_cubin(&cubin, 0);
	test_fatbin(&fatbin, ".version 8.0\n.target sm_70\n.address_size 64\n"
			     ".visible .global .align 8 .u64 first;\n"
			     ".visible .global .align 8 .u64 elsewhere;\n");
	sem_init(&done, 0, 0);
	if (!ok(load_drivers(), "two copies of the fake driver"))
		return tap_done();
	for (int i = 0; i < THREADS; i++) {
		sem_init(&begin[i], 0, 0);
		if (pthread_create(&ids[i], NULL, thread, &begin[i]))
			return 1;
	}
	while (n_done < n && program(first + n_done) && clear())
		n_done++;
	is_int((int)n_done, (int)n, "random programs: all results are the same behind the hooks");
	printf("# %u restarts, %u refused\n", restarts, refusals);
	ok(n < 10 || restarts > n, "with restarts");
	end_threads(ids);
	if (n_done == n) {
		test_ended_primary();
		test_elapsed();
		test_structures();
		test_libraries();
		test_unmapped();
		test_textures();
		test_code();
		test_texts();
		test_doubts();
		graph_cases(restarted, refuses, ptx);
		test_refusals();
		test_listeners();
		test_other_number();
		test_lasting_refusals();
	}
	return tap_done();
}

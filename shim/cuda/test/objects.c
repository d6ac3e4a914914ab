/* SPDX-License-Identifier: Apache-2.0
 * objects.tbl against the fake driver: after each call of random programs, the objects that should
 * live by the table are those that the driver still knows. Contexts, streams, memory of a context
 * and host memory. `cuda_objects [SEED]`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/base/cuda_api.h"
#include "test/support/tap.h"

struct effect {
	const char *function, *verb, *kind;
	int parameter;           /* the handle, or what receives it; -1: none */
};

struct kind {
	const char *name, *of;
};

#include "shim/cuda/test/objects.h"

#define MOST 4096
#define PARAMETERS 6
#define SEEDS 20
#define CALLS 400
#define DEVICES 2

/* An object of the model. */
static struct object {
	const char *kind;
	uint64_t handle;
	int of;                  /* the object that it ends with; -1: none */
	int uses;                /* of hold and drop */
	bool alive;
} objects[MOST];
static int nobjects;

static void *driver;

static void *function(const char *name)
{
	void *f = dlsym(driver, name);

	if (!f)
		printf("# the fake driver has no %s\n", name);
	return f;
}

static CUresult call(const char *name, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	CUresult (*f)(uint64_t, uint64_t, uint64_t, uint64_t) = NULL;

	*(void **)&f = function(name);
	return f ? f(a, b, c, d) : CUDA_ERROR_NOT_FOUND;
}

/* ---- the model ------------------------------------------------------------------------------- */

static int find(const char *kind, uint64_t handle)
{
	for (int i = nobjects; i-- > 0;) {
		if (objects[i].alive && objects[i].handle == handle &&
		    !strcmp(objects[i].kind, kind))
			return i;
	}
	return -1;
}

static void end(int i)
{
	if (i < 0)
		return;
	objects[i].alive = false;
	for (int j = 0; j < nobjects; j++) {
		if (objects[j].alive && objects[j].of == i)
			end(j);
	}
}

/* The current context; -1: none. One that was destroyed is not used any more. */
static int current(void)
{
	CUcontext c = NULL;
	int i;

	call("cuCtxGetCurrent", (uintptr_t)&c, 0, 0, 0);
	i = find("context", (uintptr_t)c);
	if (c && i < 0)
		call("cuCtxSetCurrent", 0, 0, 0, 0);
	return c && i < 0 ? current() : i;
}

static const char *owner_of(const char *kind)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (!strcmp(kinds[i].name, kind))
			return kinds[i].of;
	}
	return "";
}

static void make(const char *kind, uint64_t handle, int of)
{
	struct object *o = &objects[nobjects++];

	*o = (struct object){.kind = kind, .handle = handle, .of = of, .uses = 1, .alive = true};
}

/* The object that is the device's primary context. */
static int primary(uint64_t device)
{
	static CUcontext handles[DEVICES];
	unsigned int flags;
	int active;

	if (!handles[device]) { /* it stays the same */
		call("cuDevicePrimaryCtxRetain", (uintptr_t)&handles[device], device, 0, 0);
		call("cuDevicePrimaryCtxRelease_v2", device, 0, 0, 0);
	}
	call("cuDevicePrimaryCtxGetState", device, (uintptr_t)&flags, (uintptr_t)&active, 0);
	return find("context", (uintptr_t)handles[device]);
}

static void hold(const char *kind, uint64_t handle)
{
	int i = find(kind, handle);

	if (i < 0)
		make(kind, handle, -1);
	else
		objects[i].uses++;
}

static void drop(int i)
{
	if (i >= 0 && --objects[i].uses == 0)
		end(i);
}

/* What the table says of the function, of which the parameters had these values and results. */
static void apply(const char *name, const uint64_t words[PARAMETERS], int was_current)
{
	for (size_t i = 0; i < sizeof effects / sizeof *effects; i++) {
		const struct effect *e = &effects[i];
		uint64_t word = e->parameter >= 0 ? words[e->parameter] : 0;

		if (strcmp(e->function, name))
			continue;
		if (!strcmp(e->verb, "make"))
			make(e->kind, word, *owner_of(e->kind) ? was_current : -1);
		else if (!strcmp(e->verb, "hold"))
			hold(e->kind, word);
		else if (!strcmp(e->verb, "drop"))
			drop(primary(word));
		else if (!strcmp(e->verb, "reset"))
			end(primary(words[0]));
		else if (!strcmp(e->verb, "end"))
			end(find(e->kind, word));
	}
}

/* ---- the driver ------------------------------------------------------------------------------ */

static bool lives(const struct object *o)
{
	CUdeviceptr base = 0;
	unsigned int number;

	if (!strcmp(o->kind, "context"))
		return !call("cuCtxGetApiVersion", o->handle, (uintptr_t)&number, 0, 0);
	if (!strcmp(o->kind, "stream"))
		return !call("cuStreamGetFlags", o->handle, (uintptr_t)&number, 0, 0);
	call("cuMemGetAddressRange_v2", (uintptr_t)&base, 0, o->handle, 0);
	return base == o->handle;
}

static bool is_used(uint64_t handle)
{
	int i = 0;

	while (i < nobjects && !(objects[i].alive && objects[i].handle == handle))
		i++;
	return i < nobjects;
}

/* A dead object is not asked for if a living one has its handle. */
static bool agrees(const char *after)
{
	for (int i = 0; i < nobjects; i++) {
		const struct object *o = &objects[i];

		if ((!o->alive && is_used(o->handle)) || lives(o) == o->alive)
			continue;
		printf("# %s %d, %d of them: %s by the table, after %s\n", o->kind, i, nobjects,
		       o->alive ? "alive" : "dead", after);
		return false;
	}
	return true;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* How a function is called. Letters: r a result, one of s and h for a living stream or host memory,
 * m memory, c a context, d a device, b bytes, g the flag of managed memory, 0 nothing. */
static const struct step {
	const char *name, *parameters;
} steps[] = {
	{"cuDevicePrimaryCtxRetain", "rd"}, {"cuDevicePrimaryCtxRelease_v2", "d"},
	{"cuDevicePrimaryCtxReset_v2", "d"}, {"cuCtxCreate_v2", "r0d"},
	{"cuCtxDestroy_v2", "c"}, {"cuCtxSetCurrent", "c"}, {"cuCtxSetCurrent", "c"},
	{"cuCtxSynchronize", ""}, {"cuStreamCreate", "r0"}, {"cuStreamCreate", "r0"},
	{"cuStreamCreateWithPriority", "r00"}, {"cuStreamDestroy_v2", "s"},
	{"cuStreamQuery", "s"}, {"cuStreamSynchronize", "s"}, {"cuMemAlloc_v2", "rb"},
	{"cuMemAlloc_v2", "rb"}, {"cuMemFree_v2", "m"}, {"cuMemAllocManaged", "rbg"},
	{"cuMemHostAlloc", "rb0"}, {"cuMemAllocHost_v2", "rb"},
	{"cuMemFreeHost", "h"},
};

static uint64_t any(const char *kind)
{
	int n = 0;
	uint64_t handle = 0;

	for (int i = 0; i < nobjects; i++) {
		if (objects[i].alive && !strcmp(objects[i].kind, kind) && rand() % ++n == 0)
			handle = objects[i].handle;
	}
	return handle;
}

static uint64_t argument(char letter)
{
	switch (letter) {
	case 'c':
		return any("context");
	case 's':
		return any("stream");
	case 'm':
		return any("memory");
	case 'h':
		return any("host");
	case 'd':
		return (uint64_t)(rand() % DEVICES);
	case 'b':
		return 1 + (uint64_t)(rand() % 100000);
	case 'g':
		return CU_MEM_ATTACH_GLOBAL;
	default:
		return 0;
	}
}

/* False: the table and the driver differ afterwards. */
static bool step_once(void)
{
	const struct step *s = &steps[(size_t)rand() % (sizeof steps / sizeof *steps)];
	uint64_t words[PARAMETERS] = {0}, given[PARAMETERS] = {0};
	int was_current = current();

	for (size_t i = 0; s->parameters[i]; i++) {
		words[i] = given[i] = argument(s->parameters[i]);
		if (s->parameters[i] == 'r')
			given[i] = (uintptr_t)&words[i];
		else if (strchr("smh", s->parameters[i]) && !words[i])
			return true; /* there is none */
	}
	if (!call(s->name, given[0], given[1], given[2], given[3]))
		apply(s->name, words, was_current);
	return agrees(s->name);
}

static bool program(unsigned int seed)
{
	srand(seed);
	for (int i = 0; i < CALLS && nobjects < MOST; i++) {
		if (!step_once()) {
			printf("# seed %u, call %d\n", seed, i);
			return false;
		}
	}
	return true;
}

/* Ends all for the next program. */
static void clear(void)
{
	for (int i = 0; i < nobjects; i++) {
		if (objects[i].alive && !strcmp(objects[i].kind, "host"))
			call("cuMemFreeHost", objects[i].handle, 0, 0, 0);
		else if (objects[i].alive && !strcmp(objects[i].kind, "context"))
			call("cuCtxDestroy_v2", objects[i].handle, 0, 0, 0);
	}
	for (uint64_t device = 0; device < DEVICES; device++)
		call("cuDevicePrimaryCtxReset_v2", device, 0, 0, 0);
	nobjects = 0;
}

int main(int argc, char **argv)
{
	unsigned int first = argc > 1 ? (unsigned int)atoi(argv[1]) : 1;
	unsigned int n = argc > 1 ? 1 : SEEDS, done = 0;

	setenv("FAKE_CUDA_DEVICES", "2", 1);
	driver = dlopen(GCK_TEST_DRIVER, RTLD_NOW);
	if (!ok(driver && !call("cuInit", 0, 0, 0, 0), "the fake driver"))
		return tap_done();
	while (done < n && program(first + done)) {
		clear();
		done++;
	}
	is_int((int)done, (int)n, "random programs: what lives by the table lives in the driver");
	return tap_done();
}

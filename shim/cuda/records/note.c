/* SPDX-License-Identifier: Apache-2.0
 * What a call did to the objects that a program holds. */
#include "shim/cuda/records/records.h"

#include <stdlib.h>
#include <string.h>

static const char *spoiled; /* stays */

const char *gck_record_spoiled(void)
{
	return spoiled;
}

/* ---- the library's mappings ------------------------------------------------------------------ */

static const struct gck_records_maps *maps_by;
/* the number of what the calling thread's call makes */
static __thread uint64_t making __attribute__((tls_model("initial-exec")));

void gck_cuda_records_maps_by(const struct gck_records_maps *maps)
{
	maps_by = maps;
}

void gck_record_maps_for(uint64_t object)
{
	if (maps_by)
		maps_by->maps_for(object);
}

uint64_t gck_record_maps_new(void)
{
	static _Atomic uint64_t last;
	uint64_t object = ++last;

	gck_record_maps_for(object);
	return object;
}

static _Atomic bool maps_left;

void gck_record_maps_ended(uint64_t object)
{
	if (maps_by && object && maps_by->ended(object))
		maps_left = true;
}

bool gck_record_maps_left(void)
{
	return maps_left;
}

static bool makes(const struct gck_record_function *f)
{
	bool found = false;

	for (int i = 0; i < f->neffects; i++)
		found |= f->effects[i].verb == GCK_RECORD_MAKE;
	return found;
}

struct gck_record *gck_record_current(void)
{
	CUcontext c = NULL;

	if (gck_cuda_driver.cuCtxGetCurrent(&c) || !c)
		return NULL;
	return gck_record_find_now(GCK_RECORD_CONTEXT, (uintptr_t)c);
}

/* ---- one effect ------------------------------------------------------------------------------ */

struct call {
	const struct gck_record_function *function;
	const uint64_t *words;
	const struct gck_record_effect *effect;
};

static bool is_result(const struct call *c)
{
	return c->function->parameters[c->effect->parameter] == 'r';
}

/* The object's handle; 0: the caller did not want it. */
static uint64_t handle_of(const struct call *c)
{
	uint64_t word = c->words[c->effect->parameter], handle = 0;

	if (!is_result(c))
		return word;
	if (word)
		memcpy(&handle, (void *)(uintptr_t)word, sizeof handle);
	return handle;
}

/* The program gets the handle that it knows. */
static void give(const struct call *c, uint64_t handle)
{
	memcpy((void *)(uintptr_t)c->words[c->effect->parameter], &handle, sizeof handle);
}

static struct gck_record *owner_of(const struct call *c, uint64_t handle)
{
	int owner = c->effect->owner;

	if (c->effect->kind == GCK_RECORD_MAPPING)
		return gck_record_at(GCK_RECORD_RESERVATION, handle);
	if (owner >= 0)
		return gck_record_find((enum gck_record_kind)c->function->kinds[owner],
				       c->words[owner]);
	return gck_record_kind_of[c->effect->kind] == GCK_RECORD_CONTEXT ? gck_record_current()
									  : NULL;
}

/* Loads a library into a context, so that all are loaded in a known order: into each context as
 * soon as both are there. A context for which it has no code does not get it. */
static void load_library(struct gck_record *library, struct gck_record *context)
{
	CUmodule module;
	CUcontext unused;
	uint64_t maps;
	CUresult rc;

	if (library->unable || library->died || context->died ||
	    gck_cuda_driver.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)context->now))
		return;
	maps = gck_record_maps_new();
	rc = gck_cuda_driver.cuLibraryGetModule(&module, (CUlibrary)(uintptr_t)library->now);
	gck_record_maps_for(0);
	gck_cuda_driver.cuCtxPopCurrent_v2(&unused);
	if (!rc) {
		struct gck_record *r = gck_record_add(GCK_RECORD_MODULE, (uintptr_t)module);

		r->of = library;
		r->context = context;
		r->maps = maps;
	} else {
		gck_record_maps_ended(maps);
	}
}

static void load_libraries(struct gck_record *made)
{
	bool is_library = made->kind == GCK_RECORD_LIBRARY;
	struct gck_record *next;

	for (struct gck_record *r = gck_records_first(); r != made; r = next) {
		next = r->next;
		if (is_library && r->kind == GCK_RECORD_CONTEXT)
			load_library(made, r);
		else if (!is_library && r->kind == GCK_RECORD_LIBRARY)
			load_library(r, made);
	}
}

static bool is_retain(const struct gck_record_function *f)
{
	return !strcmp(f->name, "cuDevicePrimaryCtxRetain");
}

/* Whether work was captured into a graph of the program. */
static bool note_known_graph(const struct call *c, uint64_t now)
{
	const struct gck_record *r = gck_record_find_now(GCK_RECORD_GRAPH, now);

	if (r)
		give(c, r->handle);
	return r;
}

/* A primary context has the handle that it had before its last end. */
static void note_make(const struct call *c)
{
	uint64_t now = handle_of(c), handle = now;
	struct gck_record *r;
	bool ambiguous;

	if (!now)
		return;
	if (is_retain(c->function))
		handle = gck_record_primary(c->words[1], now);
	if (c->effect->kind == GCK_RECORD_GRAPH && note_known_graph(c, now))
		return;
	r = gck_record_find((enum gck_record_kind)c->effect->kind, handle);
	ambiguous = r && !r->lent;
	if (r && r->lent)
		gck_record_end(r);
	r = gck_record_add((enum gck_record_kind)c->effect->kind, handle);
	if (handle != now) {
		gck_record_set_now(r, now);
		give(c, handle);
	}
	r->of = owner_of(c, handle);
	r->maps = making;
	making = 0;
	if (r->of && r->of->kind == GCK_RECORD_MIPMAP)
		r->context = r->of->context;
	else if (r->kind != GCK_RECORD_CONTEXT)
		r->context = gck_record_current();
	if (r->kind == GCK_RECORD_GRAPH || r->kind == GCK_RECORD_EXECUTABLE)
		gck_record_graph_made(r, c->function->kinds[1] == GCK_RECORD_GRAPH ? c->words[1]
										   : 0);
	else
		r->unable = gck_record_keep_call(&r->made, c->function, c->words);
	if (ambiguous)
		r->unable = "a handle of two objects";
	if (r->kind == GCK_RECORD_MAPPING)
		r->physical = gck_record_find(GCK_RECORD_PHYSICAL, c->words[3]);
	if (r->physical)
		r->physical->mappings++;
	if (r->kind == GCK_RECORD_CONTEXT || r->kind == GCK_RECORD_LIBRARY)
		load_libraries(r);
}

/* One that is not known is recorded, so that it is known to be held; but a primary context that has
 * ended may still be current, and a graph may be in a node, or under capture. */
static void note_lend(const struct call *c)
{
	uint64_t now = is_result(c) ? handle_of(c) : 0;
	const struct gck_record *r =
		gck_record_find_now((enum gck_record_kind)c->effect->kind, now);
	uint64_t primary = 0;

	if (!r && c->effect->kind == GCK_RECORD_CONTEXT)
		primary = gck_record_primary_of(now);
	if (r || primary) {
		give(c, r ? r->handle : primary);
	} else if (now && c->effect->kind == GCK_RECORD_GRAPH) {
		give(c, gck_record_node_handle(now));
	} else if (now && c->effect->kind != GCK_RECORD_ADDRESS) {
		note_make(c);
		gck_record_find_now((enum gck_record_kind)c->effect->kind, now)->lent = true;
	}
}

static void note_hold(const struct call *c)
{
	struct gck_record *r =
		gck_record_find_now((enum gck_record_kind)c->effect->kind, handle_of(c));

	if (!r) {
		note_make(c);
		return;
	}
	gck_record_hold(r);
	if (is_result(c))
		give(c, r->handle);
}

static struct gck_record *primary(uint64_t device)
{
	struct gck_record *r = gck_records_first();

	while (r && !(r->kind == GCK_RECORD_CONTEXT && !r->died && r->made.words[1] == device &&
		      is_retain(r->made.function)))
		r = r->next;
	return r;
}

/* cuMemUnmap takes several. */
static void end_mappings(uint64_t from, uint64_t bytes)
{
	struct gck_record *next;

	for (struct gck_record *r = gck_records_first(); r; r = next) {
		next = r->next;
		if (r->kind == GCK_RECORD_MAPPING && r->handle >= from && r->handle < from + bytes)
			gck_record_end(r); /* takes no other mapping with it */
	}
}

static void note_end(const struct call *c, struct gck_record *ending)
{
	if (c->effect->kind == GCK_RECORD_MAPPING)
		end_mappings(c->words[0], c->words[1]);
	else if (ending)
		gck_record_end(ending);
}

static void note_drop(const struct call *c)
{
	uint64_t word = c->words[c->effect->parameter];
	struct gck_record *r = c->effect->kind == GCK_RECORD_CONTEXT
				       ? primary(word)
				       : gck_record_find((enum gck_record_kind)c->effect->kind,
							 word);

	if (r)
		gck_record_drop(r);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void set_state(struct gck_record *r, const struct call *c)
{
	struct gck_record_state *s = calloc(1, sizeof *s), **at = &r->states, *old;
	const char *unable;

	if (!s)
		abort();
	unable = gck_record_keep_call(&s->call, c->function, c->words);
	if (unable)
		r->unable = unable;
	while ((old = *at)) {
		if (!gck_record_same_state(&old->call, &s->call)) {
			at = &old->next;
			continue;
		}
		*at = old->next;
		gck_record_forget_call(&old->call);
		free(old);
	}
	*at = s;
}

static struct gck_record *changed(const struct call *c)
{
	enum gck_record_kind kind = (enum gck_record_kind)c->effect->kind;

	if (kind == GCK_RECORD_CURRENT)
		return gck_record_current();
	if (c->effect->parameter < 0)
		return NULL;
	return gck_record_find(kind, c->words[c->effect->parameter]);
}

/* cuMemSetAccess changes several mappings, each of which may end by itself. */
static void set_access(const struct call *c)
{
	uint64_t words[GCK_RECORD_PARAMETERS];
	struct call one = {c->function, words, c->effect};

	memcpy(words, c->words, strlen(c->function->parameters) * sizeof *words);
	for (struct gck_record *r = gck_records_first(); r; r = r->next) {
		if (r->kind != GCK_RECORD_MAPPING || r->handle < c->words[0] ||
		    r->handle >= c->words[0] + c->words[1])
			continue;
		words[0] = r->handle;
		words[1] = r->made.words[1];
		set_state(r, &one);
	}
}

static void note_change(const struct call *c)
{
	struct gck_record *r;

	if (c->function->thread)
		return; /* threads.c */
	if (c->effect->kind == GCK_RECORD_MAPPING) {
		set_access(c);
		return;
	}
	r = changed(c);
	if (c->effect->kind == GCK_RECORD_EVENT && c->function->again)
		gck_record_event_recorded(r);
	else if (r)
		set_state(r, c);
	else if (!c->function->again)
		spoiled = c->function->name;
}

/* ---- calls ----------------------------------------------------------------------------------- */

void gck_record_begin(const struct gck_record_function *f, const uint64_t *words,
		      struct gck_record **ending)
{
	*ending = NULL;
	making = makes(f) ? gck_record_maps_new() : 0;
	if (f->thread == 'm')
		gck_record_thread_wants(words);
	gck_records_lock();
	for (int i = 0; i < f->neffects; i++) {
		const struct gck_record_effect *e = &f->effects[i];

		if (e->verb == GCK_RECORD_END && e->kind != GCK_RECORD_MAPPING)
			*ending = gck_record_find((enum gck_record_kind)e->kind,
						  words[e->parameter]);
	}
	gck_records_unlock();
}

CUresult gck_record_note(const struct gck_record_function *f, const uint64_t *words,
			 struct gck_record *ending, CUresult rc)
{
	if (making)
		gck_record_maps_for(0);
	if (rc) {
		gck_record_maps_ended(making);
		return rc;
	}
	gck_records_lock();
	for (int i = 0; i < f->neffects; i++) {
		const struct call c = {f, words, &f->effects[i]};

		switch (c.effect->verb) {
		case GCK_RECORD_MAKE:
			note_make(&c);
			break;
		case GCK_RECORD_LEND:
			note_lend(&c);
			break;
		case GCK_RECORD_END:
			note_end(&c, ending);
			break;
		case GCK_RECORD_HOLD:
			note_hold(&c);
			break;
		case GCK_RECORD_DROP:
			note_drop(&c);
			break;
		case GCK_RECORD_RESET:
			if (primary(words[0]))
				gck_record_end(primary(words[0]));
			break;
		case GCK_RECORD_CHANGE:
			note_change(&c);
			break;
		case GCK_RECORD_APART:
			spoiled = f->name;
			break;
		}
	}
	gck_records_unlock();
	gck_record_maps_ended(making); /* nobody has taken them */
	making = 0;
	if (f->thread)
		gck_record_thread_note(f->thread, words);
	return rc;
}

/* ---- lists ----------------------------------------------------------------------------------- */

CUresult gck_record_list_kernels(CUkernel *list, unsigned n, CUlibrary library,
				 gck_record_get_kernel *get)
{
	CUlibrary now = (CUlibrary)(uintptr_t)gck_now(GCK_RECORD_LIBRARY, (uintptr_t)library);
	CUresult rc = gck_cuda_driver.cuLibraryEnumerateKernels(list, n, now);
	const char *name;
	unsigned count = 0;

	rc = rc ? rc : gck_cuda_driver.cuLibraryGetKernelCount(&count, now);
	for (unsigned i = 0; i < n && i < count && !rc; i++) {
		rc = gck_cuda_driver.cuKernelGetName(&name, list[i]);
		rc = rc ? rc : get(&list[i], library, name);
	}
	return rc;
}

CUresult gck_record_list_functions(CUfunction *list, unsigned n, CUmodule module,
				   gck_record_get_function *get)
{
	CUmodule now = (CUmodule)(uintptr_t)gck_now(GCK_RECORD_MODULE, (uintptr_t)module);
	CUresult rc = gck_cuda_driver.cuModuleEnumerateFunctions(list, n, now);
	const char *name;
	unsigned count = 0;

	rc = rc ? rc : gck_cuda_driver.cuModuleGetFunctionCount(&count, now);
	for (unsigned i = 0; i < n && i < count && !rc; i++) {
		rc = gck_cuda_driver.cuFuncGetName(&name, list[i]);
		rc = rc ? rc : get(&list[i], module, name);
	}
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 * What cannot be made again, the contents of memory and variables, and making all again. */
#include "shim/cuda/records/records.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fails(const char *what, uint64_t object, CUresult rc, struct gck_error *err)
{
	return gck_fail(err, EIO, "%s 0x%llx: the driver's error %d", what,
			(unsigned long long)object, (int)rc);
}

/* ---- contexts -------------------------------------------------------------------------------- */

static bool is_primary(const struct gck_record *r)
{
	return !strcmp(r->made.function->name, "cuDevicePrimaryCtxRetain");
}

/* The device is the last number of a call that makes a context. */
uint64_t gck_record_device_of(const struct gck_record *context)
{
	return context->made.words[strlen(context->made.function->parameters) - 1];
}

const struct gck_record *gck_record_context_on(uint64_t device)
{
	const struct gck_record *c = gck_records_first();

	while (c && !(c->kind == GCK_RECORD_CONTEXT && !c->died &&
		      gck_record_device_of(c) == device))
		c = c->next;
	return c;
}

static CUresult push(const struct gck_record *context)
{
	return context ? gck_cuda_driver.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)context->now)
		       : CUDA_SUCCESS;
}

static void pop(const struct gck_record *context)
{
	CUcontext unused;

	if (context)
		gck_cuda_driver.cuCtxPopCurrent_v2(&unused);
}

/* ---- what cannot be made again --------------------------------------------------------------- */

static CUresult find_variable(const struct gck_record *module, struct gck_record_variable *v)
{
	CUdeviceptr at = 0;
	CUresult rc = gck_cuda_driver.cuModuleGetGlobal_v2(
		&at, &v->size, (CUmodule)(uintptr_t)module->now, v->name);

	v->address = at;
	return rc;
}

/* Where the variables of a module are. Those of a fatbin's other parts are not there. Why that
 * cannot be told; NULL: it can. */
static const char *find_variables(struct gck_record *module, struct gck_record_variable **list)
{
	const char *image = gck_record_image_of(module);
	const struct gck_record *context = gck_record_context_of(module);
	struct gck_record_variable **at, *v;
	CUresult rc;

	if (!image) /* of a library that cannot be loaded again */
		return GCK_RECORD_UNKNOWN;
	module->unable = gck_record_variables(image, list);
	if (module->unable)
		return module->unable;
	rc = push(context);
	for (at = list; (v = *at) && !rc;) {
		rc = find_variable(module, v);
		if (rc == CUDA_ERROR_NOT_FOUND && gck_record_is_fatbin(image)) {
			*at = v->next;
			free(v);
			rc = CUDA_SUCCESS;
		} else {
			at = &v->next;
		}
	}
	pop(context);
	return rc ? GCK_RECORD_UNKNOWN : NULL;
}

/* Once: they stay where they are as long as the module lives. */
static const char *look_at_variables(struct gck_record *r)
{
	const char *why = r->looked ? NULL : find_variables(r, &r->variables);

	if (why) {
		gck_record_variables_free(r->variables);
		r->variables = NULL;
	}
	r->looked = !why;
	return why;
}

static const char *stream_unable(const struct gck_record *r)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult rc = gck_cuda_driver.cuStreamIsCapturing((CUstream)(uintptr_t)r->now, &status);

	return rc || status != CU_STREAM_CAPTURE_STATUS_NONE ? "it is in a capture" : NULL;
}

static const char *record_unable(struct gck_record *r)
{
	if (r->unable)
		return r->unable;
	switch (r->kind) {
	case GCK_RECORD_STREAM:
		return stream_unable(r);
	case GCK_RECORD_MODULE:
		return look_at_variables(r);
	case GCK_RECORD_MAPPING:
	case GCK_RECORD_PHYSICAL:
		return gck_record_memory_unable(r);
	case GCK_RECORD_HOST:
		return gck_record_host_unable(r);
	case GCK_RECORD_ARRAY:
	case GCK_RECORD_MIPMAP:
	case GCK_RECORD_TEXTURE:
	case GCK_RECORD_SURFACE:
		return gck_record_texture_unable(r);
	case GCK_RECORD_POOL:
		return gck_record_pool_unable(r);
	case GCK_RECORD_USER:
		return gck_record_user_unable(r);
	case GCK_RECORD_GRAPH:
	case GCK_RECORD_EXECUTABLE:
		return gck_record_graph_unable(r);
	default:
		return NULL;
	}
}

/* The first module behind another that was not looked at. */
static struct gck_record *next_module(uint64_t behind)
{
	struct gck_record *r = gck_records_first();

	while (r && (r->born <= behind || r->kind != GCK_RECORD_MODULE || r->looked || r->died ||
		     r->unable))
		r = r->next;
	return r;
}

/* Images are unpacked for it, which takes a second for thousands of modules: others may use the
 * table meanwhile. */
static void look_at_modules(void)
{
	uint64_t behind = 0;
	struct gck_record *r;

	do {
		gck_records_lock();
		r = next_module(behind);
		if (r) {
			behind = r->born;
			look_at_variables(r);
		}
		gck_records_unlock();
		sched_yield();
	} while (r);
}

/* What is told of an object; stays until the next call. */
static const char *named(const struct gck_record *r, const char *why)
{
	static char text[160];

	snprintf(text, sizeof text, "%s 0x%llx: %s", gck_record_kinds[r->kind],
		 (unsigned long long)r->handle, why);
	return text;
}

const char *gck_cuda_records_unable(void)
{
	const char *why = gck_record_spoiled();

	look_at_modules();
	gck_records_lock();
	gck_record_users_forget();
	why = why ? why : gck_record_private_unable();
	if (!why && gck_record_threads_unable())
		why = "a thread whose current context has ended";
	for (struct gck_record *r = gck_records_first(); r && !why; r = r->next) {
		why = r->died ? NULL : record_unable(r);
		if (why)
			why = named(r, why);
	}
	gck_records_unlock();
	return why;
}

static const char *doubt(const struct gck_record *r)
{
	if (r->died)
		return "it has ended and has to be made again";
	if (r->doubted)
		return "it is where something else was that has ended, or beside that";
	return r->kind == GCK_RECORD_EXECUTABLE || r->kind == GCK_RECORD_MIPMAP ||
	       r->kind == GCK_RECORD_TEXTURE || r->kind == GCK_RECORD_SURFACE
		       ? "not all programs with such came back as they were" : NULL;
}

const char *gck_cuda_records_doubt(void)
{
	const char *why = NULL;

	gck_records_lock();
	for (const struct gck_record *r = gck_records_first(); r && !why; r = r->next) {
		why = doubt(r);
		if (why)
			why = named(r, why);
	}
	gck_records_unlock();
	return why;
}

/* ---- contents -------------------------------------------------------------------------------- */

static void *room(size_t size, struct gck_error *err)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		gck_fail(err, ENOMEM, "no memory for %zu bytes of a device", size);
	return p;
}

static int copy_memory(struct gck_record *r, bool save, struct gck_error *err)
{
	CUresult rc = save ? gck_record_memory_save(r) : gck_record_memory_fill(r);

	return rc ? fails("copying memory", r->handle, rc, err) : 0;
}

static void drop_contents(struct gck_record *module)
{
	for (struct gck_record_variable *v = module->variables; v; v = v->next) {
		free(v->data);
		v->data = NULL;
	}
}

static int save_variables(struct gck_record *r, struct gck_error *err)
{
	const struct gck_record *context = gck_record_context_of(r);
	CUresult rc = CUDA_SUCCESS;

	if (look_at_variables(r))
		return fails("the variables of module", r->handle, CUDA_ERROR_NOT_FOUND, err);
	rc = push(context);
	for (struct gck_record_variable *v = r->variables; v && !rc; v = v->next) {
		free(v->data);
		v->data = room(v->size, err);
		rc = v->data ? gck_cuda_driver.cuMemcpyDtoH_v2(v->data, v->address, v->size)
			     : CUDA_ERROR_OUT_OF_MEMORY;
	}
	pop(context);
	return rc ? fails("copying the variables of module", r->handle, rc, err) : 0;
}

static int copy_array(struct gck_record *r, bool save, struct gck_error *err)
{
	CUresult rc = push(r->context);

	rc = rc ? rc : gck_record_array_copy(r, save);
	pop(r->context);
	return rc ? fails("copying array", r->handle, rc, err) : 0;
}

/* The GPU's address of host memory may be stored anywhere: it must be the same again. */
static int find_host(struct gck_record *r, bool save, struct gck_error *err)
{
	CUdeviceptr at = 0;
	CUresult rc = push(r->context);

	rc = rc ? rc : gck_record_host_device(r, &at);
	pop(r->context);
	if (rc)
		return fails("the GPU's address of host memory", r->handle, rc, err);
	if (save)
		r->device = at;
	if (at != r->device)
		return gck_fail(err, EIO, "host memory 0x%llx was at 0x%llx and is at 0x%llx in "
				"the fresh driver", (unsigned long long)r->handle,
				(unsigned long long)r->device, (unsigned long long)at);
	return 0;
}

/* The settings of a pool. */
static int save_pool(struct gck_record *r, struct gck_error *err)
{
	CUresult rc = gck_record_pool_save(r);

	return rc ? fails("the settings of pool", r->handle, rc, err) : 0;
}

static int set_pool(struct gck_record *r, struct gck_error *err)
{
	CUresult rc = r->kind == GCK_RECORD_POOL ? gck_record_pool_set(r) : CUDA_SUCCESS;

	return rc ? fails("the settings of pool", r->handle, rc, err) : 0;
}

static bool is_graph(const struct gck_record *r)
{
	return r->kind == GCK_RECORD_GRAPH || r->kind == GCK_RECORD_EXECUTABLE;
}

int gck_cuda_records_save(struct gck_error *err)
{
	int failed = 0;

	gck_record_enter();
	gck_records_lock();
	for (struct gck_record *r = gck_records_first(); r && !failed; r = r->next) {
		if (r->kind == GCK_RECORD_PHYSICAL)
			failed = copy_memory(r, true, err);
		else if (r->kind == GCK_RECORD_ARRAY)
			failed = copy_array(r, true, err);
		else if (r->kind == GCK_RECORD_HOST)
			failed = find_host(r, true, err);
		else if (r->kind == GCK_RECORD_POOL)
			failed = save_pool(r, err);
		else if (r->kind == GCK_RECORD_MODULE && !r->died)
			failed = save_variables(r, err);
	}
	failed = failed || gck_record_private_save(err) || gck_record_events_save(err) ? -1 : 0;
	gck_records_unlock();
	return failed;
}

/* ---- making again ---------------------------------------------------------------------------- */

static bool is_texture(const struct gck_record *r)
{
	return r->kind == GCK_RECORD_TEXTURE || r->kind == GCK_RECORD_SURFACE;
}

/* Whether its handle may be stored anywhere. */
static bool is_address(const struct gck_record *r)
{
	return r->kind == GCK_RECORD_RESERVATION || r->kind == GCK_RECORD_MAPPING ||
	       r->kind == GCK_RECORD_VARIABLE || is_texture(r);
}

static int make_primary(struct gck_record *r, struct gck_error *err)
{
	uint64_t now;

	for (unsigned i = 1; i < r->uses; i++) {
		CUresult rc = gck_record_repeat(&r->made, r, &now);

		if (rc)
			return fails("context", r->handle, rc, err);
	}
	return 0;
}

/* What ended first, after `since` and before `until`; NULL: nothing. A library takes its modules
 * with it. */
static struct gck_record *next_end(uint64_t since, uint64_t until)
{
	struct gck_record *found = NULL;

	for (struct gck_record *r = gck_records_first(); r; r = r->next) {
		if (r->died > since && r->died < until && !gck_record_is_library_part(r) &&
		    (!found || r->died < found->died))
			found = r;
	}
	return found;
}

static CUresult end(const struct gck_record *r)
{
	if (r->kind == GCK_RECORD_LIBRARY)
		return gck_cuda_driver.cuLibraryUnload((CUlibrary)(uintptr_t)r->now);
	if (r->kind == GCK_RECORD_MODULE)
		return gck_cuda_driver.cuModuleUnload((CUmodule)(uintptr_t)r->now);
	if (!is_primary(r))
		return gck_cuda_driver.cuCtxDestroy_v2((CUcontext)(uintptr_t)r->now);
	return gck_cuda_driver.cuDevicePrimaryCtxRelease_v2((CUdevice)gck_record_device_of(r));
}

/* Ends what ended before a time. */
static int end_until(uint64_t *since, uint64_t until, struct gck_error *err)
{
	struct gck_record *r;

	while ((r = next_end(*since, until))) {
		CUresult rc = push(r->of);

		rc = rc ? rc : end(r);
		pop(r->of);
		if (rc)
			return fails("ending", r->handle, rc, err);
		*since = r->died;
	}
	return 0;
}

/* A library's module may have been loaded when the library, or when the context was made. */
static CUresult repeat(struct gck_record *r, uint64_t *now)
{
	CUmodule module;
	CUresult rc;

	if (is_texture(r))
		return gck_record_texture_make(r, now);
	if (is_graph(r))
		return gck_record_graph_make(r, now);
	if (r->kind == GCK_RECORD_USER)
		return gck_record_user_make(r, now);
	if (r->kind != GCK_RECORD_MODULE || !gck_record_is_library_part(r))
		return gck_record_repeat(&r->made, r, now);
	rc = gck_cuda_driver.cuLibraryGetModule(&module, (CUlibrary)(uintptr_t)r->of->now);
	*now = (uintptr_t)module;
	return rc;
}

static int make(struct gck_record *r, struct gck_error *err)
{
	uint64_t now = r->handle;
	CUresult rc = push(r->context);

	if (rc)
		return fails("the context of", r->handle, rc, err);
	gck_record_maps_for(r->maps);
	rc = repeat(r, &now);
	gck_record_maps_for(0);
	pop(r->context);
	if (rc)
		return fails(gck_record_kinds[r->kind], r->handle, rc, err);
	if (is_address(r) && now != r->handle)
		return gck_fail(err, EIO, "%s 0x%llx is at 0x%llx in the fresh driver",
				gck_record_kinds[r->kind], (unsigned long long)r->handle,
				(unsigned long long)now);
	if (r->died)
		r->now = now;
	else
		gck_record_set_now(r, now);
	if (r->kind != GCK_RECORD_CONTEXT)
		return 0;
	if (is_primary(r)) {
		gck_record_primary(gck_record_device_of(r), now);
		return make_primary(r, err);
	}
	pop(r); /* whoever makes a context has it current */
	return 0;
}

static int put_storage(struct gck_record *r, struct gck_error *err)
{
	CUresult rc = r->died ? CUDA_SUCCESS : gck_record_storage_again(r);

	return rc ? fails("what the runtime keeps beside context", r->handle, rc, err) : 0;
}

static int set_all_states(struct gck_record *r, struct gck_error *err)
{
	const struct gck_record *context = r->kind == GCK_RECORD_CONTEXT ? r : r->context;
	uint64_t unused;

	for (const struct gck_record_state *s = r->died ? NULL : r->states; s; s = s->next) {
		CUresult rc = push(context);

		rc = rc ? rc : gck_record_repeat(&s->call, NULL, &unused);
		pop(context);
		if (rc)
			return fails(s->call.function->name, r->handle, rc, err);
	}
	return 0;
}

/* Those of mappings are set as these are made: an executable graph may need the access. */
static int set_states(struct gck_record *r, struct gck_error *err)
{
	return r->kind == GCK_RECORD_MAPPING ? 0 : set_all_states(r, err);
}

/* An executable graph takes its place among other objects, unless it has been changed to hold later
 * ones. */
static int make_in_order(struct gck_record *r, struct gck_error *err)
{
	if (is_texture(r) || r->kind == GCK_RECORD_GRAPH ||
	    (r->kind == GCK_RECORD_EXECUTABLE && !gck_record_graph_is_ready(r)))
		return 0;
	return make(r, err) ||
	       (r->kind == GCK_RECORD_MAPPING && set_all_states(r, err)) ? -1 : 0;
}

static int make_late(struct gck_record *r, struct gck_error *err)
{
	bool is_late = r->kind == GCK_RECORD_GRAPH ||
		       (r->kind == GCK_RECORD_EXECUTABLE && !gck_record_graph_is_ready(r));

	return is_late ? make(r, err) : 0;
}

static int let_user(struct gck_record *r, struct gck_error *err)
{
	CUresult rc = r->kind == GCK_RECORD_USER ? gck_record_user_let(r) : CUDA_SUCCESS;

	return rc ? fails("an object of graphs", r->handle, rc, err) : 0;
}

/* Variables must be where they were: their addresses may be stored anywhere. */
static int fill_variables(struct gck_record *r, struct gck_error *err)
{
	const struct gck_record *context = gck_record_context_of(r);
	CUresult rc = push(context);

	for (const struct gck_record_variable *v = r->variables; v && !rc; v = v->next) {
		CUdeviceptr at = 0;
		size_t size = 0;

		rc = gck_cuda_driver.cuModuleGetGlobal_v2(&at, &size, (CUmodule)(uintptr_t)r->now,
							  v->name);
		if (!rc && (at != v->address || size != v->size)) {
			pop(context);
			return gck_fail(err, EIO, "variable %s was at 0x%llx and is at 0x%llx in "
					"the fresh driver", v->name,
					(unsigned long long)v->address, (unsigned long long)at);
		}
		rc = rc ? rc : gck_cuda_driver.cuMemcpyHtoD_v2(at, v->data, size);
	}
	pop(context);
	drop_contents(r);
	return rc ? fails("the variables of module", r->handle, rc, err) : 0;
}

static int fill(struct gck_record *r, struct gck_error *err)
{
	if (r->kind == GCK_RECORD_PHYSICAL)
		return copy_memory(r, false, err);
	if (r->kind == GCK_RECORD_ARRAY)
		return copy_array(r, false, err);
	if (r->kind == GCK_RECORD_HOST)
		return find_host(r, false, err);
	return r->kind == GCK_RECORD_MODULE && !r->died ? fill_variables(r, err) : 0;
}

/* In the order in which all began and ended: an object comes after those that it is made of.
 * Textures come last, when there is access to memory. */
static int make_all(struct gck_error *err)
{
	uint64_t ended = 0;

	for (struct gck_record *r = gck_records_first(); r; r = r->next) {
		if (end_until(&ended, r->born, err) || make_in_order(r, err))
			return -1;
	}
	return end_until(&ended, UINT64_MAX, err);
}

static int make_texture(struct gck_record *r, struct gck_error *err)
{
	return is_texture(r) ? make(r, err) : 0;
}

static int for_all(int (*step)(struct gck_record *r, struct gck_error *err), struct gck_error *err)
{
	for (struct gck_record *r = gck_records_first(); r; r = r->next) {
		if (step(r, err))
			return -1;
	}
	return 0;
}

int gck_cuda_records_keep(struct gck_error *err)
{
	int failed;

	gck_records_lock();
	failed = gck_record_private_keep(err);
	gck_records_unlock();
	return failed;
}

int gck_cuda_records_replay(struct gck_error *err)
{
	int failed;

	gck_records_lock();
	atomic_fetch_add(&gck_records_age, 1);
	/* Contents come after the access to them. */
	gck_record_nodes_forget();
	failed = gck_record_private_again(err) || make_all(err) || for_all(put_storage, err) ||
		 for_all(set_states, err) || for_all(set_pool, err);
	gck_records_unlock();
	return failed ? -1 : 0;
}

int gck_cuda_records_complete(struct gck_error *err)
{
	int failed;

	gck_records_lock();
	failed = for_all(make_texture, err) || for_all(make_late, err) ||
		 for_all(let_user, err) || for_all(fill, err);
	gck_records_unlock();
	return failed ? -1 : 0;
}

void gck_cuda_records_release(void)
{
	gck_records_lock();
	for (struct gck_record *r = gck_records_first(); r; r = r->next) {
		drop_contents(r);
		free(r->data);
		r->data = NULL;
	}
	gck_records_unlock();
}

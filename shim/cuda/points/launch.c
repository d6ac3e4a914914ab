/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/points/launch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/cuda/base/participant.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/capture.h"
#include "shim/cuda/gate/follow.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/gate/last_kernel.h"
#include "shim/cuda/points/kernel.h"

#define LOOK_NS 100000
#define MARK "gpuckpt$points" /* an empty kernel in each module with points */

/* A launch that may not be done. Each is launched again after a checkpoint, in this order, if it
 * was there when the kernels were asked to leave; a kernel that was done ends at once then. */
struct launch {
	struct launch *next;
	uint64_t number;
	struct gck_pointed_kernel *kernel;
	CUcontext context;
	bool blocks; /* its stream waits for the legacy default stream, which waits for it */
	CUfunction function;
	CUlaunchConfig config;
	unsigned slot;
	void **parameters; /* with their values, and the attributes, behind them */
};

/* The word of a context, and the stream that writes it beside the program's work. */
struct word {
	struct word *next;
	CUcontext context;
	CUdeviceptr at;
	CUstream beside;
};

_Atomic bool gck_cuda_points_loaded;
CUlaunchAttribute gck_cuda_points_cooperative = {
	.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct launch *launches, **last = &launches;
static struct word *words;
static bool asked; /* kernels were asked to leave and not launched again yet */
static CUresult lost; /* a launch again failed */

/* ---- modules -------------------------------------------------------------------------------- */

void gck_cuda_points_module(CUmodule module)
{
	CUfunction f;

	if (!gck_cuda_real.cuModuleGetFunction(&f, module, MARK))
		atomic_store(&gck_cuda_points_loaded, true);
}

void gck_cuda_points_library(CUlibrary library)
{
	CUkernel k;

	if (!gck_cuda_real.cuLibraryGetKernel(&k, library, MARK))
		atomic_store(&gck_cuda_points_loaded, true);
}

/* ---- waiting -------------------------------------------------------------------------------- */

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
}

static bool waits_for_legacy(CUstream stream)
{
	unsigned flags = 0;

	return gck_cuda_real.cuStreamGetFlags(stream, &flags) || !(flags & CU_STREAM_NON_BLOCKING);
}

/* Whether work that the stream is given would begin after the launch. */
static bool is_before(const struct launch *l, CUstream stream)
{
	CUstream own = l->config.hStream;

	return own == stream || (own == CU_STREAM_LEGACY && waits_for_legacy(stream)) ||
	       (stream == CU_STREAM_LEGACY && l->blocks);
}

static void drop(struct launch **at)
{
	struct launch *l = *at;

	l->kernel->outstanding--;
	*at = l->next;
	if (!*at)
		last = at;
	free(l->parameters);
	free(l);
	atomic_fetch_sub(&gck_cuda_pointed, 1);
}

/* The launches in that stream up to this number are done. */
static void drop_done(CUstream stream, CUcontext context, uint64_t number)
{
	for (struct launch **at = &launches; *at;) {
		if ((*at)->config.hStream == stream && (*at)->context == context &&
		    (*at)->number <= number)
			drop(at);
		else
			at = &(*at)->next;
	}
}

/* Calls with the context current, which do not harm captures. */
static CUresult in_context(CUcontext context, CUresult (*call)(CUstream), CUstream stream)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);

	if (rc)
		return rc;
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	rc = call(stream);
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc;
}

/* Whether all launches are done, or have left. A query of the default stream may end a capture. */
static bool has_left(void)
{
	for (const struct launch *l = launches; l; l = l->next) {
		CUstream stream = l->config.hStream;

		if ((stream == CU_STREAM_LEGACY && gck_cuda_capture_is_on()) ||
		    in_context(l->context, gck_cuda_real.cuStreamQuery, stream) ==
			    CUDA_ERROR_NOT_READY)
			return false;
	}
	return true;
}

static CUresult launch_again(void);

/* With the lock; it returns without. If the gate is closed, the thread waits outside. */
static void wait_settled(void)
{
	if (has_left() && !atomic_load(&gck_gate_closed))
		launch_again();
	pthread_mutex_unlock(&lock);
	if (!gck_gate_park_if_closed())
		nap();
}

typedef bool choose_fn(const struct launch *l, const void *arg);

static struct launch *latest(choose_fn *choose, const void *arg)
{
	struct launch *found = NULL;

	for (struct launch *l = launches; l; l = l->next)
		if (choose(l, arg))
			found = l;
	return found;
}

/* Waits until no launch is chosen, with the lock, which is free in between. */
static void wait_for(choose_fn *choose, const void *arg)
{
	struct launch *l;

	while ((l = latest(choose, arg))) {
		uint64_t age = atomic_load(&gck_cuda_follow_age);
		CUstream stream = l->config.hStream;
		CUcontext context = l->context;
		uint64_t number = l->number;
		CUresult rc;

		if (asked) {
			wait_settled();
			pthread_mutex_lock(&lock);
			continue;
		}
		pthread_mutex_unlock(&lock);
		rc = in_context(context, gck_cuda_real.cuStreamSynchronize, stream);
		pthread_mutex_lock(&lock);
		/* after an error nothing goes on, and the program's next call finds it */
		if (rc || (!asked && age == atomic_load(&gck_cuda_follow_age)))
			drop_done(stream, context, number);
	}
}

static bool precedes(const struct launch *l, const void *stream)
{
	return is_before(l, *(const CUstream *)stream);
}

static bool any(const struct launch *l, const void *arg)
{
	(void)l;
	(void)arg;
	return true;
}

static bool is_of(const struct launch *l, const void *kernel)
{
	return l->kernel == kernel;
}

static void wait_stream(CUstream stream)
{
	pthread_mutex_lock(&lock);
	wait_for(precedes, &stream);
	pthread_mutex_unlock(&lock);
}

static void wait_all(void)
{
	pthread_mutex_lock(&lock);
	wait_for(any, NULL);
	pthread_mutex_unlock(&lock);
}

static bool is_left(CUstream stream, uint64_t age)
{
	bool left;

	pthread_mutex_lock(&lock);
	left = latest(precedes, &stream) && (asked || age != atomic_load(&gck_cuda_follow_age));
	pthread_mutex_unlock(&lock);
	return left;
}

static bool is_running(void)
{
	bool running;

	if (!gck_cuda_capture_pause())
		return false;
	pthread_mutex_lock(&lock);
	running = asked || !has_left();
	pthread_mutex_unlock(&lock);
	gck_cuda_capture_go_on();
	return running;
}

/* ---- launching ------------------------------------------------------------------------------ */

static struct word *word_of(CUcontext context)
{
	struct word *w = words;

	while (w && w->context != context)
		w = w->next;
	if (w)
		return w;
	w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->context = context;
	if (cuMemAlloc_v2(&w->at, 4) ||
	    gck_cuda_real.cuStreamCreate(&w->beside, CU_STREAM_NON_BLOCKING) ||
	    gck_cuda_real.cuStreamWriteValue32_v2(w->beside, w->at, 0, 0) ||
	    gck_cuda_real.cuStreamSynchronize(w->beside)) {
		free(w);
		return NULL;
	}
	w->next = words;
	return words = w;
}

/* The kernel that the function is; captures are not harmed. NULL: it has no points, or there is no
 * memory for a word, and it never leaves. */
static struct gck_pointed_kernel *find(CUfunction function, CUcontext context)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct gck_pointed_kernel *k = NULL;
	struct word *w;

	if (!function || gck_cuda_real.cuCtxPushCurrent_v2(context))
		return NULL;
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	w = word_of(context);
	if (w)
		k = gck_pointed_find(function, context, w->beside);
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return k;
}

static void turn_off(struct gck_pointed_kernel *k)
{
	struct word *w;

	if (k->is_off)
		return;
	wait_for(is_of, k);
	k->is_off = true;
	if (!k->written[0])
		return;
	w = word_of(k->context);
	gck_pointed_write(k, w->beside, (uint64_t[GCK_POINTS_WORDS]){ 0 });
	in_context(k->context, gck_cuda_real.cuStreamSynchronize, w->beside);
}

void gck_cuda_points_off(CUfunction function)
{
	CUcontext context;
	struct gck_pointed_kernel *k;

	if (gck_cuda_real.cuCtxGetCurrent(&context) || !context)
		return;
	pthread_mutex_lock(&lock);
	k = find(function, context);
	if (k)
		turn_off(k);
	pthread_mutex_unlock(&lock);
}

static bool knows_attributes(const CUlaunchConfig *config)
{
	for (unsigned i = 0; i < config->numAttrs; i++)
		switch (config->attrs[i].id) {
		case CU_LAUNCH_ATTRIBUTE_IGNORE:
		case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
			break;
		default:
			return false;
		}
	return true;
}

static uint64_t blocks_of(const CUlaunchConfig *c)
{
	return (uint64_t)c->gridDimX * c->gridDimY * c->gridDimZ;
}

static uint64_t threads_of(const CUlaunchConfig *c)
{
	return (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
}

/* A thirty-second of the device's memory at most: a grid of so many blocks has short ones. */
static bool is_too_large(uint64_t size)
{
	CUdevice device;
	size_t total;

	return gck_cuda_real.cuCtxGetDevice(&device) ||
	       gck_cuda_real.cuDeviceTotalMem_v2(&total, device) || size > total / 32;
}

/* Makes room for one more launch of the kernel in that stream. */
static bool make_room(struct gck_pointed_kernel *k, CUstream stream, size_t size)
{
	if (is_too_large(size))
		return false;
	if (k->outstanding && (k->stream != stream || size > k->slot_size ||
			       k->outstanding == k->n_slots))
		wait_for(is_of, k);
	return gck_pointed_reserve(k, size) == CUDA_SUCCESS;
}

static struct launch *remember(const struct gck_pointed_kernel *k, const CUlaunchConfig *config,
			       void **parameters)
{
	size_t attributes = config->numAttrs * sizeof *config->attrs;
	size_t at = (k->n_parameters + 1) * sizeof *parameters + attributes, size = at;
	struct launch *l = calloc(1, sizeof *l);

	for (size_t i = 0; i < k->n_parameters; i++)
		size += (k->size[i] + 15) / 16 * 16;
	if (l)
		l->parameters = malloc(size);
	if (!l || !l->parameters) {
		free(l);
		return NULL;
	}
	l->config = *config;
	if (attributes)
		l->config.attrs = memcpy(l->parameters + k->n_parameters + 1, config->attrs,
					 attributes);
	for (size_t i = 0; i < k->n_parameters; i++) {
		l->parameters[i] = memcpy((char *)l->parameters + at, parameters[i], k->size[i]);
		at += (k->size[i] + 15) / 16 * 16;
	}
	return l;
}

/* cuLaunchCooperativeKernel's own attribute, which drivers before 11.6 do not know. */
static bool is_only_cooperative(const CUlaunchConfig *c)
{
	return c->numAttrs == 1 && c->attrs->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
	       c->attrs->value.cooperative;
}

static CUresult give(const CUlaunchConfig *c, CUfunction f, void **parameters, void **extra)
{
	if (is_only_cooperative(c) && !extra)
		return gck_cuda_real.cuLaunchCooperativeKernel(
			f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY,
			c->blockDimZ, c->sharedMemBytes, c->hStream, parameters);
	if (c->numAttrs)
		return gck_cuda_real.cuLaunchKernelEx(c, f, parameters, extra);
	return gck_cuda_real.cuLaunchKernel(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX,
					    c->blockDimY, c->blockDimZ, c->sharedMemBytes,
					    c->hStream, parameters, extra);
}

/* The records of a launch must be zeros before it leaves for the first time. Barriers of the grid
 * use their head also if it does not leave. */
static CUresult launch_at(struct launch *l, bool again)
{
	struct gck_pointed_kernel *k = l->kernel;
	CUdeviceptr records = k->records + l->slot * k->slot_size;
	size_t size = again ? 0 : k->is_used[l->slot] ? k->slot_size
		      : k->has_grid ? GCK_POINTS_HEAD : 0;
	CUresult rc = CUDA_SUCCESS;

	if (size)
		rc = gck_cuda_real.cuMemsetD8Async(records, 0, size, l->config.hStream);
	if (!rc)
		rc = gck_pointed_write(k, l->config.hStream,
				       (uint64_t[]){ word_of(l->context)->at, records,
						     (uint64_t)again << 32 });
	if (!rc)
		rc = give(&l->config, l->function, l->parameters, NULL);
	k->is_used[l->slot] = again;
	return rc;
}

static CUresult launch_new(struct gck_pointed_kernel *k, const CUlaunchConfig *config,
			   CUfunction function, void **parameters)
{
	struct launch *l = remember(k, config, parameters);
	static uint64_t numbers;
	CUresult rc;

	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->number = ++numbers;
	l->kernel = k;
	l->context = k->context;
	l->function = function;
	l->blocks = waits_for_legacy(config->hStream);
	l->slot = k->next_slot;
	rc = launch_at(l, false);
	if (rc) {
		free(l->parameters);
		free(l);
		return rc;
	}
	k->next_slot = (k->next_slot + 1) % k->n_slots;
	k->outstanding++;
	k->stream = config->hStream;
	*last = l;
	last = &l->next;
	atomic_fetch_add(&gck_cuda_pointed, 1);
	return CUDA_SUCCESS;
}

/* Not with a buffer of parameters, whose size is not known here; in a graph, or in a thread's
 * default stream, where only that thread could launch it again; with attributes that are not
 * known. */
static bool may_leave(struct gck_pointed_kernel *k, const CUlaunchConfig *config, void **parameters,
		      void **extra)
{
	return !extra && (parameters || !k->n_parameters) &&
	       config->hStream != CU_STREAM_PER_THREAD && !gck_cuda_capture_has(config->hStream) &&
	       knows_attributes(config) &&
	       make_room(k, config->hStream,
			 gck_pointed_size(k, blocks_of(config), threads_of(config),
					  config->sharedMemBytes));
}

CUresult gck_cuda_points_launch(CUstream stream, const CUlaunchConfig *given, CUfunction function,
				void **parameters, void **extra)
{
	CUlaunchConfig config = *given;
	struct gck_pointed_kernel *k = NULL;
	CUcontext context;
	CUresult rc;

	config.hStream = stream;
	pthread_mutex_lock(&lock);
	if (!gck_cuda_real.cuStreamGetCtx(stream, &context))
		k = find(function, context);
	if (k && !k->outstanding)
		k->context = context; /* it may have been found for a graph, from another one */
	if (k && !k->is_off && !may_leave(k, &config, parameters, extra))
		turn_off(k);
	if (k && !k->is_off) {
		gck_cuda_gave_other(stream);
		rc = launch_new(k, &config, function, parameters);
		pthread_mutex_unlock(&lock);
		return rc;
	}
	wait_for(precedes, &stream);
	pthread_mutex_unlock(&lock);
	gck_cuda_gave_kernel(stream, function);
	return give(&config, function, parameters, extra);
}

/* ---- leaving -------------------------------------------------------------------------------- */

static CUresult set_word(struct word *w, uint32_t value)
{
	CUcontext context = w->context;
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);

	if (rc)
		return rc;
	rc = gck_cuda_real.cuStreamWriteValue32_v2(w->beside, w->at, value, 0);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc ? rc : in_context(w->context, gck_cuda_real.cuStreamSynchronize, w->beside);
}

static void set_words(uint32_t value)
{
	for (struct word *w = words; w; w = w->next) {
		CUresult rc = set_word(w, value);

		if (rc)
			lost = rc;
	}
}

/* A thread of the program may have the lock while it allocates. */
static bool lock_until(int64_t end_ns)
{
	while (pthread_mutex_trylock(&lock)) {
		if (gck_cuda_now_ns() > end_ns)
			return false;
		nap();
	}
	return true;
}

static void ask(int64_t end_ns)
{
	if (!lock_until(end_ns))
		return;
	if (launches && !asked) {
		asked = true;
		set_words(1);
	}
	pthread_mutex_unlock(&lock);
}

/* All have left. */
static CUresult launch_again(void)
{
	set_words(0);
	for (struct launch *l = launches; l && !lost; l = l->next) {
		CUcontext context = l->context;
		CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);

		if (!rc) {
			rc = launch_at(l, true);
			gck_cuda_real.cuCtxPopCurrent_v2(&context);
		}
		lost = rc;
	}
	asked = false;
	atomic_fetch_add(&gck_cuda_follow_age, 1);
	return lost;
}

static int settle(int64_t end_ns, struct gck_error *err)
{
	bool left = false;

	if (!lock_until(end_ns))
		return 0; /* it was not asked either, or a thread of the program settles it */
	while (asked && !(left = has_left()) && gck_cuda_now_ns() < end_ns)
		nap();
	if (asked && left)
		launch_again();
	pthread_mutex_unlock(&lock);
	return lost ? gck_cuda_fail(err, "going on with a kernel that has points", lost) : 0;
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void unload(CUmodule module, CUlibrary library)
{
	if (!gck_cuda_has_points())
		return;
	pthread_mutex_lock(&lock);
	wait_for(any, NULL);
	gck_pointed_forget(module, library, NULL);
	pthread_mutex_unlock(&lock);
}

void gck_cuda_points_forget(CUcontext context)
{
	if (!gck_cuda_has_points())
		return;
	pthread_mutex_lock(&lock);
	for (struct launch **at = &launches; *at;) {
		if ((*at)->context == context)
			drop(at);
		else
			at = &(*at)->next;
	}
	gck_pointed_forget(NULL, NULL, context);
	for (struct word **at = &words; *at;) {
		struct word *w = *at;

		if (w->context == context) {
			*at = w->next;
			free(w);
		} else {
			at = &w->next;
		}
	}
	pthread_mutex_unlock(&lock);
}

void gck_cuda_points_begin(void)
{
	static const struct gck_cuda_follow_table table = {
		.wait = wait_stream,
		.wait_all = wait_all,
		.is_left = is_left,
		.running = is_running,
		.ask = ask,
		.settle = settle,
		.unload = unload,
	};

	gck_cuda_follow_begin(&table);
}

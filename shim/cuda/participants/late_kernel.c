/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/participants/late_kernel.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/gate/last_kernel.h"
#include "shim/cuda/gate/stream.h"

#define SECOND_NS 1000000000ll
#define TOLD_MOST 8

void gck_cuda_late_kernels_tick(void)
{
	static int64_t since_ns;
	int64_t now = gck_cuda_now_ns();

	if (now - since_ns >= SECOND_NS) {
		since_ns = now;
		gck_cuda_second++;
	}
}

/* The launch was in its second, which has ended since. */
static uint32_t age(const struct gck_cuda_last_kernel *k)
{
	uint32_t seconds = gck_cuda_second - k->second;

	return seconds ? seconds - 1 : 0;
}

/* Whether work in the stream keeps the legacy default stream busy. */
static int is_busy_beside(CUstream stream, void *unused)
{
	unsigned flags = 0;

	(void)unused;
	return (gck_cuda_real.cuStreamGetFlags(stream, &flags) ||
		!(flags & CU_STREAM_NON_BLOCKING)) &&
	       gck_cuda_is_busy(stream);
}

static bool is_busy_in(CUcontext context, CUstream stream)
{
	bool busy;

	if (gck_cuda_real.cuCtxPushCurrent_v2(context))
		return false;
	busy = gck_cuda_is_busy(stream) &&
	       (stream != CU_STREAM_LEGACY ||
		!gck_cuda_streams_each(context, is_busy_beside, NULL));
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return busy;
}

static bool is_late(const struct gck_cuda_last_kernel *k)
{
	CUcontext context = k->stream == CU_STREAM_LEGACY ? k->context
							  : gck_cuda_stream_home(k->stream);

	return age(k) && context && is_busy_in(context, k->stream);
}

/* Threads of the program go on, and write an entry before they launch. */
static bool is_same(const struct gck_cuda_last_kernel *a, const struct gck_cuda_last_kernel *b)
{
	return a->stream == b->stream && a->function == b->function && a->second == b->second &&
	       a->n == b->n;
}

static const char *name_of(CUfunction function)
{
	const char *name = NULL;

	if (gck_cuda_has((void *)gck_cuda_real.cuFuncGetName) &&
	    !gck_cuda_real.cuFuncGetName(&name, function))
		return name;
	if (gck_cuda_has((void *)gck_cuda_real.cuKernelGetName) &&
	    !gck_cuda_real.cuKernelGetName(&name, (CUkernel)function))
		return name;
	return "of unknown name";
}

/* They are told without the lock, which threads of the program may wait for. */
struct late {
	char name[256];
	unsigned seconds, behind;
};

struct found {
	struct late late[TOLD_MOST];
	size_t n;
};

static void note_late(const struct gck_cuda_last_kernel *k,
		      const struct gck_cuda_last_kernel *copy, void *arg)
{
	struct found *f = arg;
	struct late *l = &f->late[f->n];

	if (f->n == TOLD_MOST || !is_late(copy) || !is_same(k, copy))
		return;
	snprintf(l->name, sizeof l->name, "%s", name_of(copy->function));
	l->seconds = age(copy);
	l->behind = copy->n - 1;
	f->n++;
}

void gck_cuda_late_kernels_tell(gck_cuda_late_kernel_fn *tell, void *arg)
{
	struct found f = {.n = 0};

	gck_cuda_last_kernels_each(note_late, &f);
	for (size_t i = 0; i < f.n; i++)
		tell(arg, f.late[i].name, f.late[i].seconds, f.late[i].behind);
}

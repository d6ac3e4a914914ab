/* SPDX-License-Identifier: Apache-2.0
 * cuGetProcAddress: the driver chooses the function, and ours goes out for it. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "shim/cuda/base/participant.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/dispatch/function_table.h"
#include "shim/cuda/dispatch/jump.h"

static struct {
	pthread_mutex_t lock;
	char names[GCK_CUDA_UNKNOWN][64];
	unsigned n;
	bool full;
} unknown = {.lock = PTHREAD_MUTEX_INITIALIZER};

void *gck_cuda_unknown_real[GCK_CUDA_UNKNOWN];
unsigned char gck_cuda_unknown_used[GCK_CUDA_UNKNOWN];

void *gck_cuda_unknown_jump(const char *name, void *real)
{
	void *jump = real;
	unsigned i;

	pthread_mutex_lock(&unknown.lock);
	for (i = 0; i < unknown.n && gck_cuda_unknown_real[i] != real; i++)
		;
	if (i == unknown.n && i < GCK_CUDA_UNKNOWN) {
		snprintf(unknown.names[i], sizeof unknown.names[i], "%s", name);
		gck_cuda_unknown_real[i] = real;
		unknown.n++;
	}
	if (i < GCK_CUDA_UNKNOWN)
		jump = (void *)(uintptr_t)(gck_cuda_unknown_code + GCK_CUDA_UNKNOWN_SIZE * i);
	else
		unknown.full = true;
	pthread_mutex_unlock(&unknown.lock);
	return jump;
}

/* The driver's answer is an exported function's address, or, should it not be, one of those that the
 * name means. */
static void *ours(const char *symbol, void *real, int version, cuuint64_t flags)
{
	const struct gck_cuda_function *f = gck_cuda_by_address(real, symbol);

	if (!f)
		f = gck_cuda_by_version(symbol, version,
					flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	return f ? f->ours : gck_cuda_unknown_jump(symbol, real);
}

GCK_CUDA_FUNCTION(cuGetProcAddress_v2, (const char *symbol, void **pfn, int version,
					cuuint64_t flags, CUdriverProcAddressQueryResult *status))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuGetProcAddress_v2(symbol, pfn, version, flags, status);
	if (rc == CUDA_SUCCESS && pfn && *pfn)
		*pfn = ours(symbol, *pfn, version, flags);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuGetProcAddress, (const char *symbol, void **pfn, int version, cuuint64_t flags))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuGetProcAddress(symbol, pfn, version, flags);
	if (rc == CUDA_SUCCESS && pfn && *pfn)
		*pfn = ours(symbol, *pfn, version, flags);
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- able ----------------------------------------------------------------------------------- */

static void able(gck_cuda_obstacle_fn *tell, void *arg)
{
	static const char reason[] = "this version of gpuckpt does not know that function of the driver";
	static const char remedy[] = "use a gpuckpt made for this driver, or an older CUDA toolkit";
	bool full;
	unsigned n;

	pthread_mutex_lock(&unknown.lock);
	n = unknown.n;
	full = unknown.full;
	pthread_mutex_unlock(&unknown.lock);
	for (unsigned i = 0; i < n; i++) {
		if (gck_cuda_unknown_used[i])
			tell(arg, unknown.names[i], reason, remedy);
	}
	if (full)
		tell(arg, "more than 256 functions of the driver", reason, remedy);
}

const struct gck_cuda_part gck_cuda_unknown_part = {.name = "unknown", .able = able};

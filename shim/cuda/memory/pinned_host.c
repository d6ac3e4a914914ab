/* SPDX-License-Identifier: Apache-2.0
 * Pinned memory is the process's memory and stays readable and writable while the driver is
 * checkpointed. Write-combined memory is the driver's and disappears meanwhile, so the program
 * gets ordinary memory, which is only slower to write; cuMemHostGetFlags still returns the flag. */
#include <pthread.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/follow.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gck_cuda_handle_map combined; /* addresses that the program asked to be
					     * write-combined */

/* Without memory for the note only the flag is missing from later answers. */
static void note(void *address)
{
	const uint64_t *noted;

	pthread_mutex_lock(&lock);
	noted = gck_cuda_handle_map_put(&combined, (uint64_t)(uintptr_t)address);
	pthread_mutex_unlock(&lock);
	(void)noted;
}

static bool is_noted(void *address)
{
	bool noted;

	pthread_mutex_lock(&lock);
	noted = gck_cuda_handle_map_get(&combined, (uint64_t)(uintptr_t)address) != NULL;
	pthread_mutex_unlock(&lock);
	return noted;
}

static void forget(void *address)
{
	pthread_mutex_lock(&lock);
	gck_cuda_handle_map_drop(&combined, (uint64_t)(uintptr_t)address);
	pthread_mutex_unlock(&lock);
}

GCK_CUDA_FUNCTION(cuMemHostAlloc, (void **address, size_t size, unsigned int flags))
{
	const unsigned int wc = CU_MEMHOSTALLOC_WRITECOMBINED;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY(rc, gck_cuda_real.cuMemHostAlloc(address, size, flags & ~wc));
	if (rc == CUDA_SUCCESS && flags & wc)
		note(*address);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemHostGetFlags, (unsigned int *flags, void *address))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuMemHostGetFlags(flags, address);
	if (rc == CUDA_SUCCESS && is_noted(address))
		*flags |= CU_MEMHOSTALLOC_WRITECOMBINED;
	GCK_CUDA_LEAVE();
	return rc;
}

/* Forget it first: the address may be allocated again at once. */
GCK_CUDA_FUNCTION(cuMemFreeHost, (void *address))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	gck_cuda_follow_all();
	forget(address);
	rc = gck_cuda_real.cuMemFreeHost(address);
	GCK_CUDA_LEAVE();
	return rc;
}

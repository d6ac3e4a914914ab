/* SPDX-License-Identifier: Apache-2.0
 * The driver's own checkpoint of this process, by a thread of its own. The driver takes the number
 * that getpid() answers, which is virtual after a restart (shim/preload). */
#define _GNU_SOURCE
#include <unistd.h>

#include "shim/cuda/context.h"
#include "shim/cuda/drain.h"
#include "shim/cuda/function.h"
#include "shim/cuda/idle.h"

#define MS 1000000ll

bool gck_cuda_driver_able(void)
{
	return gck_cuda_has((void *)gck_cuda_real.cuCheckpointProcessLock);
}

static int locked(int64_t end_ns, struct gck_error *err)
{
	int64_t left = (end_ns - gck_cuda_now_ns()) / MS;
	CUcheckpointLockArgs args = {.timeoutMs = left > 1 ? (unsigned int)left : 1};
	CUresult rc = gck_cuda_real.cuCheckpointProcessLock(getpid(), &args);

	if (rc == CUDA_ERROR_NOT_READY)
		return gck_fail(err, ETIMEDOUT, "the driver did not lock the process within %u ms",
				args.timeoutMs);
	return rc ? gck_cuda_fail(err, "cuCheckpointProcessLock", rc) : 0;
}

int gck_cuda_driver_down(int64_t end_ns, struct gck_error *err)
{
	CUresult rc;

	if (locked(end_ns, err))
		return -1;
	rc = gck_cuda_real.cuCheckpointProcessCheckpoint(getpid(), NULL);
	if (rc == CUDA_SUCCESS)
		return 0;
	gck_cuda_fail(err, "cuCheckpointProcessCheckpoint", rc);
	gck_cuda_real.cuCheckpointProcessUnlock(getpid(), NULL);
	return -1;
}

int gck_cuda_driver_up(struct gck_error *err)
{
	CUresult rc = gck_cuda_real.cuCheckpointProcessRestore(getpid(), NULL);

	if (rc)
		return gck_cuda_fail(err, "cuCheckpointProcessRestore", rc);
	rc = gck_cuda_real.cuCheckpointProcessUnlock(getpid(), NULL);
	return rc ? gck_cuda_fail(err, "cuCheckpointProcessUnlock", rc) : 0;
}

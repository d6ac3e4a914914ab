/* SPDX-License-Identifier: Apache-2.0
 * The driver's own checkpoint of this process, by a thread of its own. It takes the PID that the kernel
 * knows, though it asks getpid() itself, whose answer must not change. */
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/gate/device_pairs.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/participants/drain.h"
#include "shim/inside/rank.h"

#define MS 1000000ll

static bool refused; /* once is for good: the driver fails all later ones */

const char *gck_cuda_driver_unable(void)
{
	if (!gck_cuda_has((void *)gck_cuda_real.cuCheckpointProcessLock))
		return "it has no checkpoints (CUDA before 12.8)";
	return refused ? "it refused an earlier checkpoint of this process" : NULL;
}

static int locked(int64_t end_ns, struct gck_error *err)
{
	int64_t left = (end_ns - gck_cuda_now_ns()) / MS;
	CUcheckpointLockArgs args = {.timeoutMs = left > 1 ? (unsigned int)left : 1};
	CUresult rc = gck_cuda_real.cuCheckpointProcessLock(gck_inside_pid(), &args);

	if (rc == CUDA_ERROR_NOT_READY)
		return gck_fail(err, ETIMEDOUT, "the GPU has work that did not end within %u ms: try again "
				"later", args.timeoutMs);
	return rc ? gck_cuda_fail(err, "cuCheckpointProcessLock", rc) : 0;
}

int gck_cuda_driver_wait(int64_t end_ns, struct gck_error *err)
{
	CUresult rc;

	if (locked(end_ns, err))
		return -1;
	rc = gck_cuda_real.cuCheckpointProcessUnlock(gck_inside_pid(), NULL);
	return rc ? gck_cuda_fail(err, "cuCheckpointProcessUnlock", rc) : 0;
}

int gck_cuda_driver_down(int64_t end_ns, struct gck_error *err)
{
	CUresult rc;

	if (locked(end_ns, err))
		return -1;
	rc = gck_cuda_real.cuCheckpointProcessCheckpoint(gck_inside_pid(), NULL);
	if (rc == CUDA_SUCCESS)
		return 0;
	refused = true;
	gck_cuda_fail(err, "cuCheckpointProcessCheckpoint", rc);
	gck_cuda_real.cuCheckpointProcessUnlock(gck_inside_pid(), NULL);
	return -1;
}

int gck_cuda_driver_up(struct gck_error *err)
{
	CUresult rc = gck_cuda_real.cuCheckpointProcessRestore(gck_inside_pid(), gck_cuda_devices_pairs());

	if (rc)
		return gck_cuda_fail_room(err, "cuCheckpointProcessRestore", -1, rc);
	gck_cuda_devices_moved();
	rc = gck_cuda_real.cuCheckpointProcessUnlock(gck_inside_pid(), NULL);
	return rc ? gck_cuda_fail(err, "cuCheckpointProcessUnlock", rc) : 0;
}

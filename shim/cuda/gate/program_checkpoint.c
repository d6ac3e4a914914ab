/* SPDX-License-Identifier: Apache-2.0
 * The driver's checkpoint as the program calls it, for itself or for another process. The driver takes
 * the PID that the kernel knows; the program knows its own by getpid(), which answers the first one. */
#include <unistd.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/inside/rank.h"

static int kernels(int pid)
{
	return pid == getpid() ? gck_inside_pid() : pid;
}

#define BY_PID(name, type) \
	GCK_CUDA_FUNCTION(name, (int pid, type *arg)) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(0); \
		rc = gck_cuda_real.name(kernels(pid), arg); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
BY_PID(cuCheckpointProcessGetRestoreThreadId, int)
BY_PID(cuCheckpointProcessGetState, CUprocessState)
BY_PID(cuCheckpointProcessLock, CUcheckpointLockArgs)
BY_PID(cuCheckpointProcessCheckpoint, CUcheckpointCheckpointArgs)
BY_PID(cuCheckpointProcessRestore, CUcheckpointRestoreArgs)
BY_PID(cuCheckpointProcessUnlock, CUcheckpointUnlockArgs)

/* SPDX-License-Identifier: Apache-2.0
 * The driver's own checkpoint of this process, which a thread of the driver makes. The driver
 * takes the PID that the kernel knows, though it calls getpid() itself, whose answer must not
 * change. */
#define _GNU_SOURCE
#include "shim/cuda/gate/driver_checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"
#include "shim/cuda/base/visible_devices.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/gate/idle.h"

/* ---- devices -------------------------------------------------------------------------------- */

void gck_cuda_devices_note(void)
{
	const struct gck_cuda_device_calls eyes = {
		gck_cuda_real.cuDeviceGetCount, gck_cuda_real.cuDeviceGet,
		gck_cuda_real.cuDeviceGetUuid_v2, gck_cuda_real.cuDeviceGetName,
		gck_cuda_real.cuDriverGetVersion, gck_cuda_real.cuDeviceTotalMem_v2,
		gck_cuda_real.cuDeviceGetAttribute,
	};
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	gck_cuda_visible_devices_read(&eyes, &gck_cuda_state.devices);
	snprintf(gck_cuda_state.library, sizeof gck_cuda_state.library, "%s", gck_cuda_library());
	snprintf(gck_cuda_state.visible, sizeof gck_cuda_state.visible, "%s",
		 visible ? visible : "");
}

/* The pairs of devices that the restorer chose; NULL: every device stays where it was. */
static CUcheckpointRestoreArgs *device_pairs(void)
{
	static CUcheckpointGpuPair pairs[GCK_CUDA_DEVICES_MAX];
	static CUcheckpointRestoreArgs args;
	const struct gck_cuda_state *s = &gck_cuda_state;

	if (!s->nonto)
		return NULL;
	for (uint32_t i = 0; i < s->nonto; i++) {
		memcpy(pairs[i].oldUuid.bytes, s->devices.v[i].uuid, sizeof pairs[i].oldUuid.bytes);
		memcpy(pairs[i].newUuid.bytes, s->onto[i], sizeof pairs[i].newUuid.bytes);
	}
	args = (CUcheckpointRestoreArgs){.gpuPairs = pairs, .gpuPairsCount = s->nonto};
	return &args;
}

static void devices_moved(void)
{
	struct gck_cuda_state *s = &gck_cuda_state;

	for (uint32_t i = 0; i < s->nonto; i++)
		memcpy(s->devices.v[i].uuid, s->onto[i], sizeof s->onto[i]);
	s->nonto = 0;
}

/* ---- the checkpoint ------------------------------------------------------------------------- */

/* The driver finds a process by its PID, below /proc, with functions of libc. These take the PIDs
 * and TIDs that the program knows (shim/preload/pid), so it gets the program's. (The kernel's was
 * taken for that of a thread of the first start, where these numbers met.) */

#define MS 1000000ll

static bool refused; /* the driver fails all later checkpoints once it failed one */

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
	CUresult rc = gck_cuda_real.cuCheckpointProcessLock(getpid(), &args);

	if (rc == CUDA_ERROR_NOT_READY)
		return gck_fail(err, ETIMEDOUT,
				"the GPU has work that did not end within %u ms: try again "
				"later",
				args.timeoutMs);
	return rc ? gck_cuda_fail(err, "cuCheckpointProcessLock", rc) : 0;
}

int gck_cuda_driver_wait(int64_t end_ns, struct gck_error *err)
{
	CUresult rc;

	if (locked(end_ns, err))
		return -1;
	rc = gck_cuda_real.cuCheckpointProcessUnlock(getpid(), NULL);
	return rc ? gck_cuda_fail(err, "cuCheckpointProcessUnlock", rc) : 0;
}

int gck_cuda_driver_down(int64_t end_ns, struct gck_error *err)
{
	CUresult rc;

	if (locked(end_ns, err))
		return -1;
	rc = gck_cuda_real.cuCheckpointProcessCheckpoint(getpid(), NULL);
	if (rc == CUDA_SUCCESS)
		return 0;
	refused = true;
	gck_cuda_fail(err, "cuCheckpointProcessCheckpoint", rc);
	gck_cuda_real.cuCheckpointProcessUnlock(getpid(), NULL);
	return -1;
}

int gck_cuda_driver_up(struct gck_error *err)
{
	CUresult rc = gck_cuda_real.cuCheckpointProcessRestore(getpid(), device_pairs());

	if (rc)
		return gck_cuda_fail_memory(err, "cuCheckpointProcessRestore", -1, rc);
	devices_moved();
	rc = gck_cuda_real.cuCheckpointProcessUnlock(getpid(), NULL);
	return rc ? gck_cuda_fail(err, "cuCheckpointProcessUnlock", rc) : 0;
}

/* ---- as the program calls it ---------------------------------------------------------------- */

#define BY_PID(name, type) \
	GCK_CUDA_FUNCTION(name, (int pid, type *arg)) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(0); \
		rc = gck_cuda_real.name(pid, arg); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
BY_PID(cuCheckpointProcessGetRestoreThreadId, int)
BY_PID(cuCheckpointProcessGetState, CUprocessState)
BY_PID(cuCheckpointProcessLock, CUcheckpointLockArgs)
BY_PID(cuCheckpointProcessCheckpoint, CUcheckpointCheckpointArgs)
BY_PID(cuCheckpointProcessRestore, CUcheckpointRestoreArgs)
BY_PID(cuCheckpointProcessUnlock, CUcheckpointUnlockArgs)

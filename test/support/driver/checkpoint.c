/* SPDX-License-Identifier: Apache-2.0
 * The fake driver's own checkpoint of this process, with the states and refusals of driver 580. */
#define _GNU_SOURCE
#include "test/support/driver/bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shim/preload/helper/raw.h"

#define OWN ((size_t)4 << 20)

static bool refused; /* after one refusal every checkpoint fails */
static void *own;    /* where it saves what is its own on the device */

/* Whether the caller knows this process by that PID. As the driver does, it looks for the threads
 * below /proc, by a function of libc; but it needs no descriptor for that. */
static CUresult is_this(int pid)
{
	char path[sizeof "/proc/2147483647/task"];
	struct stat this, that;

	if (!fake.inited)
		return CUDA_ERROR_NOT_INITIALIZED;
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	if (stat(path, &that))
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (gck_raw(SYS_stat, "/proc/self/task", &this) || this.st_ino != that.st_ino)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult fake_cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
	*state = fake.process;
	return is_this(pid);
}

CUresult fake_cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
	*tid = pid;
	return is_this(pid);
}

/* Waits for the calls and the work under way. New calls wait. */
CUresult fake_cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
	unsigned int ms = args ? args->timeoutMs : 0;
	CUresult rc = is_this(pid);
	struct timespec end;
	bool in_time = true;

	if (rc)
		return rc;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += ms / 1000;
	end.tv_nsec += ms % 1000 * 1000000l;
	if (end.tv_nsec >= 1000000000l) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000l;
	}
	fake_lock();
	if (fake.process != CU_PROCESS_STATE_RUNNING) {
		rc = CUDA_ERROR_ILLEGAL_STATE;
	} else {
		fake.process = CU_PROCESS_STATE_LOCKED;
		while (in_time && (fake.inside || !fake_all_idle(NULL))) {
			if (ms)
				in_time = fake_wait_until(&end);
			else
				fake_wait();
		}
		if (!in_time) {
			fake.process = CU_PROCESS_STATE_RUNNING;
			rc = CUDA_ERROR_NOT_READY;
		}
		fake_changed();
	}
	fake_unlock();
	if (!rc)
		fake_listeners_tell(FAKE_LOCK);
	return rc;
}

/* With managed memory it is refused: the process goes on, and every later checkpoint is refused.
 * With memory of another process, or memory of the host by cuMemCreate, it succeeds, and the
 * restore fails. */
CUresult fake_cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
	CUresult rc = is_this(pid);

	(void)args;
	if (rc)
		return rc;
	fake_lock();
	if (fake.process != CU_PROCESS_STATE_LOCKED) {
		rc = CUDA_ERROR_ILLEGAL_STATE;
	} else if (refused) {
		rc = CUDA_ERROR_UNKNOWN;
	} else if (fake_blocks_have(FAKE_MANAGED)) {
		refused = true;
		rc = CUDA_ERROR_NOT_SUPPORTED;
	} else {
		fake.lost = fake_blocks_have(FAKE_IMPORTED) || fake_blocks_have(FAKE_EXTERNAL) ||
			    fake.host_memory;
		own = mmap(NULL, OWN, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		fake_blocks_save();
		fake.process = CU_PROCESS_STATE_CHECKPOINTED;
	}
	fake_unlock();
	if (!rc)
		fake_listeners_tell(FAKE_CHECKPOINT);
	return rc;
}

CUresult fake_cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
	CUresult rc = is_this(pid);

	if (rc)
		return rc;
	fake_lock();
	if (fake.process != CU_PROCESS_STATE_CHECKPOINTED) {
		rc = CUDA_ERROR_ILLEGAL_STATE;
	} else if (fake.lost) {
		fake.process = CU_PROCESS_STATE_FAILED;
		rc = CUDA_ERROR_NOT_SUPPORTED;
	} else if (!(rc = fake_node_move(args))) {
		munmap(own, OWN);
		fake_blocks_restore();
		fake.process = CU_PROCESS_STATE_LOCKED;
	}
	fake_unlock();
	if (!rc)
		fake_listeners_tell(FAKE_RESTORE);
	return rc;
}

CUresult fake_cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
	CUresult rc = is_this(pid);

	(void)args;
	if (rc)
		return rc;
	fake_lock();
	if (fake.process == CU_PROCESS_STATE_LOCKED)
		fake.process = CU_PROCESS_STATE_RUNNING;
	else
		rc = CUDA_ERROR_ILLEGAL_STATE;
	fake_changed();
	fake_unlock();
	if (!rc)
		fake_listeners_tell(FAKE_UNLOCK);
	return rc;
}

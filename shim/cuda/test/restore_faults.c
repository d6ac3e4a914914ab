/* SPDX-License-Identifier: Apache-2.0
 * Calls of the driver fail, each in a new process of the same image: while the process restores its
 * GPU, and during a checkpoint after a restore on another GPU, also where its memory cannot be
 * recalled there, so that the copy goes through host memory and fills new memory. The error is
 * reported, or the program has its data nevertheless and the next checkpoint succeeds. A run
 * without a fault records which functions are called. By default the first call of each function
 * fails in the restore, and in the checkpoint the first call of each function that new memory
 * needs: cuda_sweep has the others. With GPUCKPT_LONG=1 the first two calls and the last one fail
 * in each phase. */
#include <stdio.h>
#include <stdlib.h>

#include "shim/cuda/base/state.h"
#include "shim/cuda/test/restored_rank.h"
#include "test/support/tap.h"

#define OUT_OF_MEMORY 2

static bool recalls = true; /* on the other device */

/* The rank waits for memory where these find none. */
static bool is_waited_for(const struct fault *f)
{
	static const char *const names[] = {"cuMemCreate", "cuMemExportToShareableHandle",
					    "cuMemMap", "cuMemSetAccess", NULL};

	return faults_is_one_of(f->name, names);
}

/* Without these the rank cannot come back. */
static bool may_lose(const struct fault *f, const struct place *at)
{
	static const char *const names[] = {
		"cuInit",
		"cuDeviceGetCount",
		"cuDriverGetVersion",
		"cuDeviceGet",
		"cuDeviceGetUuid_v2",
		"cuDeviceGetName",
		"cuDeviceTotalMem_v2",
		"cuDeviceGetAttribute",
		"cuCheckpointProcessRestore",
		"cuCheckpointProcessUnlock",
		"cuCtxPushCurrent_v2",
		"cuCtxSetLimit",
		"cuMemCreate",
		"cuMemExportToShareableHandle",
		"cuMemMap",
		"cuMemSetAccess",
		"cuMemHostAlloc",
		"cuMemHostRegister_v2",
		"cuMemAllocManaged",
		"cuMemImportFromShareableHandle",
		"cuMemcpyHtoDAsync_v2",
		"cuStreamCreate",
		"cuStreamCreateWithPriority",
		"cuStreamSynchronize",
		"cuEventCreate",
		"cuEventRecord",
		"cuEventQuery",
		NULL,
	};

	return at->in != DRAIN && !at->code && faults_is_one_of(f->name, names);
}

/* After these every later checkpoint is refused: the driver refused one, or has what it will
 * refuse. */
static bool ends_checkpoints(const struct fault *f, enum phase in)
{
	static const char *const names[] = {"cuCheckpointProcessCheckpoint", "cuMemFree_v2", NULL};

	return in == DRAIN && faults_is_one_of(f->name, names);
}

static bool is_tried(const struct fault *f, const struct place *at)
{
	if (at->code)
		return is_waited_for(f);
	return faults_every() || at->in == RESTORE || (!recalls && is_waited_for(f));
}

static void one(const struct fault *first, void *arg)
{
	const struct place *at = arg;
	const struct fault f = {first->name, first->nth, at->code};
	struct outcome o;

	if (!is_tried(&f, at))
		return;
	restored_run(&f, at, &o);
	ok(all_of(!o.missed, (!o.failed || *o.text), (!o.lost || may_lose(&f, at))),
	   "%s%s, %s, call %d: %s", phases[at->in], at->code ? " without memory" : "", f.name,
	   f.nth, o.text);
	if (!o.lost)
		restored_goes_on(ends_checkpoints(&f, at->in));
	lineage_kill(&lineage);
}

static long long device_bytes(void)
{
	struct gck_cuda_state s;

	agent_peek(lineage.pid, cuda.hello.state, &s, sizeof s);
	return (long long)s.device_bytes;
}

static void without_fault(enum phase in, const char *device)
{
	static long long bytes;
	struct outcome o;

	restored_run_without_fault(in, device, &o);
	ok(all_of(!o.failed, restored_has_its_data()), "%s on device %c without a fault: %s",
	   phases[in], *device, o.text);
	is_int(o.on_device, in != RESTORE && recalls,
	       "its copy was on the device if it made a checkpoint and its memory can be recalled");
	bytes = bytes ? bytes : device_bytes();
	is_int(device_bytes(), bytes, "its count of device memory is the same as ever");
	lineage_kill(&lineage);
}

/* The driver does not find memory of the other device. */
static void recall_nothing(void)
{
	FILE *f = fopen(getenv("FAKE_CUDA_NO_KERNEL"), "we");

	if (f)
		fclose(f);
	recalls = false;
}

static void sweep(enum phase in, int code)
{
	struct place at = {in, OTHER_DEVICE, code};

	without_fault(in, at.device);
	faults_each(one, &at);
}

int main(void)
{
	restored_begin();
	without_fault(RESTORE, SAME_DEVICE);
	faults_repeat(NULL);
	sweep(RESTORE, 0);
	faults_repeat(NULL);
	sweep(DRAIN, 0);
	sweep(BACK, 0);
	recall_nothing();
	faults_repeat(NULL);
	sweep(BACK, 0);
	faults_repeat(NULL);
	sweep(BACK, OUT_OF_MEMORY);
	restored_end();
	return tap_done();
}

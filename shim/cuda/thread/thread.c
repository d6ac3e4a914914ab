/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/thread/thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/cuda/base/obstacles.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/capture.h"
#include "shim/cuda/gate/driver_checkpoint.h"
#include "shim/cuda/gate/last_kernel.h"
#include "shim/cuda/gate/stop_world.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/snapshot/device_copy.h"
#include "shim/cuda/stream/ordered_memory.h"
#include "shim/cuda/transfer/transfer.h"
#include "shim/cuda/vmm/vmm.h"
#include "shim/inside/rank.h"

#define AGAIN_MS 100      /* between attempts to connect, doubled up to */
#define AGAIN_MOST_MS 2000

static struct {
	pthread_mutex_t lock;
	bool runs, forks_told, end_told;
	bool left;             /* this process was forked from one that uses CUDA */
	struct gck_cuda_thread k;
} thread = {.lock = PTHREAD_MUTEX_INITIALIZER, .k.link.fd = -1};

static void nap(int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000l};

	nanosleep(&t, NULL);
}

/* Sleep, and free meanwhile what a checkpoint has left. */
static void rest(int ms)
{
	for (int n; ms > 0; ms -= n) {
		n = gck_cuda_device_copy_tend(ms);
		nap(n);
	}
}

/* Reconnect for ever: an agent that died is started again. */
static void keep_link(struct gck_cuda_thread *k)
{
	int ms = AGAIN_MS;

	for (;;) {
		if (gck_inside_link_connect(&k->link, gck_inside_agent(), NULL) == 0) {
			gck_cuda_state.link_fd = k->link.fd;
			if (gck_cuda_serve_hello(k) == 0) {
				ms = AGAIN_MS;
				gck_cuda_serve(k);
			}
			gck_cuda_state.link_fd = -1;
			gck_inside_link_close(&k->link);
		}
		rest(ms);
		ms = ms * 2 < AGAIN_MOST_MS ? ms * 2 : AGAIN_MOST_MS;
	}
}

static void *run(void *arg)
{
	struct gck_cuda_thread *k = arg;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	pthread_setname_np(pthread_self(), "gpuckpt-cuda");
	gck_gate_own_thread(&gck_gate_owner);
	/* This thread's calls must not become part of a capture of another thread, nor end it. */
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	keep_link(k);
	return NULL;
}

/* A child has no such thread and no part in the link, and cannot use CUDA. */
static void leave_to_parent(void)
{
	gck_inside_leaves_gpu();
	gck_inside_link_close(&thread.k.link);
	gck_cuda_state.link_fd = -1;
	gck_cuda_data_forked();
	gck_cuda_device_copy_forked();
	gck_cuda_slabs_forked();
	gck_cuda_handles_forked();
	gck_cuda_mappings_forked();
	gck_cuda_ordered_forked();
	gck_cuda_capture_forked();
	gck_cuda_last_kernels_forked();
	gck_cuda_obstacles_forked();
	thread.runs = false;
	thread.left = true;
	pthread_mutex_init(&thread.lock, NULL);
}

/* exit() calls this before the driver's own handlers, which are older. It waits here until a drain,
 * or the way back from it, is over: a driver that has shut down can do neither. Then it stays
 * inside the gate, so that no other drain begins. */
static void program_ends(void)
{
	gck_gate_enter("exit", 0);
	gck_cuda_last_kernels_end();
}

static int start(void)
{
	sigset_t all, before;
	pthread_t id;
	int rc;

	if (!thread.forks_told || (!thread.end_told && atexit(program_ends)))
		return ENOMEM;
	thread.end_told = true;
	gck_cuda_devices_note();
	thread.k.restarts = gck_inside_restarts();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&id, NULL, run, &thread.k);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return rc;
	pthread_detach(id);
	thread.runs = true;
	return 0;
}

void gck_cuda_thread_announce(bool starts)
{
	if (thread.left || !gck_inside_has_agent())
		return;
	pthread_mutex_lock(&thread.lock);
	if (!thread.forks_told)
		thread.forks_told = pthread_atfork(NULL, NULL, leave_to_parent) == 0;
	if (!thread.runs) {
		gck_cuda_state.pid = (int32_t)gck_cuda_system(SYS_getpid, 0, 0, 0, 0, 0, 0);
		gck_inside_uses_cuda(starts ? &gck_cuda_state : NULL);
	}
	pthread_mutex_unlock(&thread.lock);
}

void gck_cuda_thread_start(void)
{
	int rc;

	if (thread.left || !gck_inside_has_agent())
		return;
	pthread_mutex_lock(&thread.lock);
	rc = thread.runs ? 0 : start();
	pthread_mutex_unlock(&thread.lock);
	if (rc)
		fprintf(stderr, "gpuckpt: no thread for checkpoints of CUDA: %s\n", strerror(rc));
}

/* SPDX-License-Identifier: Apache-2.0
 * The CUDA thread: one for each rank that uses CUDA, from cuInit on, with all signals blocked. It
 * serves a link of its own to the agent (shim/link.h, verbs 48 to 63): drain, resume, able.
 * After a restart it brings CUDA back. */
#ifndef GCK_CUDA_THREAD_H
#define GCK_CUDA_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/state.h"
#include "shim/inside/link.h"

/* Around the driver's cuInit, which opens devices: a checkpoint waits until the thread has started,
 * or until there is to be none. */
void gck_cuda_thread_announce(bool starts);

/* Start the thread, once, after cuInit succeeded. Does nothing in a process that is no rank of a
 * checkpointed step. A failure is reported on stderr: the program runs on, without checkpoints. */
void gck_cuda_thread_start(void);

/* ---- between the thread's own files --------------------------------------------------------- */

struct gck_cuda_thread {
	struct gck_inside_link link;
	uint32_t restarts;       /* when last seen */
	uint64_t prepare_seq;    /* the preparation's number, until it is answered; 0: none */
	int64_t looks_until_ns;  /* `able` watches what is queued, until then; 0: it does not */
	uint64_t drain_seq;          /* the drain's number, until it is answered; 0: none */
	uint64_t seq;            /* the number it is drained for; 0: running */
	int64_t watchdog_ns, heard_ns;
	bool gave;               /* drained, and device copies were given up for another rank */
	bool data_missing;            /* restored, and some data are in no page of the image */
	bool away;               /* the GPU is not back yet after a restart, or is lost: */
	struct gck_error lost;   /* then code is not 0, and the gate stays closed */
};

/* serve.c: introduce this rank to the agent, then serve it until the link ends. Returns with the
 * process running. */
int gck_cuda_serve_hello(struct gck_cuda_thread *k);
void gck_cuda_serve(struct gck_cuda_thread *k);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The CUDA thread: one per rank that uses CUDA, an ordinary pthread with all signals blocked, from
 * cuInit on. It serves a link of its own to the agent (shim/link.h, verbs 48 to 63): drain, resume,
 * able; and after a restart it brings CUDA back to life. */
#ifndef GCK_CUDA_THREAD_H
#define GCK_CUDA_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/state.h"
#include "shim/inside/link.h"

/* cuInit was well: make the thread, once. In a process that is no rank of a checkpointed step nothing
 * is made. What fails is said on stderr: the program runs, without checkpoints. */
void gck_cuda_thread_start(void);

/* ---- between the thread's own files --------------------------------------------------------- */

struct gck_cuda_thread {
	struct gck_inside_link link;
	uint32_t restarts;       /* as seen last */
	uint64_t asked;          /* to drain for, and not answered yet; 0: nothing */
	uint64_t seq;            /* drained for, 0: running */
	int64_t lease_ns, heard_ns;
	bool gave;               /* drained, and what was kept on devices is given up for another rank */
	bool wanting;            /* restored, and data are in no page of the image */
	bool away;               /* the GPU is not back yet after a restart, or lost: */
	struct gck_error lost;   /* then code is not 0, and the gate closed for good */
};

/* serve.c: tell the agent who this is, and do what it asks until the link ends. Returns with the
 * process running. */
int gck_cuda_serve_hello(struct gck_cuda_thread *k);
void gck_cuda_serve(struct gck_cuda_thread *k);

#endif

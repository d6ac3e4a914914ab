/* SPDX-License-Identifier: Apache-2.0
 * A process that has our memory and stops our threads: what still.c has done by it. */
#ifndef GCK_CUDA_THREAD_STOPPER_H
#define GCK_CUDA_THREAD_STOPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gck_cuda_stopped_thread {
	int32_t tid;
	int32_t signal; /* one that it was about to take */
	bool stopped;
};

/* Whose turn it is. */
enum gck_cuda_turn {
	GCK_CUDA_STOPPING, /* the other process' */
	GCK_CUDA_TAKEN,    /* the caller's: the threads stand still */
	GCK_CUDA_PAUSED,   /* the caller's, until pause_end_ns */
	GCK_CUDA_OVER,     /* they are let go */
};

/* Shared by the two processes. */
struct gck_cuda_stop_world {
	int turn;               /* a futex */
	int64_t pause_end_ns;
	int32_t pid, tid;       /* this process and thread, as the kernel knows them */
	int32_t other;          /* process; 0: it has ended */
	int64_t end_ns, traced_end_ns;
	bool again;             /* somebody else traces one */
	struct gck_cuda_stopped_thread *v;
	size_t n, most;
	size_t size;            /* of the memory that it is in, and the other process' stack */
	int error;              /* 0: they were stopped */
	const char *what;
};

/* What it runs. Nothing but memory and system calls. */
int gck_cuda_thread_stopper(void *still);

int gck_cuda_turn(const struct gck_cuda_stop_world *s);
void gck_cuda_turn_set(struct gck_cuda_stop_world *s, int turn);
bool gck_cuda_turn_change(struct gck_cuda_stop_world *s, int from, int to);
/* While it is that turn, no longer than so. */
void gck_cuda_turn_wait(struct gck_cuda_stop_world *s, int turn, int64_t ns);

int64_t gck_cuda_stop_now_ns(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The process that shares our memory and stops our threads, and what it shares with stop_world.c.
 */
#ifndef GCK_CUDA_THREAD_STOPPER_H
#define GCK_CUDA_THREAD_STOPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gck_cuda_stopped_thread {
	int32_t tid;
	int32_t signal; /* a signal that it was about to take */
	bool stopped;
};

/* Whose turn it is. */
enum gck_cuda_turn {
	GCK_CUDA_STOPPING, /* the other process' */
	GCK_CUDA_TAKEN,    /* the caller's: the threads are stopped */
	GCK_CUDA_PAUSED,   /* the caller's, until pause_end_ns */
	GCK_CUDA_OVER,     /* the threads are released */
};

/* Shared by the two processes. */
struct gck_cuda_stop_world {
	int turn;               /* a futex */
	int64_t pause_end_ns;
	int32_t pid, tid;       /* this process and thread, as the kernel knows them */
	int32_t other;          /* the other process; 0: it has ended */
	int64_t end_ns, traced_end_ns;
	bool again;             /* another process traces a thread */
	struct gck_cuda_stopped_thread *v;
	size_t n, most;
	size_t size;            /* of this memory and the other process' stack */
	int error;              /* 0: the threads were stopped */
	const char *what;
};

/* The other process' main function. Uses memory and system calls only. */
int gck_cuda_thread_stopper(void *stop_world);

int gck_cuda_turn(const struct gck_cuda_stop_world *s);
void gck_cuda_turn_set(struct gck_cuda_stop_world *s, int turn);
bool gck_cuda_turn_change(struct gck_cuda_stop_world *s, int from, int to);
/* Wait while it is that turn, for ns at most. */
void gck_cuda_turn_wait(struct gck_cuda_stop_world *s, int turn, int64_t ns);

int64_t gck_cuda_stop_now_ns(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The gate in front of the real MPI library. A program's thread is `inside` between enter and
 * leave; while the gate is closed nobody enters. Open, it costs two stores and a load: the side
 * that closes it pays for the order of memory, by membarrier. */
#ifndef GCK_MPI_GATE_H
#define GCK_MPI_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gck_mpi_thread {
	/* Calls within calls (user operations, callbacks) that it is in; not 0: it may be in the real
	 * library. Only the thread itself writes it. */
	_Atomic uint32_t inside;
	const char *function;     /* the outermost MPI function, while inside */
	struct gck_mpi_thread *next;
	pthread_t thread;
	_Atomic uint32_t waits;   /* in front of the closed gate */
	/* the MPI thread itself passes always */
	bool passes;
};

extern __thread struct gck_mpi_thread *gck_mpi_thread __attribute__((tls_model("initial-exec")));
extern _Atomic uint32_t gck_mpi_gate_closed;

/* First call of a thread: it is listed until its end, and the real library loaded if it is not. */
struct gck_mpi_thread *gck_mpi_thread_new(void) __attribute__((cold));
/* After a load: make every listed thread known to the copy's libc. */
void gck_mpi_threads_adopt(void);
/* Slow paths: outside until the gate is open, then inside; of leave: somebody waits for it. */
void gck_mpi_gate_wait(struct gck_mpi_thread *t) __attribute__((cold));
void gck_mpi_gate_left(void) __attribute__((cold));

/* For messages: the name of the function that the caller is. */
#define gck_mpi_enter() gck_mpi_enter_as(__func__)

static inline void gck_mpi_enter_as(const char *function)
{
	struct gck_mpi_thread *t = gck_mpi_thread;
	uint32_t depth;

	if (__builtin_expect(!t, 0))
		t = gck_mpi_thread_new();
	depth = atomic_load_explicit(&t->inside, memory_order_relaxed);
	atomic_store_explicit(&t->inside, depth + 1, memory_order_relaxed);
	if (__builtin_expect(depth, 0))
		return;
	t->function = function;
	atomic_signal_fence(memory_order_seq_cst);
	/* acquire: what was changed behind a closed gate is seen by one who finds it open again */
	if (__builtin_expect(atomic_load_explicit(&gck_mpi_gate_closed, memory_order_acquire), 0))
		gck_mpi_gate_wait(t);
}

static inline void gck_mpi_leave(void)
{
	struct gck_mpi_thread *t = gck_mpi_thread;
	uint32_t depth = atomic_load_explicit(&t->inside, memory_order_relaxed) - 1;

	atomic_store_explicit(&t->inside, depth, memory_order_release);
	if (__builtin_expect(depth, 0))
		return;
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&gck_mpi_gate_closed, memory_order_relaxed), 0))
		gck_mpi_gate_left();
}

/* May the caller, who is inside, go out and in again? Not in a call within a call. */
static inline bool gck_mpi_may_park(void)
{
	const struct gck_mpi_thread *t = gck_mpi_thread;

	return atomic_load_explicit(&t->inside, memory_order_relaxed) == 1 && !t->passes;
}

/* In a waiting loop, between two polls: true if the thread was outside meanwhile, so that real
 * handles must be read again. Does nothing in a call within a call. */
static inline bool gck_mpi_park_if_closed(void)
{
	if (__builtin_expect(!atomic_load_explicit(&gck_mpi_gate_closed, memory_order_relaxed), 1))
		return false;
	if (!gck_mpi_may_park())
		return false;
	gck_mpi_leave();
	gck_mpi_enter_as(gck_mpi_thread->function);
	return true;
}

/* The MPI thread's side. */
void gck_mpi_gate_close(void);          /* nobody enters from here on */
void gck_mpi_gate_open(void);
bool gck_mpi_gate_empty(void);          /* closed, and nobody is inside */
bool gck_mpi_gate_wait_empty(int ms);   /* waits until so, or for that long; false: somebody is inside */

/* Does a thread wait in front of it? If none does, and nobody is inside, the program computes. */
bool gck_mpi_gate_waited(void);

/* For messages: the MPI function that a thread is inside of, "" if none is. */
void gck_mpi_gate_where(char *buf, size_t n);

#endif

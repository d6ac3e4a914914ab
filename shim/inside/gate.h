/* SPDX-License-Identifier: Apache-2.0
 * The gate in front of a real library (MPI's, CUDA's); each stand-in has its own. A program's
 * thread is inside between enter and leave. No thread enters while the gate is closed. An open gate
 * costs two stores and a load of the thread's own memory and a load of a word that is not written
 * then: the side that closes the gate orders memory, by membarrier. */
#ifndef GCK_INSIDE_GATE_H
#define GCK_INSIDE_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One for each thread, on cache lines of its own. */
struct gck_gate_thread {
	/* The depth of calls within calls (user operations, callbacks). If it is not 0, the thread
	 * may be in the real library. Only the thread itself writes it. */
	_Atomic uint32_t inside;
	_Atomic uint32_t waits;   /* waits in front of the closed gate */
	const char *function;     /* the outermost function of the library, while inside */
	uint64_t object;          /* the object of that call (a stream); 0: none */
	bool passes;              /* a thread of the stand-in, which passes a closed gate */
	struct gck_gate_thread *next;
	pthread_t thread;
	pid_t tid;                /* the TID that the program knows */
};

extern __thread struct gck_gate_thread *gck_gate_self __attribute__((tls_model("initial-exec")));
extern _Atomic uint32_t gck_gate_closed;

/* The stand-in that has the gate; each defines one. */
struct gck_gate_owner {
	/* Called before a thread is listed: loads the real library, or ends the process. */
	void (*admit)(void);
	/* Called when the thread is listed; NULL: nothing to do. The list's lock is held, as in the
	 * visit of gck_gate_each_thread, so that the two never run at the same time. */
	void (*admitted)(pthread_t thread);
};
extern const struct gck_gate_owner gck_gate_owner;

/* Lists the calling thread until it ends. Called at its first call; never fails. */
struct gck_gate_thread *gck_gate_thread_new(const struct gck_gate_owner *owner)
	__attribute__((cold));

/* For a thread of the stand-in: it passes a closed gate until it has ended. */
void gck_gate_own_thread(const struct gck_gate_owner *owner);

/* The thread is not listed any more. For threads whose end the program's libc does not see: those
 * of another libc, in which a callback of the program has called the library. */
void gck_gate_thread_gone(pthread_t thread);

/* Visits each listed thread, with the list's lock held. */
void gck_gate_each_thread(void (*visit)(pthread_t thread));

/* Slow paths. gck_gate_wait stays outside until the gate is open, then goes inside; gck_gate_left
 * wakes the thread that closed the gate. */
void gck_gate_wait(struct gck_gate_thread *t) __attribute__((cold));
void gck_gate_left(void) __attribute__((cold));

static inline __attribute__((always_inline)) void gck_gate_enter(const char *function,
								 uint64_t object)
{
	struct gck_gate_thread *t = gck_gate_self;
	uint32_t depth;

	if (__builtin_expect(!t, 0))
		t = gck_gate_thread_new(&gck_gate_owner);
	depth = atomic_load_explicit(&t->inside, memory_order_relaxed);
	atomic_store_explicit(&t->inside, depth + 1, memory_order_relaxed);
	if (__builtin_expect(depth, 0))
		return;
	t->function = function;
	t->object = object;
	atomic_signal_fence(memory_order_seq_cst);
	/* acquire: a thread that finds the gate open sees what was changed while it was closed */
	if (__builtin_expect(atomic_load_explicit(&gck_gate_closed, memory_order_acquire), 0))
		gck_gate_wait(t);
}

static inline __attribute__((always_inline)) void gck_gate_leave(void)
{
	struct gck_gate_thread *t = gck_gate_self;
	uint32_t depth = atomic_load_explicit(&t->inside, memory_order_relaxed) - 1;

	atomic_store_explicit(&t->inside, depth, memory_order_release);
	if (__builtin_expect(depth, 0))
		return;
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&gck_gate_closed, memory_order_relaxed), 0))
		gck_gate_left();
}

/* True if the calling thread, which is inside, may leave and enter again: not in a call within a
 * call. */
static inline bool gck_gate_may_park(void)
{
	const struct gck_gate_thread *t = gck_gate_self;

	return atomic_load_explicit(&t->inside, memory_order_relaxed) == 1 && !t->passes;
}

/* For waiting loops, between two polls: leaves and enters a closed gate. True if it did, so that
 * what was read from the real library must be read again. Does nothing in a call within a call. */
static inline bool gck_gate_park_if_closed(void)
{
	if (__builtin_expect(!atomic_load_explicit(&gck_gate_closed, memory_order_relaxed), 1))
		return false;
	if (!gck_gate_may_park())
		return false;
	gck_gate_leave();
	gck_gate_enter(gck_gate_self->function, gck_gate_self->object);
	return true;
}

/* For the stand-in's own thread. */
void gck_gate_close(void);          /* from now on no thread enters */
void gck_gate_open(void);
bool gck_gate_wait_empty(int ms);   /* waits until no thread is inside, at most ms; true: none is */

/* True: closed, and no thread is inside. A thread that comes to the closed gate shows as inside for
 * a moment, before it parks: false means "perhaps", as long as gck_gate_wait_empty has not said
 * so. */
bool gck_gate_empty(void);

/* True if a thread waits in front of the gate. If none does and none is inside, the program
 * computes. */
bool gck_gate_waited(void);

/* Describes a thread that is inside, for messages. False: there is none. */
struct gck_gate_place {
	const char *function;
	uint64_t object;
	pid_t tid;
	char name[16]; /* the thread's */
};
bool gck_gate_where(struct gck_gate_place *place);

#endif

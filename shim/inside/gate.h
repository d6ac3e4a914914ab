/* SPDX-License-Identifier: Apache-2.0
 * The gate in front of a real library (MPI's, CUDA's), in each of the stand-ins a gate of its own.
 * A program's thread is `inside` between enter and leave; while the gate is closed nobody enters.
 * Open, it costs two stores and a load of the thread's own memory and a load of a word that nobody
 * writes: the side that closes it pays for the order of memory, by membarrier. */
#ifndef GCK_INSIDE_GATE_H
#define GCK_INSIDE_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A cache line or more of its own. */
struct gck_gate_thread {
	/* Calls within calls (user operations, callbacks) that it is in; not 0: it may be in the real
	 * library. Only the thread itself writes it. */
	_Atomic uint32_t inside;
	_Atomic uint32_t waits;   /* in front of the closed gate */
	const char *function;     /* the outermost function of the library, while inside */
	uint64_t object;          /* what it works on or waits for (a stream), 0: nothing to name */
	/* the library's own threads pass always */
	bool passes;
	struct gck_gate_thread *next;
	pthread_t thread;
	pid_t tid;                /* as the program knows it */
};

extern __thread struct gck_gate_thread *gck_gate_self __attribute__((tls_model("initial-exec")));
extern _Atomic uint32_t gck_gate_closed;

/* The stand-in that the gate belongs to; each defines one. */
struct gck_gate_owner {
	/* A thread is about to be listed: loads the real library, or ends the process. */
	void (*admit)(void);
	/* The thread is listed. NULL: nothing to do. Called with the list's lock held, as the
	 * visit of gck_gate_each_thread is, so that the two never run at once. */
	void (*admitted)(pthread_t thread);
};
extern const struct gck_gate_owner gck_gate_owner;

/* List the calling thread until it ends, at its first call. Never fails. */
struct gck_gate_thread *gck_gate_thread_new(const struct gck_gate_owner *owner)
	__attribute__((cold));

/* Visit each listed thread. */
void gck_gate_each_thread(void (*visit)(pthread_t thread));

/* Slow paths: outside until the gate is open, then inside; of leave: somebody waits for it. */
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
	/* acquire: what was changed behind a closed gate is seen by one who finds it open again */
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

/* Whether the caller, who is inside, may go out and in again: not in a call within a call. */
static inline bool gck_gate_may_park(void)
{
	const struct gck_gate_thread *t = gck_gate_self;

	return atomic_load_explicit(&t->inside, memory_order_relaxed) == 1 && !t->passes;
}

/* In a waiting loop, between two polls: true if the thread was outside meanwhile, so that what it
 * knows of the real library must be read again. Does nothing in a call within a call. */
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

/* The side of the stand-in's own thread. */
void gck_gate_close(void);          /* nobody enters from here on */
void gck_gate_open(void);
bool gck_gate_empty(void);          /* closed, and nobody is inside */
bool gck_gate_wait_empty(int ms);   /* waits for that, ms at most; false: a thread is inside */

/* Whether a thread waits in front of the gate. If none does, and nobody is inside, the program
 * computes. */
bool gck_gate_waited(void);

/* A thread that is inside, for messages. False: there is none. */
struct gck_gate_place {
	const char *function;
	uint64_t object;
	pid_t tid;
	char name[16]; /* the thread's */
};
bool gck_gate_where(struct gck_gate_place *place);

#endif

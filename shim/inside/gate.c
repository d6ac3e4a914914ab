/* SPDX-License-Identifier: Apache-2.0
 * The gate's slow paths. The fast ones (gate.h) have no fence. The thread that closes the gate
 * issues one in each thread of the process by membarrier; after it each thread either has seen the
 * gate closed or is seen inside. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/inside/gate.h"

__thread struct gck_gate_thread *gck_gate_self __attribute__((tls_model("initial-exec")));
_Atomic uint32_t gck_gate_closed;

#define CACHE_LINES 128 /* two lines, since the processor fetches pairs */

static struct {
	pthread_mutex_t lock; /* protects the list */
	pthread_once_t once;
	pthread_key_t key;    /* its destructor takes a thread out of the list */
	struct gck_gate_thread *first;
	_Atomic uint32_t left; /* counts threads that left while the gate was closed (futex) */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value, const struct timespec *limit)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, limit, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void gck_gate_thread_gone(pthread_t thread)
{
	struct gck_gate_thread *t, **at;

	pthread_mutex_lock(&gate.lock);
	for (at = &gate.first; *at && (*at)->thread != thread; at = &(*at)->next)
		;
	t = *at;
	if (t)
		*at = t->next;
	pthread_mutex_unlock(&gate.lock);
	if (t == gck_gate_self)
		gck_gate_self = NULL; /* a destructor that runs later may still call the library */
	free(t);
}

static void at_end(void *arg)
{
	gck_gate_thread_gone(((const struct gck_gate_thread *)arg)->thread);
}

/* A child of fork has one thread and must not use the parent's library. */
static void in_child(void)
{
	struct gck_gate_thread *t, *next;

	pthread_mutex_init(&gate.lock, NULL);
	for (t = gate.first, gate.first = gck_gate_self; t; t = next) {
		next = t->next;
		if (t != gck_gate_self)
			free(t);
		else
			t->next = NULL;
	}
	atomic_store(&gck_gate_closed, 0);
	membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

static void once(void)
{
	if (pthread_key_create(&gate.key, at_end))
		abort(); /* the program uses all 1024 keys */
	pthread_atfork(NULL, NULL, in_child);
	membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

static __thread bool is_own __attribute__((tls_model("initial-exec")));

struct gck_gate_thread *gck_gate_thread_new(const struct gck_gate_owner *owner)
{
	struct gck_gate_thread *t;

	pthread_once(&gate.once, once);
	owner->admit();
	if (posix_memalign((void **)&t, CACHE_LINES, sizeof *t)) {
		fprintf(stderr, "gpuckpt: out of memory\n");
		_exit(1);
	}
	memset(t, 0, sizeof *t);
	t->thread = pthread_self();
	t->tid = gettid();
	t->passes = is_own;
	pthread_mutex_lock(&gate.lock);
	t->next = gate.first;
	gate.first = t;
	if (owner->admitted)
		owner->admitted(t->thread);
	pthread_mutex_unlock(&gate.lock);
	pthread_setspecific(gate.key, t);
	return gck_gate_self = t;
}

void gck_gate_own_thread(const struct gck_gate_owner *owner)
{
	is_own = true;
	if (gck_gate_self)
		gck_gate_self->passes = true;
	else
		gck_gate_thread_new(owner);
}

void gck_gate_each_thread(void (*visit)(pthread_t thread))
{
	pthread_mutex_lock(&gate.lock);
	for (struct gck_gate_thread *t = gate.first; t; t = t->next)
		visit(t->thread);
	pthread_mutex_unlock(&gate.lock);
}

void gck_gate_left(void)
{
	atomic_fetch_add(&gate.left, 1);
	futex_wake(&gate.left);
}

void gck_gate_wait(struct gck_gate_thread *t)
{
	while (!t->passes && atomic_load(&gck_gate_closed)) {
		atomic_store(&t->inside, 0);
		gck_gate_left();
		atomic_store(&t->waits, 1);
		while (atomic_load(&gck_gate_closed))
			futex_wait(&gck_gate_closed, 1, NULL);
		atomic_store(&t->waits, 0);
		atomic_store(&t->inside, 1); /* then checks again: the gate may be closed again */
	}
}

/* Issues a fence in each thread. A restored process is a new one to the kernel, so it must register
 * again. */
static int fence_all(void)
{
	if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		return 0;
	if (errno == EPERM && !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
	    !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		return 0;
	return membarrier(MEMBARRIER_CMD_GLOBAL);
}

void gck_gate_close(void)
{
	atomic_store(&gck_gate_closed, 1);
	if (fence_all()) {
		/* no membarrier (a seccomp filter): stores become visible within this time */
		struct timespec delay = {0, 1000000};

		atomic_thread_fence(memory_order_seq_cst);
		nanosleep(&delay, NULL);
	}
}

void gck_gate_open(void)
{
	atomic_store(&gck_gate_closed, 0);
	futex_wake(&gck_gate_closed);
}

/* A thread of the program that is inside; NULL: none. The caller holds the list's lock. */
static struct gck_gate_thread *find_inside(void)
{
	struct gck_gate_thread *t = gate.first;

	while (t && (t->passes || !atomic_load_explicit(&t->inside, memory_order_acquire)))
		t = t->next;
	return t;
}

bool gck_gate_empty(void)
{
	bool empty;

	pthread_mutex_lock(&gate.lock);
	empty = atomic_load(&gck_gate_closed) && !find_inside();
	pthread_mutex_unlock(&gate.lock);
	return empty;
}

bool gck_gate_waited(void)
{
	struct gck_gate_thread *t;

	pthread_mutex_lock(&gate.lock);
	for (t = gate.first; t && !atomic_load(&t->waits); t = t->next)
		;
	pthread_mutex_unlock(&gate.lock);
	return t != NULL;
}

bool gck_gate_wait_empty(int ms)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += ms / 1000;
	end.tv_nsec += ms % 1000 * 1000000L;
	for (;;) {
		uint32_t left = atomic_load(&gate.left);
		struct timespec rest;

		if (gck_gate_empty())
			return true;
		clock_gettime(CLOCK_MONOTONIC, &now);
		rest.tv_sec = end.tv_sec - now.tv_sec;
		rest.tv_nsec = end.tv_nsec - now.tv_nsec;
		while (rest.tv_nsec < 0) {
			rest.tv_nsec += 1000000000;
			rest.tv_sec--;
		}
		while (rest.tv_nsec >= 1000000000) {
			rest.tv_nsec -= 1000000000;
			rest.tv_sec++;
		}
		if (rest.tv_sec < 0)
			return false;
		futex_wait(&gate.left, left, &rest);
	}
}

bool gck_gate_where(struct gck_gate_place *place)
{
	struct gck_gate_thread *t;

	pthread_mutex_lock(&gate.lock);
	t = find_inside();
	if (t) {
		*place = (struct gck_gate_place){.function = t->function ? t->function : "",
						 .object = t->object, .tid = t->tid};
		pthread_getname_np(t->thread, place->name, sizeof place->name);
	}
	pthread_mutex_unlock(&gate.lock);
	return t != NULL;
}

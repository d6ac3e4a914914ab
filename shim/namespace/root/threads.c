/* SPDX-License-Identifier: Apache-2.0
 * The list of the copy's threads. For libc each is joinable and has a stack from libc, whatever the
 * library asked for, so that a dead one can be joined and its control block is in the image.
 * Detached threads are reaped here. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/namespace/root/blocks.h"
#include "shim/namespace/root/lock.h"

#define MAX_THREADS 1024

static struct gck_ns_root_thread threads[MAX_THREADS];
static int32_t tids[MAX_THREADS];
static struct gck_ns_lock lock;

void gck_ns_threads_start(void)
{
	gck_ns_root.threads = threads;
	gck_ns_root.nthreads = MAX_THREADS;
	gck_ns_owned()->threads = (uintptr_t)tids;
	gck_ns_owned()->nthreads = MAX_THREADS;
}

static uint32_t life_of(struct gck_ns_root_thread *t)
{
	return __atomic_load_n(&t->life, __ATOMIC_ACQUIRE);
}

static void set_life(struct gck_ns_root_thread *t, enum gck_ns_root_life life)
{
	__atomic_store_n(&t->life, life, __ATOMIC_RELEASE);
	gck_ns_wake(&t->life);
}

static uint32_t birth_of(struct gck_ns_root_thread *t)
{
	return __atomic_load_n(&t->birth, __ATOMIC_ACQUIRE);
}

static void set_birth(struct gck_ns_root_thread *t, enum gck_ns_root_birth birth)
{
	__atomic_store_n(&t->birth, birth, __ATOMIC_RELEASE);
	gck_ns_wake(&t->birth);
}

static int32_t *tid_of(struct gck_ns_root_thread *t)
{
	return &tids[t - threads];
}

static struct gck_ns_root_thread *take(void)
{
	struct gck_ns_root_thread *t = NULL;

	gck_ns_lock(&lock);
	for (int i = 0; i < MAX_THREADS && !t; i++) {
		if (life_of(&threads[i]) != GCK_NS_ROOT_FREE)
			continue;
		t = &threads[i];
		memset(t, 0, sizeof *t);
		t->life = GCK_NS_ROOT_ALIVE;
	}
	gck_ns_unlock(&lock);
	return t;
}

static void free_entry(struct gck_ns_root_thread *t)
{
	__atomic_store_n(tid_of(t), 0, __ATOMIC_RELEASE);
	t->self = 0;
	set_life(t, GCK_NS_ROOT_FREE);
}

/* ---- a thread's memory ---------------------------------------------------------------------- */

static __thread bool is_own;

/* The end of the copy's own threads is seen here; the outside reports that of others. */
void gck_ns_thread_note(void)
{
	if (!is_own)
		gck_ns_root.host->note_thread();
}

void gck_ns_thread_ends(void)
{
	gck_ns_keys_end();
	gck_ns_blocks_end();
}

/* ---- the thread itself ---------------------------------------------------------------------- */

/* Marks the thread as ended. The rest of its end is in libc and the kernel; hold waits for it. */
static void thread_ended(void *p)
{
	gck_ns_thread_ends();
	gck_ns_enter();
	gck_ns_root.host->thread_gone(pthread_self());
	set_life(p, GCK_NS_ROOT_ENDED);
	gck_ns_leave();
}

static void *run(void *p)
{
	struct gck_ns_root_thread *t = p;
	void *result;

	is_own = true;
	t->self = pthread_self();
	__atomic_store_n(tid_of(t), gck_raw(SYS_gettid), __ATOMIC_RELEASE);
	if (gck_ns_root.host->has_tid(*tid_of(t))) {
		set_birth(t, GCK_NS_ROOT_UNFIT);
		while (birth_of(t) == GCK_NS_ROOT_UNFIT)
			gck_ns_wait(&t->birth, GCK_NS_ROOT_UNFIT, NULL);
		return NULL;
	}
	set_birth(t, GCK_NS_ROOT_BORN);
	gck_ns_root.host->thread_begins();
	pthread_cleanup_push(thread_ended, t);
	result = t->function(t->arg);
	pthread_cleanup_pop(1);
	return result;
}

/* ---- the end of a thread -------------------------------------------------------------------- */

static bool is_gone(struct gck_ns_root_thread *t)
{
	return gck_raw(SYS_tgkill, gck_raw(SYS_getpid), *tid_of(t), 0) == -ESRCH;
}

static int join(struct gck_ns_root_thread *t, void **result)
{
	int r = GCK_NS_NEXT(pthread_join)(t->self, result);

	if (r == 0)
		free_entry(t);
	return r;
}

static bool is_detached(struct gck_ns_root_thread *t)
{
	return __atomic_load_n(&t->detached, __ATOMIC_ACQUIRE);
}

/* True for the one caller that may join the thread. */
static bool claim(struct gck_ns_root_thread *t)
{
	uint32_t nobody = 0;

	return __atomic_compare_exchange_n(&t->joined, &nobody, 1, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

/* Joins detached threads that have ended. */
static void reap(void)
{
	for (int i = 0; i < MAX_THREADS; i++) {
		struct gck_ns_root_thread *t = &threads[i];

		if (life_of(t) == GCK_NS_ROOT_ENDED && is_detached(t) && claim(t))
			join(t, NULL);
	}
}

int gck_ns_threads_settle(int ms)
{
	for (int i = 0; i < MAX_THREADS; i++) {
		if (life_of(&threads[i]) != GCK_NS_ROOT_ENDED)
			continue;
		for (int waited = 0; tids[i] && !is_gone(&threads[i]); waited++) {
			if (waited > ms * 10)
				return -1;
			usleep(100);
		}
		__atomic_store_n(&tids[i], 0, __ATOMIC_RELEASE);
	}
	return 0;
}

/* ---- libc's functions ----------------------------------------------------------------------- */

static bool has_own_stack(const pthread_attr_t *attr)
{
	size_t size;
	void *stack;

	return pthread_attr_getstack(attr, &stack, &size) == 0 && (uintptr_t)stack + size;
}

/* Makes attributes as the library asked, but joinable and with a stack from libc. They share memory
 * with `asked`, so they are not destroyed. */
static void attributes(const pthread_attr_t *asked, pthread_attr_t *own, uint32_t *detached)
{
	size_t size;
	int state;

	pthread_attr_init(own);
	if (!asked)
		return;
	if (!has_own_stack(asked))
		*own = *asked;
	else if (pthread_attr_getstacksize(asked, &size) == 0)
		pthread_attr_setstacksize(own, size);
	pthread_attr_getdetachstate(asked, &state);
	*detached = state == PTHREAD_CREATE_DETACHED;
	pthread_attr_setdetachstate(own, PTHREAD_CREATE_JOINABLE);
}

/* In a restored process the kernel may give a new thread the TID by which libc's mutexes know a
 * restored thread. Such a thread keeps its TID until another with a different TID is made. */
static int create(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *),
		  void *arg)
{
	struct gck_ns_root_thread *t = take();
	pthread_attr_t own;
	int r;

	if (!t)
		return EAGAIN;
	t->function = function;
	t->arg = arg;
	attributes(attr, &own, &t->detached);
	r = GCK_NS_NEXT(pthread_create)(thread, &own, run, t);
	if (r) {
		free_entry(t);
		return r;
	}
	while (birth_of(t) == GCK_NS_ROOT_UNBORN)
		gck_ns_wait(&t->birth, GCK_NS_ROOT_UNBORN, NULL);
	if (birth_of(t) == GCK_NS_ROOT_UNFIT) {
		r = create(thread, attr, function, arg);
		set_birth(t, GCK_NS_ROOT_DISMISSED);
		join(t, NULL);
	}
	return r;
}

GCK_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			      void *(*function)(void *), void *arg)
{
	int r;

	gck_ns_enter();
	reap();
	r = create(thread, attr, function, arg);
	gck_ns_leave();
	return r;
}

static struct gck_ns_root_thread *find(pthread_t thread)
{
	for (int i = 0; i < MAX_THREADS; i++) {
		if (life_of(&threads[i]) != GCK_NS_ROOT_FREE && threads[i].self == thread)
			return &threads[i];
	}
	return NULL;
}

GCK_EXPORT int pthread_detach(pthread_t thread)
{
	struct gck_ns_root_thread *t = find(thread);

	if (!t)
		return GCK_NS_NEXT(pthread_detach)(thread);
	if (__atomic_exchange_n(&t->detached, 1, __ATOMIC_ACQ_REL))
		return EINVAL;
	return 0;
}

/* Calls libc's join only after the thread has ended: a thread of the copy that waits in libc's join
 * when a restart ends it would leave a mark in the other's control block. */
static int wait_and_join(pthread_t thread, void **result, clockid_t clock,
			 const struct timespec *end)
{
	struct gck_ns_root_thread *t = find(thread);
	int r;

	if (!t)
		return ESRCH;
	if (thread == pthread_self())
		return EDEADLK;
	if (is_detached(t) || !claim(t))
		return EINVAL;
	while (life_of(t) == GCK_NS_ROOT_ALIVE) {
		int op = FUTEX_WAIT_BITSET_PRIVATE;

		if (clock == CLOCK_REALTIME)
			op |= FUTEX_CLOCK_REALTIME;
		if (gck_raw(SYS_futex, &t->life, op, GCK_NS_ROOT_ALIVE, end, NULL,
			    FUTEX_BITSET_MATCH_ANY) == -ETIMEDOUT) {
			__atomic_store_n(&t->joined, 0, __ATOMIC_RELEASE);
			return ETIMEDOUT;
		}
	}
	gck_ns_enter();
	r = join(t, result);
	gck_ns_leave();
	return r;
}

GCK_EXPORT int pthread_join(pthread_t thread, void **result)
{
	return wait_and_join(thread, result, CLOCK_MONOTONIC, NULL);
}

GCK_EXPORT int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock,
				    const struct timespec *end)
{
	return wait_and_join(thread, result, clock, end);
}

GCK_EXPORT int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *end)
{
	return wait_and_join(thread, result, CLOCK_REALTIME, end);
}

GCK_EXPORT int pthread_tryjoin_np(pthread_t thread, void **result)
{
	static const struct timespec past;
	int r = wait_and_join(thread, result, CLOCK_MONOTONIC, &past);

	return r == ETIMEDOUT ? EBUSY : r;
}

/* SPDX-License-Identifier: Apache-2.0
 * Thread-specific data. Each libc numbers the keys in its own table but stores the values in the
 * thread's control block, so two libcs would mix up their values. The namespace's values are stored
 * here instead. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <pthread.h>
#include <stdlib.h>
#include <threads.h>

#include "shim/namespace/root/lock.h"

#define MAX_KEYS 1024

struct value {
	uint32_t seq; /* the key's when the value was set */
	void *data;
};

static struct key {
	uint32_t seq; /* odd: in use */
	void (*destructor)(void *);
} keys[MAX_KEYS];

static struct gck_ns_lock lock;
static __thread struct value *values; /* [MAX_KEYS]; NULL: none was set */

static bool is_used(uint32_t seq)
{
	return seq & 1;
}

GCK_EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	int r = EAGAIN;

	gck_ns_lock(&lock);
	for (int i = 0; i < MAX_KEYS && r; i++) {
		if (is_used(keys[i].seq))
			continue;
		keys[i].destructor = destructor;
		__atomic_add_fetch(&keys[i].seq, 1, __ATOMIC_RELEASE);
		*key = i;
		r = 0;
	}
	gck_ns_unlock(&lock);
	return r;
}

/* libgcc and libstdc++ look this name up to learn whether the program has threads. */
GCK_EXPORT int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *));

int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	return pthread_key_create(key, destructor);
}

GCK_EXPORT int pthread_key_delete(pthread_key_t key)
{
	int r = EINVAL;

	gck_ns_lock(&lock);
	if (key < MAX_KEYS && is_used(keys[key].seq)) {
		__atomic_add_fetch(&keys[key].seq, 1, __ATOMIC_RELEASE);
		r = 0;
	}
	gck_ns_unlock(&lock);
	return r;
}

static uint32_t seq_of(pthread_key_t key)
{
	return __atomic_load_n(&keys[key].seq, __ATOMIC_ACQUIRE);
}

GCK_EXPORT void *pthread_getspecific(pthread_key_t key)
{
	if (key >= MAX_KEYS || !values || values[key].seq != seq_of(key))
		return NULL;
	return values[key].data;
}

GCK_EXPORT int pthread_setspecific(pthread_key_t key, const void *data)
{
	if (key >= MAX_KEYS || !is_used(seq_of(key)))
		return EINVAL;
	if (!values) {
		if (!data)
			return 0;
		values = calloc(MAX_KEYS, sizeof *values);
		if (!values)
			return ENOMEM;
		gck_ns_thread_note();
	}
	values[key] = (struct value){ .seq = seq_of(key), .data = (void *)data };
	return 0;
}

static bool destroy(int key)
{
	struct value v = values[key];

	values[key].data = NULL;
	if (!v.data || !is_used(v.seq) || v.seq != seq_of(key) || !keys[key].destructor)
		return false;
	keys[key].destructor(v.data);
	return true;
}

/* A destructor may set values again, so there are as many rounds as POSIX requires. */
void gck_ns_keys_end(void)
{
	bool any = true;

	for (int round = 0; values && any && round < PTHREAD_DESTRUCTOR_ITERATIONS; round++) {
		any = false;
		for (int key = 0; key < MAX_KEYS; key++)
			any |= destroy(key);
	}
	free(values);
	values = NULL;
}

/* ---- C11's names ---------------------------------------------------------------------------- */

GCK_EXPORT int tss_create(tss_t *key, tss_dtor_t destructor)
{
	return pthread_key_create(key, destructor) ? thrd_error : thrd_success;
}

GCK_EXPORT void tss_delete(tss_t key)
{
	pthread_key_delete(key);
}

GCK_EXPORT void *tss_get(tss_t key)
{
	return pthread_getspecific(key);
}

GCK_EXPORT int tss_set(tss_t key, void *data)
{
	return pthread_setspecific(key, data) ? thrd_error : thrd_success;
}

/* SPDX-License-Identifier: Apache-2.0
 * Alternate signal stacks cannot be read from outside a thread, so sigaltstack is interposed and
 * the state records them by thread. An entry is written before the system call: a thread that is
 * captured in between repeats the call when it is restored. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

static pthread_key_t key;

static struct gck_shim_altstack *find(uint64_t fs_base)
{
	for (uint32_t i = 0; i < gck_state.naltstacks; i++) {
		if (gck_state.altstacks[i].fs_base == fs_base)
			return &gck_state.altstacks[i];
	}
	return NULL;
}

static struct gck_shim_altstack *claim(uint64_t fs_base)
{
	for (uint32_t i = 0; i < GCK_SHIM_MAX_TIDS; i++) {
		struct gck_shim_altstack *a = &gck_state.altstacks[i];
		uint32_t n = __atomic_load_n(&gck_state.naltstacks, __ATOMIC_RELAXED);
		uint64_t none = 0;

		if (!__atomic_compare_exchange_n(&a->fs_base, &none, fs_base, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		while (n <= i && !__atomic_compare_exchange_n(&gck_state.naltstacks, &n, i + 1,
							      false, __ATOMIC_ACQ_REL,
							      __ATOMIC_RELAXED))
			;
		return a;
	}
	gck_state.overflow = 1;
	return NULL;
}

static void set(struct gck_shim_altstack *a, const stack_t *ss)
{
	a->sp = (uint64_t)ss->ss_sp;
	a->size = ss->ss_size;
	a->flags = ss->ss_flags;
}

static void forget(void *entry)
{
	struct gck_shim_altstack *a = entry;

	a->sp = a->size = 0;
	a->flags = SS_DISABLE;
	__atomic_store_n(&a->fs_base, 0, __ATOMIC_RELEASE);
}

void gck_altstack_begin(void)
{
	if (pthread_key_create(&key, forget))
		gck_state.overflow = 1;
}

/* The calling thread's entry; makes it if there is none. The key's destructor frees it. */
static struct gck_shim_altstack *own(void)
{
	uint64_t fs_base = (uint64_t)pthread_self();
	struct gck_shim_altstack *a = find(fs_base);

	if (!a && (a = claim(fs_base))) {
		a->flags = SS_DISABLE;
		pthread_setspecific(key, a);
	}
	return a;
}

GCK_EXPORT int sigaltstack(const stack_t *ss, stack_t *old)
{
	struct gck_shim_altstack *a = NULL, before;
	long r;

	if (ss && gck_state.helper_tid && gck_is_rank() && (a = own())) {
		before = *a;
		set(a, ss);
	}
	r = gck_raw(SYS_sigaltstack, ss, old);
	if (r < 0 && a)
		*a = before;
	return gck_result(r);
}

/* SPDX-License-Identifier: Apache-2.0
 * The functions of libc, or of a library before it, that the interposed ones call. */
#include "config.h"

#include <dlfcn.h>
#include <stdbool.h>

#include "shim/preload/pid/pid.h"

static struct gck_real real GCK_AT_START;
static bool resolved GCK_AT_START;

/* The section of all struct gck_next, which the linker names. */
extern struct gck_next __start_gck_next_table[] __attribute__((visibility("hidden")));
extern struct gck_next __stop_gck_next_table[] __attribute__((visibility("hidden")));

#define FIND(name) (*(void **)&real.name = dlsym(RTLD_NEXT, #name))

void gck_real_resolve(void)
{
	FIND(pthread_create);
	FIND(pthread_kill);
	FIND(pthread_sigqueue);
	FIND(pthread_cancel);
	FIND(pthread_setaffinity_np);
	FIND(pthread_getaffinity_np);
	FIND(pthread_setschedparam);
	FIND(pthread_getschedparam);
	FIND(pthread_setschedprio);
	FIND(pthread_setname_np);
	FIND(pthread_getname_np);
	FIND(pthread_getcpuclockid);
	FIND(pthread_getattr_np);
	FIND(clock_getcpuclockid);
	FIND(timer_create);
	FIND(waitid);
	FIND(pclose);
	FIND(fork);
	FIND(_Fork);
	*(void **)&real.fcntl = dlsym(RTLD_NEXT, "fcntl64");
	for (struct gck_next *n = __start_gck_next_table; n < __stop_gck_next_table; n++)
		__atomic_store_n(&n->function, dlsym(RTLD_NEXT, n->name), __ATOMIC_RELEASE);
	__atomic_store_n(&resolved, true, __ATOMIC_RELEASE);
}

const struct gck_real *gck_real(void)
{
	if (__builtin_expect(!__atomic_load_n(&resolved, __ATOMIC_ACQUIRE), 0))
		gck_real_resolve();
	return &real;
}

void *gck_next(struct gck_next *n)
{
	void *function = __atomic_load_n(&n->function, __ATOMIC_ACQUIRE);

	if (__builtin_expect(!function, 0)) {
		gck_real_resolve();
		function = n->function;
	}
	return function;
}

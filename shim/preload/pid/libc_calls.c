/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/preload/pid/libc_calls.h"

#include <dlfcn.h>
#include <stdbool.h>

static struct gck_real real;
static bool resolved;

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
	*(void **)&real.fcntl = dlsym(RTLD_NEXT, "fcntl64");
	__atomic_store_n(&resolved, true, __ATOMIC_RELEASE);
}

const struct gck_real *gck_real(void)
{
	if (__builtin_expect(!__atomic_load_n(&resolved, __ATOMIC_ACQUIRE), 0))
		gck_real_resolve();
	return &real;
}

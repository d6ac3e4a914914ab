/* SPDX-License-Identifier: Apache-2.0
 * Libraries set handlers for signals that the program does not handle (Open MPI at SIGSEGV, for a
 * stack trace). They must be gone when the copy's code is unmapped. Uses raw system calls because
 * libc hides the restorer and its two internal signals, which the namespace's libc may use. */
#include "config.h"

#include <dlfcn.h>
#include <string.h>

#include "shim/namespace/namespace.h"
#include "shim/preload/helper/raw.h"

#define SIGNALS 64

struct action { /* the kernel's */
	uintptr_t handler;
	unsigned long flags;
	uintptr_t restorer;
	uint64_t mask;
};

static struct action before[SIGNALS + 1];

void gck_ns_signals_note(void)
{
	for (int sig = 1; sig <= SIGNALS; sig++)
		gck_raw(SYS_rt_sigaction, sig, NULL, &before[sig], sizeof(uint64_t));
}

static bool is_in(const struct link_map *objects, uintptr_t address)
{
	Dl_info info;
	struct link_map *of;

	if (address < 4096 || !dladdr1((void *)address, &info, (void **)&of, RTLD_DL_LINKMAP))
		return false;
	for (; objects; objects = objects->l_next) {
		if (objects == of)
			return !gck_namespace_is_loader(of);
	}
	return false;
}

void gck_ns_signals_put_back(const struct link_map *objects)
{
	struct action now;

	for (int sig = 1; sig <= SIGNALS; sig++) {
		if (gck_raw(SYS_rt_sigaction, sig, NULL, &now, sizeof now.mask) == 0 &&
		    (is_in(objects, now.handler) || is_in(objects, now.restorer)))
			gck_raw(SYS_rt_sigaction, sig, &before[sig], NULL, sizeof now.mask);
	}
}

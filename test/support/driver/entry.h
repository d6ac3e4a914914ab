/* SPDX-License-Identifier: Apache-2.0
 * The entry and exit of each of the fake driver's functions (entries.c is generated). */
#ifndef FAKE_ENTRY_H
#define FAKE_ENTRY_H

#include <stdbool.h>

#include "shim/cuda/base/cuda_api.h"

#define FAKE_SHOWN __attribute__((visibility("default")))

/* false: the call must fail with fake_injected(). Waits while the process is locked for a
 * checkpoint, as every call of the driver does except those that work on the lock. */
bool fake_enter(const char *name, bool per_thread);
CUresult fake_leave(CUresult rc);
CUresult fake_injected(void);

struct fake_function {
	const char *name;
	void *at;
	int since;
};

extern const struct fake_function fake_functions[]; /* NULL name at the end */

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Memory that the program names in a call. A pointer that is none gives EFAULT from the kernel, so
 * whoever looks at it before must not read it. */
#include "config.h"

#include <stdint.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

#define PAGE 4096ul
#define NO_COMMAND (-1) /* which the kernel finds out after it has read the set of signals */

static bool can_read(uintptr_t word)
{
	return gck_raw(SYS_rt_sigprocmask, NO_COMMAND, word, 0, sizeof(uint64_t)) == -EINVAL;
}

bool gck_is_memory(const void *at, size_t n)
{
	const uintptr_t page = (uintptr_t)at & -PAGE, last = (uintptr_t)at + n - 1;

	if (!page || last < page)
		return false;
	for (uintptr_t i = 0; i <= last - page; i += PAGE)
		if (!can_read(page + i))
			return false;
	return true;
}

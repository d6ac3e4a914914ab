/* SPDX-License-Identifier: Apache-2.0
 * Programs built with -fsanitize=address end if another library precedes their runtime, as this one
 * does. The runtime asks this function for defaults; ASAN_OPTIONS and a program's own function
 * precede it. The functions that both interpose call each other in turn. */
#include "config.h"

#include "shim/preload/preload.h"

__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}

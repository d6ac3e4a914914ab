/* SPDX-License-Identifier: Apache-2.0
 * Which file the program would have got for a library, had it not got the stand-in. */
#ifndef GCK_INSIDE_LIBRARY_H
#define GCK_INSIDE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

struct gck_inside_library {
	const char *soname;
	const char *prefix;   /* of the names that objects which need it may need it by */
	const char *variable; /* of the environment, names the file instead */
};

/* Its path; its bare name where only the loader's cache and default folders are left. -1: the
 * variable names no such library. */
int gck_inside_find(const struct gck_inside_library *l, char *path, size_t size,
		    struct gck_error *err);

/* The path of this library's own file; whether path is that file. */
const char *gck_inside_own_file(void);
bool gck_inside_is_own(const char *path);

#endif

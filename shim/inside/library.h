/* SPDX-License-Identifier: Apache-2.0
 * The file that the program would load for a library if there were no stand-in. */
#ifndef GCK_INSIDE_LIBRARY_H
#define GCK_INSIDE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

struct gck_inside_library {
	const char *soname;
	const char *prefix;   /* of the names by which objects may need it */
	const char *variable; /* an environment variable that gives the file */
};

/* Finds the path of the library; its bare name means the loader's cache and default folders. -1:
 * the variable does not give such a library. */
GCK_MUST_CHECK int gck_inside_find(const struct gck_inside_library *l, char *path, size_t size,
				   struct gck_error *err);

/* The path of this library's own file; true if path is that file. */
const char *gck_inside_own_file(void);
bool gck_inside_is_own(const char *path);

#endif

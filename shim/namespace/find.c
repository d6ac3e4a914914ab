/* SPDX-License-Identifier: Apache-2.0
 * Finds the real MPI library and gpuckpt's own files. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "shim/inside/library.h"
#include "shim/namespace/namespace.h"

int gck_mpi_ns_find(char *path, size_t size, struct gck_error *err)
{
	static const struct gck_inside_library library = {
		.soname = GCK_MPI_LIBRARY, .prefix = "libmpi", .variable = "GPUCKPT_MPI_LIBRARY",
	};

	return gck_inside_find(&library, path, size, err);
}

bool gck_mpi_ns_is_own(const char *path)
{
	return gck_inside_is_own(path);
}

int gck_mpi_ns_beside(const char *file, char *path, size_t size, struct gck_error *err)
{
	const char *own = gck_inside_own_file(), *slash = strrchr(own, '/');
	int n = snprintf(path, size, "%.*s/%s", slash ? (int)(slash - own) : 1, slash ? own : ".",
			 file);

	if (n < 0 || (size_t)n >= size)
		return gck_fail(err, ENAMETOOLONG, "the path of %s is too long", own);
	return 0;
}

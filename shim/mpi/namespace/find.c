/* SPDX-License-Identifier: Apache-2.0
 * Which file the program would have got for libmpi.so.40, had it not got this library: the loader's
 * own order, for the main program and every object that needs it. */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/mpi/namespace/inside.h"
#include "shim/mpi/namespace/path.h"

static const char *own_file(void)
{
	Dl_info info;

	return dladdr((void *)(uintptr_t)gck_mpi_ns_find, &info) ? info.dli_fname : "";
}

bool gck_mpi_ns_is_own(const char *path)
{
	struct stat own, st;

	return stat(own_file(), &own) == 0 && stat(path, &st) == 0 && st.st_dev == own.st_dev &&
	       st.st_ino == own.st_ino;
}

static bool is_other(const char *path)
{
	return !gck_mpi_ns_is_own(path);
}

static bool needs_mpi(const struct link_map *map)
{
	const char *library;

	for (size_t i = 0; (library = gck_mpi_path_needed(map, i)); i++) {
		if (!strncmp(library, "libmpi", 6))
			return true;
	}
	return false;
}

/* The main program comes first in the list, and its DT_RPATH counts for every object. */
static int search_objects(enum gck_mpi_path_kind kind, char *path, size_t size)
{
	struct link_map *first;
	void *self = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
	int r = -1;

	if (!self || dlinfo(self, RTLD_DI_LINKMAP, &first) < 0)
		return -1;
	for (struct link_map *map = first; map && r < 0; map = map->l_next) {
		if (map == first || needs_mpi(map))
			r = gck_mpi_path_search(map, gck_mpi_path_text(map, kind), GCK_MPI_LIBRARY,
						path, size, is_other);
	}
	dlclose(self);
	return r;
}

static int take_named(const char *name, char *path, size_t size, struct gck_error *err)
{
	if (access(name, R_OK) < 0)
		return gck_fail(err, errno, "GPUCKPT_MPI_LIBRARY names %s: %s: set it to the path "
				"of Open MPI's " GCK_MPI_LIBRARY " or unset it", name,
				strerror(errno));
	if (gck_mpi_ns_is_own(name))
		return gck_fail(err, EINVAL, "GPUCKPT_MPI_LIBRARY names %s, which is gpuckpt's own "
				"library: set it to the path of Open MPI's " GCK_MPI_LIBRARY, name);
	if (!strchr(name, '/') || strlen(name) >= size)
		return gck_fail(err, EINVAL, "GPUCKPT_MPI_LIBRARY is \"%s\": an absolute path is "
				"needed", name);
	strcpy(path, name);
	return 0;
}

int gck_mpi_ns_find(char *path, size_t size, struct gck_error *err)
{
	const char *named = getenv("GPUCKPT_MPI_LIBRARY");

	if (named && *named)
		return take_named(named, path, size, err);
	if (search_objects(GCK_MPI_RPATH, path, size) == 0 ||
	    gck_mpi_path_search(NULL, getenv("LD_LIBRARY_PATH"), GCK_MPI_LIBRARY, path, size,
				is_other) == 0 ||
	    search_objects(GCK_MPI_RUNPATH, path, size) == 0)
		return 0;
	strcpy(path, GCK_MPI_LIBRARY);
	return 0;
}

int gck_mpi_ns_beside(const char *file, char *path, size_t size, struct gck_error *err)
{
	const char *own = own_file(), *slash = strrchr(own, '/');
	int n = snprintf(path, size, "%.*s/%s", slash ? (int)(slash - own) : 1, slash ? own : ".",
			 file);

	if (n < 0 || (size_t)n >= size)
		return gck_fail(err, ENAMETOOLONG, "the path of %s is too long", own);
	return 0;
}

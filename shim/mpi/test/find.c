/* SPDX-License-Identifier: Apache-2.0
 * The search for the real library. */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/support/tap.h"
#include "shim/mpi/base/library.h"
#include "shim/inside/path.h"

static struct gck_error err;
static char folder[] = "/tmp/gck-find-XXXXXX", library[64], found[PATH_MAX];

static void point_at(const char *file)
{
	unlink(library);
	if (symlink(file, library) < 0)
		perror(library);
}

static const char *find(void)
{
	return gck_mpi_library.find(found, sizeof found, &err) < 0 ? err.text : found;
}

static void test_places(void)
{
	is_str(find(), "libmpi.so.40", "without a path the loader finds it");
	setenv("LD_LIBRARY_PATH", "/nowhere::relative", 1);
	is_str(find(), "libmpi.so.40", "a path without it is skipped");
	setenv("LD_LIBRARY_PATH", folder, 1);
	point_at("/lib/x86_64-linux-gnu/libmpi.so.40");
	is_str(find(), library, "LD_LIBRARY_PATH is searched");
	point_at("/proc/self/exe");
	is_str(find(), "libmpi.so.40", "this library itself is skipped");
	unsetenv("LD_LIBRARY_PATH");
}

static void test_named(void)
{
	setenv("GPUCKPT_MPI_LIBRARY", library, 1);
	point_at("/dev/null");
	is_str(find(), library, "GPUCKPT_MPI_LIBRARY gives the file");
	point_at("/proc/self/exe");
	ok(gck_mpi_library.find(found, sizeof found, &err) < 0,
	   "GPUCKPT_MPI_LIBRARY may not be this library: %s",
	   err.text);
	unlink(library);
	ok(gck_mpi_library.find(found, sizeof found, &err) < 0,
	   "GPUCKPT_MPI_LIBRARY must exist: %s", err.text);
	unsetenv("GPUCKPT_MPI_LIBRARY");
}

static void test_runpath(void)
{
	struct link_map *map;
	char own[PATH_MAX];
	void *self = dlopen(NULL, RTLD_LAZY);
	ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
	const char *name;

	own[n < 0 ? 0 : n] = '\0';
	name = strrchr(own, '/') + 1;
	dlinfo(self, RTLD_DI_LINKMAP, &map);
	ok(!gck_path_search(map, "/nowhere:$ORIGIN", name, found, sizeof found, NULL),
	   "$ORIGIN");
	is_str(found, own, "$ORIGIN is the object's folder");
	ok(!gck_path_search(map, "${ORIGIN}/.", name, found, sizeof found, NULL),
	   "${ORIGIN} is replaced");
	ok(gck_path_search(map, "$LIB:$ORIGIN", "nothing", found, sizeof found, NULL) < 0,
	   "an element with another token is skipped");
	ok(gck_path_search(map, "$ORIGIN", name, found, 3, NULL) < 0,
	   "a name that does not fit is not found");
}

int main(void)
{
	unsetenv("LD_LIBRARY_PATH");
	unsetenv("GPUCKPT_MPI_LIBRARY");
	if (!mkdtemp(folder))
		return 1;
	snprintf(library, sizeof library, "%s/libmpi.so.40", folder);
	test_places();
	test_named();
	test_runpath();
	rmdir(folder);
	return tap_done();
}

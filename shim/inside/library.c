/* SPDX-License-Identifier: Apache-2.0
 * Searches in the order of the loader, for the main program and each object that needs the
 * library. */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/inside/library.h"
#include "shim/inside/path.h"

const char *gck_inside_own_file(void)
{
	Dl_info info;

	return dladdr((void *)(uintptr_t)gck_inside_find, &info) ? info.dli_fname : "";
}

bool gck_inside_is_own(const char *path)
{
	struct stat own, st;

	return stat(gck_inside_own_file(), &own) == 0 && stat(path, &st) == 0 &&
	       st.st_dev == own.st_dev && st.st_ino == own.st_ino;
}

static bool is_other(const char *path)
{
	return !gck_inside_is_own(path);
}

static bool needs(const struct link_map *map, const char *prefix)
{
	const char *library;

	for (size_t i = 0; (library = gck_path_needed(map, i)); i++) {
		if (!strncmp(library, prefix, strlen(prefix)))
			return true;
	}
	return false;
}

/* The main program is first in the list; its DT_RPATH applies to each object. */
static int search_objects(const struct gck_inside_library *l, enum gck_path_kind kind, char *path,
			  size_t size)
{
	struct link_map *first;
	void *self = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
	int r = -1;

	if (!self || dlinfo(self, RTLD_DI_LINKMAP, &first) < 0)
		return -1;
	for (struct link_map *map = first; map && r < 0; map = map->l_next) {
		if (map == first || needs(map, l->prefix))
			r = gck_path_search(map, gck_path_text(map, kind), l->soname,
						path, size, is_other);
	}
	dlclose(self);
	return r;
}

static int take_named(const struct gck_inside_library *l, const char *name, char *path, size_t size,
		      struct gck_error *err)
{
	if (access(name, R_OK) < 0)
		return gck_fail(err, errno, "%s names %s: %s: set it to the path of the real %s or "
				"unset it", l->variable, name, strerror(errno), l->soname);
	if (gck_inside_is_own(name))
		return gck_fail(err, EINVAL,
				"%s names %s, which is gpuckpt's own library: set it to the path "
				"of the real %s",
				l->variable, name, l->soname);
	if (!strchr(name, '/') || strlen(name) >= size)
		return gck_fail(err, EINVAL, "%s is \"%s\": an absolute path is needed",
				l->variable, name);
	strcpy(path, name);
	return 0;
}

int gck_inside_find(const struct gck_inside_library *l, char *path, size_t size,
		    struct gck_error *err)
{
	const char *named = getenv(l->variable);

	if (named && *named)
		return take_named(l, named, path, size, err);
	if (search_objects(l, GCK_PATH_RPATH, path, size) == 0 ||
	    gck_path_search(NULL, getenv("LD_LIBRARY_PATH"), l->soname, path, size, is_other) ==
		    0 ||
	    search_objects(l, GCK_PATH_RUNPATH, path, size) == 0)
		return 0;
	strcpy(path, l->soname);
	return 0;
}

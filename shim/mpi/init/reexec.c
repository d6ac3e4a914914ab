/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/mpi/init/reexec.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/inside/path.h"
#include "shim/mpi/init/compatibility.h"
#include "shim/namespace/loader.h"

#define OURS "libgpuckpt-mpi"

static const char *file_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_ours(const struct link_map *map)
{
	return !strncmp(file_of(map->l_name), OURS, strlen(OURS));
}

/* ---- whose MPI the program uses -------------------------------------------------------------- */

static bool is_open_mpi(const char *library)
{
	const char *name = file_of(library), *end = strstr(name, ".so.40");

	return !strncmp(name, "libmpi", 6) && end && !end[6];
}

static bool needs_open_mpi(const struct link_map *map)
{
	const char *library;

	for (size_t i = 0; (library = gck_path_needed(map, i)); i++)
		if (is_open_mpi(library))
			return true;
	return false;
}

/* Does it define this function itself? */
static bool defines(const struct link_map *map, const char *function)
{
	void *handle = strchr(map->l_name, '/') ?
			       dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	void *found = handle ? dlsym(handle, function) : NULL;
	struct link_map *owner = NULL;
	Dl_info info;

	if (found && !dladdr1(found, &info, (void **)&owner, RTLD_DL_LINKMAP))
		owner = NULL;
	if (handle)
		dlclose(handle);
	return owner == map;
}

static bool has_mpi(const struct link_map *map)
{
	return defines(map, "PMPI_Init");
}

/* Wrappers alone. All tools have one of these, to know when to begin or what to report. */
static bool is_tool(const struct link_map *map)
{
	static const char *const wrapped[] = { "MPI_Init", "MPI_Init_thread", "MPI_Finalize",
					       "MPI_File_open", NULL };
	bool is = false;

	for (const char *const *w = wrapped; *w && !is; w++)
		is = defines(map, *w);
	return is && !has_mpi(map);
}

/* Would it come before libmpi without us? It was preloaded, or is needed first: the loader lists
 * objects in the order in which they are needed. */
static bool comes_first(const struct link_map *tool, const struct link_map *first)
{
	const char *preload = getenv("LD_PRELOAD"), *library;

	if (preload && strstr(preload, tool->l_name))
		return true;
	for (; first; first = first->l_next)
		for (size_t i = 0; (library = gck_path_needed(first, i)); i++) {
			if (!strcmp(file_of(library), GCK_MPI_LIBRARY))
				return false;
			if (!strcmp(file_of(library), file_of(tool->l_name)))
				return true;
		}
	return false;
}

/* The first of all objects, ours excepted, that is so. */
static const struct link_map *find(const struct link_map *from,
				   bool (*is)(const struct link_map *map))
{
	while (from && (is_ours(from) || !is(from)))
		from = from->l_next;
	return from;
}

/* ---- stepping aside -------------------------------------------------------------------------- */

/* Goes through LD_PRELOAD: what is ours is left out, or has `before` put in front of the first of it.
 * NULL: no memory, or nobody preloads us by this variable, so nobody would do so otherwise. */
static char *arrange(const char *before)
{
	const char *list = getenv("LD_PRELOAD");
	size_t room = (list ? strlen(list) : 0) + (before ? strlen(before) : 0) + 2;
	char *new = list ? calloc(1, room) : NULL, *to = new;
	bool found = false;

	while (new && *list) {
		size_t n = strcspn(list, ": ");
		const char *slash = memrchr(list, '/', n), *name = slash ? slash + 1 : list;
		bool ours = !strncmp(name, OURS, strlen(OURS));

		if (ours && before && !found)
			to += sprintf(to, "%s%s", to == new ? "" : ":", before);
		if (n && !(ours && !before))
			to += sprintf(to, "%s%.*s", to == new ? "" : ":", (int)n, list);
		found |= ours;
		list += n + (list[n] != '\0');
	}
	if (found)
		return new;
	errno = ENOENT;
	free(new);
	return NULL;
}

/* By its path, for its name is seen in ps. */
static void again(char **argv, const char *before)
{
	char path[PATH_MAX], *list = arrange(before);
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

	path[n < 0 ? 0 : n] = '\0';
	if (list && !(*list ? setenv("LD_PRELOAD", list, 1) : unsetenv("LD_PRELOAD")))
		execv(path, argv);
	free(list);
	fprintf(stderr, "gpuckpt: %s cannot be executed again with another LD_PRELOAD (%s): ", path,
		strerror(errno));
}

void gck_mpi_step_aside(char **argv, const char *why)
{
	if (why)
		setenv("GPUCKPT_MPI_ASIDE", why, 1);
	again(argv, NULL);
	fprintf(stderr, "it has an MPI library that gpuckpt does not stand in for: submit it with "
		"mpi=none\n");
}

static void step_behind(char **argv, const struct link_map *tool)
{
	again(argv, tool->l_name);
	fprintf(stderr, "%s wraps MPI functions, and does not see them\n", tool->l_name);
}

/* The first of those that come before us only if they are preloaded before us; NULL. */
static const struct link_map *find_tool(const struct link_map *first)
{
	const struct link_map *m = first;

	while (m && !is_ours(m))
		m = m->l_next;
	while ((m = find(m, is_tool)) && !comes_first(m, first))
		m = m->l_next;
	return m;
}

/* With mpi=auto a program whose MPI library is none for us runs as it would without us. */
static void leave_to_real(char **argv)
{
	const char *mode = getenv("GPUCKPT_MPI"), *named = getenv("GPUCKPT_MPI_LIBRARY");
	struct gck_error err = {0};

	if (!(mode && !strcmp(mode, "openmpi")) && !(named && *named) && gck_mpi_suits(&err))
		gck_mpi_step_aside(argv, err.text);
}

__attribute__((constructor)) static void look(int argc, char **argv)
{
	void *self = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
	const struct link_map *tool;
	struct link_map *first = NULL;

	(void)argc;
	if (!self || dlinfo(self, RTLD_DI_LINKMAP, &first))
		return;
	if (find(first, needs_open_mpi)) {
		tool = find_tool(first);
		leave_to_real(argv);
		if (tool)
			step_behind(argv, tool);
	} else if (find(first, has_mpi)) {
		gck_mpi_step_aside(argv, NULL);
	} else {
		gck_mpi_scope_withdraw(first, is_ours);
	}
}

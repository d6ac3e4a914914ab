/* SPDX-License-Identifier: Apache-2.0
 * The search path of the loader. It uses only libc, because it is also part of the root object of
 * shim/namespace. */
#include "config.h"

#include "shim/inside/path.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const ElfW(Dyn) *entry(const struct link_map *map, ElfW(Sxword) tag)
{
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == tag)
			return d;
	}
	return NULL;
}

const char *gck_path_text(const struct link_map *map, enum gck_path_kind kind)
{
	const ElfW(Dyn) *strings = entry(map, DT_STRTAB), *runpath = entry(map, DT_RUNPATH);
	const ElfW(Dyn) *d = runpath;

	if (kind == GCK_PATH_RPATH)
		d = runpath ? NULL : entry(map, DT_RPATH);
	if (!d || !strings)
		return NULL;
	return (const char *)strings->d_un.d_ptr + d->d_un.d_val;
}

const char *gck_path_needed(const struct link_map *map, size_t i)
{
	const ElfW(Dyn) *strings = entry(map, DT_STRTAB);

	for (const ElfW(Dyn) *d = map->l_ld; strings && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_NEEDED && i-- == 0)
			return (const char *)strings->d_un.d_ptr + d->d_un.d_val;
	}
	return NULL;
}

/* The folder of an object; the main program has no name. */
static int origin(const struct link_map *map, char *folder, size_t size)
{
	char *slash;

	if (!map)
		return -1;
	if (map->l_name[0]) {
		if (strlen(map->l_name) >= size)
			return -1;
		strcpy(folder, map->l_name);
	} else {
		ssize_t n = readlink("/proc/self/exe", folder, size - 1);

		if (n <= 0)
			return -1;
		folder[n] = '\0';
	}
	slash = strrchr(folder, '/');
	if (!slash)
		return -1;
	*slash = '\0';
	return 0;
}

/* Replaces $ORIGIN. An element with $LIB or $PLATFORM, which differ between distributions, is
 * skipped. */
static int expand(const struct link_map *map, const char *element, size_t n, char *to, size_t size)
{
	static const char *const names[] = { "$ORIGIN", "${ORIGIN}" };
	char folder[PATH_MAX];
	size_t used = 0;

	for (size_t i = 0; i < n;) {
		size_t skip = 0, add = 1;
		const char *from = element + i;

		for (size_t k = 0; k < 2; k++) {
			if (n - i >= strlen(names[k]) && !strncmp(from, names[k], strlen(names[k])))
				skip = strlen(names[k]);
		}
		if (skip) {
			if (origin(map, folder, sizeof folder) < 0)
				return -1;
			from = folder;
			add = strlen(folder);
		} else if (*from == '$') {
			return -1;
		}
		if (used + add >= size)
			return -1;
		memcpy(to + used, from, add);
		used += add;
		i += skip ? skip : 1;
	}
	to[used] = '\0';
	return 0;
}

int gck_path_search(const struct link_map *map, const char *list, const char *file, char *path,
			size_t size, gck_path_ok *ok)
{
	char folder[PATH_MAX], whole[PATH_MAX];

	for (const char *p = list; p && *p;) {
		size_t n = strcspn(p, ":");

		if (n && expand(map, p, n, folder, sizeof folder) == 0 &&
		    snprintf(whole, sizeof whole, "%s/%s", folder, file) < (int)sizeof whole &&
		    access(whole, R_OK) == 0 && (!ok || ok(whole)) && strlen(whole) < size) {
			strcpy(path, whole);
			return 0;
		}
		p += n;
		p += *p == ':';
	}
	return -1;
}

int gck_path_of(const struct link_map *map, const char *file, char *path, size_t size,
		    gck_path_ok *ok)
{
	for (int kind = GCK_PATH_RPATH; kind <= GCK_PATH_RUNPATH; kind++) {
		const char *list = gck_path_text(map, kind);

		if (gck_path_search(map, list, file, path, size, ok) == 0)
			return 0;
	}
	return -1;
}

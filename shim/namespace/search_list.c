/* SPDX-License-Identifier: Apache-2.0
 * Search lists of the loader.
 *
 * The loader looks up a symbol for an object in the search list of the namespace's first object,
 * then in that of the object that loaded it. The first object here is the root object, which cannot
 * need the library by name because the loader would choose the file. But plugins (Open MPI's)
 * expect to find the library's symbols without needing it. So the root object's list is extended
 * once the right file is loaded. The list is in the private part of struct link_map and is found by
 * its contents.
 *
 * In the program's own namespace, preloaded objects are taken out of the first object's list. */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/namespace/namespace.h"

#define SCAN_BYTES 1024 /* glibc 2.28 to 2.41 have it at 700 to 800 */
#define FIRST_OBJECTS 8
#define UNKNOWN_PLACE "this libc's loader keeps the search list of %s in an unknown place: the " \
	"%s cannot have a namespace; run with %s"

struct list { /* glibc's struct r_scope_elem */
	struct link_map **objects;
	unsigned int n;
};

static size_t offset;
static struct list original;
static struct list *extended;

static struct list *list_of(struct link_map *map)
{
	return (struct list *)(void *)((char *)map + offset);
}

static bool is_array_of(void *p, struct link_map **wanted, unsigned int n)
{
	struct link_map *found[FIRST_OBJECTS];

	return gck_namespace_try(p, found, n * sizeof *found) &&
	       !memcmp(found, wanted, n * sizeof *found);
}

/* The offset of a list of n objects that begins with firsts; 0: not found. */
static size_t find_list(struct link_map *map, unsigned int n, struct link_map **firsts,
			unsigned int nfirsts)
{
	size_t at;

	for (at = sizeof(struct link_map); at < SCAN_BYTES; at += sizeof(void *)) {
		const struct list *list = (const void *)((const char *)map + at);

		if (list->n == n && is_array_of(list->objects, firsts, nfirsts))
			return at;
	}
	return 0;
}

/* Finds the offset of the list. The root object needs libc and libc the loader, so its list has all
 * objects of the namespace. */
int gck_ns_scope_find(struct link_map *root, struct gck_error *err)
{
	struct link_map *all[FIRST_OBJECTS];
	unsigned int n = 0;

	for (struct link_map *m = root; m && n < FIRST_OBJECTS; m = m->l_next)
		all[n++] = m;
	offset = find_list(root, n, all, n);
	if (offset)
		return 0;
	return gck_fail(err, ENOTSUP, UNKNOWN_PLACE, root->l_name, gck_namespace.library->name,
			gck_namespace.library->without);
}

static bool has(struct link_map **objects, unsigned int n, const struct link_map *map)
{
	for (unsigned int i = 0; i < n; i++) {
		if (objects[i] == map)
			return true;
	}
	return false;
}

int gck_ns_scope_extend(struct link_map *root, struct link_map *library, struct gck_error *err)
{
	const struct list *more = list_of(library);
	struct list *list = list_of(root);
	struct link_map **objects;
	unsigned int n = list->n;

	if (!is_array_of(more->objects, &library, 1))
		return gck_fail(err, ENOTSUP, UNKNOWN_PLACE, library->l_name,
				gck_namespace.library->name, gck_namespace.library->without);
	objects = malloc((n + more->n) * sizeof(struct link_map *));
	if (!objects)
		return gck_fail(err, ENOMEM, "no memory for the search list of %s", root->l_name);
	memcpy(objects, list->objects, n * sizeof(struct link_map *));
	for (unsigned int i = 0; i < more->n; i++) {
		if (!has(objects, n, more->objects[i]))
			objects[n++] = more->objects[i];
	}
	original = *list;
	extended = list;
	list->objects = objects;
	list->n = n;
	return 0;
}

bool gck_ns_scope_is_searchable(struct link_map *map)
{
	return list_of(map)->n;
}

void gck_ns_scope_restore(void)
{
	if (!extended)
		return;
	free(extended->objects);
	*extended = original;
	extended = NULL;
}

/* Lists all objects except the vDSO, the only one with a name without a folder; returns how
 * many. */
static unsigned int list_all(struct link_map *first, struct link_map *firsts[FIRST_OBJECTS])
{
	unsigned int n = 0;

	for (struct link_map *m = first; m; m = m->l_next) {
		if (m != first && !strchr(m->l_name, '/'))
			continue;
		if (n < FIRST_OBJECTS)
			firsts[n] = m;
		n++;
	}
	return n;
}

void gck_ns_scope_withdraw(struct link_map *first, bool (*mine)(const struct link_map *map))
{
	struct link_map *firsts[FIRST_OBJECTS];
	unsigned int n = list_all(first, firsts), to = 0;
	size_t at = find_list(first, n, firsts, n < FIRST_OBJECTS ? n : FIRST_OBJECTS);
	struct list *list = (void *)((char *)first + at);

	if (!at)
		return;
	for (unsigned int i = 0; i < n; i++) {
		if (!mine(list->objects[i]))
			list->objects[to++] = list->objects[i];
	}
	list->n = to;
}

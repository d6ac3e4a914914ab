/* SPDX-License-Identifier: Apache-2.0
 * Where the loader looks for a library on behalf of an object. */
#ifndef GCK_INSIDE_PATH_H
#define GCK_INSIDE_PATH_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

enum gck_path_kind { GCK_PATH_RPATH, GCK_PATH_RUNPATH };

/* Is this file acceptable? NULL: every one that can be read. */
typedef bool gck_path_ok(const char *path);

/* The text of an object's DT_RUNPATH, or of the DT_RPATH that counts (there is no DT_RUNPATH);
 * NULL: it has none. */
const char *gck_path_text(const struct link_map *map, enum gck_path_kind kind);

/* The i-th library that an object needs; NULL: it needs no more. */
const char *gck_path_needed(const struct link_map *map, size_t i);

/* First acceptable directory/file of a list separated by colons, $ORIGIN being the object's folder
 * (map NULL: it is not known). -1: there is none, or its name does not fit. */
int gck_path_search(const struct link_map *map, const char *list, const char *file, char *path,
			size_t size, gck_path_ok *ok);

/* Both kinds, of one object. */
int gck_path_of(const struct link_map *map, const char *file, char *path, size_t size,
		    gck_path_ok *ok);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The search path of the loader for the libraries that an object needs. */
#ifndef GCK_INSIDE_PATH_H
#define GCK_INSIDE_PATH_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

enum gck_path_kind { GCK_PATH_RPATH, GCK_PATH_RUNPATH };

/* True if the file is acceptable. NULL: every readable file is. */
typedef bool gck_path_ok(const char *path);

/* The text of an object's DT_RUNPATH, or of its DT_RPATH, which has effect only without a
 * DT_RUNPATH; NULL: none. */
const char *gck_path_text(const struct link_map *map, enum gck_path_kind kind);

/* The i-th library that an object needs; NULL: there are fewer. */
const char *gck_path_needed(const struct link_map *map, size_t i);

/* Finds the first acceptable directory/file of a list separated by colons; $ORIGIN is the object's
 * folder (map NULL: unknown). -1: there is none, or its name does not fit. */
int gck_path_search(const struct link_map *map, const char *list, const char *file, char *path,
			size_t size, gck_path_ok *ok);

/* Searches both lists of an object. */
int gck_path_of(const struct link_map *map, const char *file, char *path, size_t size,
		    gck_path_ok *ok);

#endif

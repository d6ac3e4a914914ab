/* SPDX-License-Identifier: Apache-2.0
 * What the files of the loader (outside the namespace) offer each other. */
#ifndef GCK_MPI_LOADER_H
#define GCK_MPI_LOADER_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "shim/namespace/namespace.h"
#include "shim/namespace/root.h"

#define GCK_MPI_LIBRARY "libmpi.so.40"
#define GCK_MPI_ROOT_FILE "libgpuckpt-mpi-root.so"
#define GCK_MPI_END_FILE "libgpuckpt-mpi-end.so"

/* The copy that is loaded; root_handle NULL: none. */
struct gck_mpi_ns {
	void *root_handle, *mpi_handle;
	Lmid_t id;
	struct gck_mpi_root *root;
	struct gck_mpi_left_out *owned;
};

extern struct gck_mpi_ns gck_mpi_ns;

/* find.c: path of the real library, or its bare name where only the loader's cache and default
 * folders are left. own: is that file this library? */
int gck_mpi_ns_find(char *path, size_t size, struct gck_error *err);
bool gck_mpi_ns_is_own(const char *path);
/* Path of a file of gpuckpt's that is installed beside this library. */
int gck_mpi_ns_beside(const char *file, char *path, size_t size, struct gck_error *err);

/* environment.c: of a copy that was just loaded: the program's, and after a restart of a rank that was
 * launched as one of several what the new task was given, also where the program has unset it. */
int gck_mpi_ns_load_environment(struct gck_error *err);

/* scope.c: make the real library's symbols (and what it needs) visible to all that is loaded in the
 * namespace later, behind the root object's; undone before the objects are closed. Find: while
 * nothing but the root object is loaded. */
int gck_mpi_scope_find(struct link_map *root, struct gck_error *err);
int gck_mpi_scope_extend(struct link_map *root, struct link_map *library, struct gck_error *err);
void gck_mpi_scope_restore(void);

/* Of the program's own objects (first: the main program), nothing loaded at run time yet: those that
 * are mine are searched from here on only for what needs them. Does nothing where the list is not
 * found. */
void gck_mpi_scope_withdraw(struct link_map *first, bool (*mine)(const struct link_map *map));

/* Can dlsym look into it? It crashes for objects that were only loaded because others need them. */
bool gck_mpi_scope_is_searchable(struct link_map *map);

/* unload.c: all objects of the namespace, with none of their code run; there is no copy then. */
int gck_mpi_ns_unload(struct gck_error *err);

/* signals.c: the actions as they were before the copy set any. */
void gck_mpi_signals_note(void);
void gck_mpi_signals_put_back(const struct link_map *objects);

/* hollow.c: name in `owned` what an image need not hold of the copy's libraries; while it is held. */
void gck_mpi_ns_list_hollow(void);

/* objects.c: walking the namespace's list, and looking at what it names. */
struct link_map *gck_mpi_ns_objects(void); /* the first: the root object */
bool gck_mpi_ns_is_loader(const struct link_map *map); /* ld.so: in every namespace, and shared */

/* Read what may be no address at all. */
bool gck_mpi_ns_try(const void *from, void *to, size_t n);

#endif

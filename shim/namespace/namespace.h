/* SPDX-License-Identifier: Apache-2.0
 * The real MPI library, loaded into a link namespace of its own: it shares nothing with the program
 * but the loader and the process. What it owns (threads, descriptors, memory) is listed and left
 * out of images; after a restart the dead copy is discarded and a fresh one loaded. One copy at a
 * time. Load, discard and symbol are called by one thread at a time. */
#ifndef GCK_MPI_NAMESPACE_H
#define GCK_MPI_NAMESPACE_H

#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "shim/namespace/root.h"
#include "shim/namespace/state.h"

/* Find the real libmpi.so.40 (GPUCKPT_MPI_LIBRARY, or where the loader would have found it for the
 * program, but never this library itself) and load it; no MPI function is called. From then on
 * *owned names what the copy owns, always up to date: it must live as long as the process. Its
 * arrays may hold empty entries (a length of 0, a descriptor of -1, a TID of 0). The copy's
 * environment is one of its own, made from the program's as it is now. */
int gck_mpi_ns_load(struct gck_mpi_left_out *owned, struct gck_error *err);

/* What a thread of the program has in the copy is given back at the thread's end by code of the
 * copy: a call of it as any other, to be made between these two. Before the load; else it just is
 * made. */
void gck_mpi_ns_guard(void (*enter)(void), void (*leave)(void));

const char *gck_mpi_ns_library(void); /* its path; NULL: none is loaded */

/* Address of a symbol of the real library (and what it needs), NULL: it has none. */
void *gck_mpi_ns_symbol(const char *name);

/* Free what a function of the copy has allocated for its caller. */
void gck_mpi_ns_free(void *p);

/* The copy's environment. Take: what the program's is now (for MPI_Init: the program may have
 * changed it since the load), except where another value would do harm. A load takes it, too; after
 * a restart with who the new task is, if MPI_Init had been told that. */
int gck_mpi_ns_take_environment(struct gck_error *err);

/* A thread that the copy did not make must be known to its libc before it calls the first function
 * of the copy (and after every load): without it isspace() and the like crash. Any thread may do it
 * for any thread that lives. Cheap; nothing happens while no copy is loaded. */
void gck_mpi_ns_adopt(pthread_t thread);

/* Keep the copy's own threads from changing what they share with the program (the loader's lists
 * and locks) and their own lists, for the time of a capture: when hold has returned 0, none is in
 * the middle of it, and one that wants to waits for release. -1: one was in it for ms milliseconds.
 * No function of the real library may be called between the two. */
int gck_mpi_ns_hold(int ms, struct gck_error *err);
void gck_mpi_ns_release(void);

/* In a restored process, where the copy is dead memory: nothing of what it owned is there. Its
 * threads are taken out of libc's lists, its libraries unmapped without running any code of theirs,
 * signal actions that lead into it are put back to what they were before. Afterwards load works
 * again. Fails if libraries of it cannot be unmapped, naming them (a process has 16 namespaces:
 * the next loads work all the same). */
int gck_mpi_ns_discard(struct gck_error *err);

/* For tests: what a restart does to the copy, in the living process. Its threads are ended where
 * they are, its descriptors closed, its memory unmapped; nothing but discard works afterwards. */
int gck_mpi_ns_kill(struct gck_error *err);

/* ---- between the files outside the namespace ---- */

#define GCK_MPI_LIBRARY "libmpi.so.40"
#define GCK_MPI_ROOT_FILE "libgpuckpt-mpi-root.so"
#define GCK_MPI_END_FILE "libgpuckpt-mpi-end.so"

/* The copy that is loaded; root_handle NULL: none. */
struct gck_mpi_ns {
	void *root_handle, *mpi_handle;
	long id; /* Lmid_t */
	struct gck_mpi_root *root;
	struct gck_mpi_left_out *owned;
};

extern struct gck_mpi_ns gck_mpi_ns;

/* Path of the real library, or its bare name where only the loader's cache and default
 * folders are left. own: is that file this library? */
int gck_mpi_ns_find(char *path, size_t size, struct gck_error *err);
bool gck_mpi_ns_is_own(const char *path);
/* Path of a file of gpuckpt's that is installed beside this library. */
int gck_mpi_ns_beside(const char *file, char *path, size_t size, struct gck_error *err);

/* Of a copy that was just loaded: the program's, and after a restart of a rank that was
 * launched as one of several what the new task was given, also where the program has unset it. */
int gck_mpi_ns_load_environment(struct gck_error *err);

/* Make the real library's symbols (and what it needs) visible to all that is loaded in the
 * namespace later, behind the root object's; undone before the objects are closed. Find: while
 * nothing but the root object is loaded. */
int gck_mpi_scope_find(struct link_map *root, struct gck_error *err);
int gck_mpi_scope_extend(struct link_map *root, struct link_map *library, struct gck_error *err);
void gck_mpi_scope_restore(void);

/* Of the program's own objects (first: the main program), nothing loaded at run time yet: those
 * that are mine are searched from here on only for what needs them. Does nothing where the list is
 * not found. */
void gck_mpi_scope_withdraw(struct link_map *first, bool (*mine)(const struct link_map *map));

/* Can dlsym look into it? It crashes for objects that were only loaded because others need them. */
bool gck_mpi_scope_is_searchable(struct link_map *map);

/* Unload: all objects of the namespace, with none of their code run; there is no copy then. */
int gck_mpi_ns_unload(struct gck_error *err);

/* The actions as they were before the copy set any. */
void gck_mpi_signals_note(void);
void gck_mpi_signals_put_back(const struct link_map *objects);

/* Name in `owned` what an image need not hold of the copy's libraries; while it is held. */
void gck_mpi_ns_list_hollow(void);

/* Walking the namespace's list, and looking at what it names. */
struct link_map *gck_mpi_ns_objects(void); /* the first: the root object */
bool gck_mpi_ns_is_loader(const struct link_map *map); /* ld.so: in every namespace, and shared */

/* Read what may be no address at all. */
bool gck_mpi_ns_try(const void *from, void *to, size_t n);

#endif

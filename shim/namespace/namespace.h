/* SPDX-License-Identifier: Apache-2.0
 * The real library of a stand-in in a link namespace of its own. It shares only the loader and the
 * process with the program. Its threads, descriptors and memory are listed and left out of images.
 * After a restart the dead copy is discarded and a fresh one loaded; there is one copy at a time.
 * Load, discard and symbol are called by one thread at a time. */
#ifndef GCK_NAMESPACE_H
#define GCK_NAMESPACE_H

#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "shim/namespace/root.h"
#include "shim/namespace/state.h"

struct gck_namespace_variable {
	const char *name, *value;
};

/* What is loaded; lives as long as the process. */
struct gck_namespace_library {
	const char *name;     /* in messages, behind "the" */
	const char *remedy;   /* for a user whose library cannot be loaded */
	const char *without;  /* the option of a step that does without the namespace */
	/* Finds the path of the real library, never this one's; its bare name means the loader's
	 * cache and default folders. */
	int (*find)(char *path, size_t size, struct gck_error *err);
	/* Variables of the copy's environment, whatever the program's are; the last one has no
	 * name. NULL: none. */
	const struct gck_namespace_variable *forced;
	/* Whether this variable, "NAME=value", tells which task of the launcher the process is.
	 * NULL: the library does not ask for that. */
	bool (*is_identity)(const char *entry);
};

/* Finds the real library and loads it; calls none of its functions. From then on *owned always
 * lists what the copy owns; it must live as long as the process. Its arrays may have empty entries
 * (a length of 0, a descriptor of -1, a TID of 0). The copy has its own environment, made from the
 * program's present one. */
GCK_MUST_CHECK int gck_namespace_load(const struct gck_namespace_library *library,
				      struct gck_ns_exclusions *owned, struct gck_error *err);

/* What a stand-in does where threads end. */
struct gck_namespace_guard {
	/* before and after code of the copy that runs at the end of a program's thread and frees
	 * what the thread has in the copy */
	void (*enter)(void), (*leave)(void);
	/* a thread of the copy ends, or is dead: the stand-in must not know it any more */
	void (*gone)(pthread_t thread);
};

/* Called before the load; without it, or where a function is NULL, that is not done. */
void gck_namespace_guard_by(const struct gck_namespace_guard *by);

/* Whether a copy is loaded that lives: one that this process has loaded, or that was carried. */
bool gck_namespace_is_alive(void);

/* The path of the loaded library; NULL: none is loaded. */
const char *gck_namespace_library(void);

/* The address of a symbol of the real library and what it needs; NULL: not found. */
void *gck_namespace_symbol(const char *name);

/* Frees memory that a function of the copy has allocated for its caller. */
void gck_namespace_free(void *p);

/* A function of the copy has opened this descriptor for its caller, who closes it. */
void gck_namespace_give_fd(int fd);

/* Sets the copy's environment to the program's present one, except for values that would do harm.
 * For a function that reads it (MPI_Init, cuInit), since the program may have changed its
 * environment after the load. A load sets it too; after a restart it adds the identity of the new
 * task if the environment that was taken here had one. */
GCK_MUST_CHECK int gck_namespace_take_environment(struct gck_error *err);

/* Initialises the copy's libc for a thread that the copy did not make. Needed before the thread's
 * first call of the copy and after each load; without it isspace() and the like crash. Any thread
 * may call it for any live thread. It is cheap and does nothing while no copy is loaded. */
void gck_namespace_adopt(pthread_t thread);

/* For the time of a capture, keep the copy's threads from changing their own lists and what they
 * share with the program (the loader's lists and locks). After hold has returned 0, no thread is in
 * such a change, and new ones wait for release. -1: a thread was in one for ms milliseconds.
 * Between the two no function of the real library may be called. */
GCK_MUST_CHECK int gck_namespace_hold(int ms, struct gck_error *err);
void gck_namespace_release(void);

/* Before a capture that has the copy in the image, whole, with its threads and descriptors: it
 * lives in the process that is made from the image, as in this one, and carried is called in each.
 * Between the two no function of the real library may be called. Without a copy they do nothing. */
void gck_namespace_carry(void);
void gck_namespace_carried(void);

/* Discards the dead copy in a restored process, where nothing that it owned exists. Takes its
 * threads out of libc's lists, unmaps its libraries without running their code, and restores the
 * actions of signals whose handlers are in it. Afterwards load works again. Fails if a library of
 * it cannot be unmapped, and names it; the next loads work nevertheless (a process has 16
 * namespaces). */
GCK_MUST_CHECK int gck_namespace_discard(struct gck_error *err);

/* For tests: does to the copy in the living process what a restart does. Ends its threads, closes
 * its descriptors and unmaps its memory; afterwards only discard works. */
GCK_MUST_CHECK int gck_namespace_kill(struct gck_error *err);

/* ---- for the files of this folder ---- */

#define GCK_NS_ROOT_FILE "libgpuckpt-root.so"
#define GCK_NAMESPACE_END_FILE "libgpuckpt-end.so"

/* The copy that is loaded; root_handle NULL: none. */
struct gck_namespace {
	const struct gck_namespace_library *library; /* stays when the copy goes; NULL: never any */
	void *root_handle, *handle;
	uint32_t copy;     /* counts the copies; stays, too */
	uint32_t restarts; /* gck_inside_restarts() when it was loaded or carried last; if not now,
			    * it is dead, unless it is in an image that has it (carried) */
	bool carried;
	long id; /* Lmid_t */
	struct gck_ns_root *root;
	struct gck_ns_exclusions *owned;
};

extern struct gck_namespace gck_namespace;

/* There is no copy any more. */
void gck_namespace_forget(void);

/* The path of a file that gpuckpt installs beside this library. */
GCK_MUST_CHECK int gck_namespace_beside(const char *file, char *path, size_t size,
				     struct gck_error *err);

/* Sets the environment of a copy that was just loaded: the program's, and after a restart of a rank
 * that the launcher started the launcher's variables of the new task, even if the program has unset
 * them. */
GCK_MUST_CHECK int gck_namespace_load_environment(struct gck_error *err);

/* Make the symbols of the real library and what it needs visible to objects loaded into the
 * namespace later, after the root object's symbols. Undone by restore before the objects are
 * closed. gck_ns_scope_find is called while only the root object is loaded. */
GCK_MUST_CHECK int gck_ns_scope_find(struct link_map *root, struct gck_error *err);
GCK_MUST_CHECK int gck_ns_scope_extend(struct link_map *root, struct link_map *library,
					struct gck_error *err);
void gck_ns_scope_restore(void);

/* Takes the objects that are `mine` out of the search list of the program (first: its main
 * program), before it loads any at run time. From then on only objects that need them find their
 * symbols. Does nothing if the list is not found. */
void gck_ns_scope_withdraw(struct link_map *first, bool (*mine)(const struct link_map *map));

/* True if dlsym can search the object. It crashes for objects that were only loaded because others
 * need them. */
bool gck_ns_scope_is_searchable(struct link_map *map);

/* Store the signal actions before the copy sets any, and restore those that lead into it. */
void gck_ns_signals_note(void);
void gck_ns_signals_put_back(const struct link_map *objects);

/* Lists in `owned` the parts of the copy's libraries that an image need not contain. Called while
 * the copy is held. */
void gck_namespace_list_changes_only(void);

/* A thread of the copy is no more. */
void gck_namespace_thread_gone(pthread_t thread);

/* The first object of the namespace: the root object. The others follow by ->l_next. */
struct link_map *gck_namespace_objects(void);

/* True for ld.so, which all namespaces share. */
bool gck_namespace_is_loader(const struct link_map *map);

/* Reads memory that may not be mapped; false: it is not. */
GCK_MUST_CHECK bool gck_namespace_try(const void *from, void *to, size_t n);

#endif

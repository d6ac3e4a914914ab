/* SPDX-License-Identifier: Apache-2.0
 * Loads the real library into its namespace. */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <locale.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>

#include "shim/inside/library.h"
#include "shim/inside/rank.h"
#include "shim/namespace/namespace.h"

int gck_namespace_beside(const char *file, char *path, size_t size, struct gck_error *err)
{
	const char *own = gck_inside_own_file(), *slash = strrchr(own, '/');
	int n = snprintf(path, size, "%.*s/%s", slash ? (int)(slash - own) : 1, slash ? own : ".",
			 file);

	if (n < 0 || (size_t)n >= size)
		return gck_fail(err, ENAMETOOLONG, "the path of %s is too long", own);
	return 0;
}

/* ---- functions that the namespace calls ----------------------------------------------------- */

static pthread_key_t end_key;
static pthread_once_t end_key_once = PTHREAD_ONCE_INIT;
static struct gck_namespace_guard guard;

void gck_namespace_guard_by(const struct gck_namespace_guard *by)
{
	guard = *by;
}

/* Frees what a thread has in the copy. After a restart there is another copy, in which it has
 * nothing. */
static void thread_ends(void *unused)
{
	(void)unused;
	if (guard.enter)
		guard.enter();
	if (gck_namespace.root)
		gck_namespace.root->thread_ends();
	if (guard.leave)
		guard.leave();
}

static void make_key(void)
{
	if (pthread_key_create(&end_key, thread_ends))
		abort(); /* the program uses all 1,024 keys */
}

static void note_thread(void)
{
	pthread_once(&end_key_once, make_key);
	pthread_setspecific(end_key, &gck_namespace);
}

/* The program's libc has made this thread's control block for another libc's thread, and has not
 * set its character tables there: isalpha() would crash in a callback of the program. */
static void thread_begins(void)
{
	uselocale(LC_GLOBAL_LOCALE);
}

void gck_namespace_thread_gone(pthread_t thread)
{
	if (guard.gone)
		guard.gone(thread);
}

static const struct gck_ns_root_host host = {
	.free = free,
	.usable_size = malloc_usable_size,
	.exit = exit,
	.note_thread = note_thread,
	.thread_begins = thread_begins,
	.thread_gone = gck_namespace_thread_gone,
	.has_tid = gck_inside_has_tid,
};

/* ---- threads of the program ----------------------------------------------------------------- */

/* A libc sets three pointers to its character tables in each thread that it makes. They are in
 * static thread-local storage, at the same offset from each thread's control block. */
static struct {
	ptrdiff_t offset;
	const void *value;
} tables[3];

static void note_table(int i, const void *pointer)
{
	tables[i].offset = (const char *)pointer - (char *)pthread_self();
	memcpy(&tables[i].value, pointer, sizeof tables[i].value);
}

/* Called in the thread that loads, in which the copy's libc has set the pointers. */
static void note_tables(void)
{
	note_table(0, gck_namespace.root->ctype_b());
	note_table(1, gck_namespace.root->ctype_tolower());
	note_table(2, gck_namespace.root->ctype_toupper());
}

void gck_namespace_adopt(pthread_t thread)
{
	for (int i = 0; gck_namespace.root && i < 3; i++)
		memcpy((char *)thread + tables[i].offset, &tables[i].value, sizeof(void *));
}

/* ---- forks of the program ------------------------------------------------------------------- */

/* The copy whose locks the fork under way has: gck_namespace.copy; 0: none. */
static __thread uint32_t locked __attribute__((tls_model("initial-exec")));

/* Locks of a dead copy may be those of threads that did not come back. */
static void before_fork(void)
{
	locked = 0;
	if (!gck_namespace_is_alive())
		return;
	gck_namespace.root->before_fork();
	locked = gck_namespace.copy;
}

/* A restart may have come between. */
static void after_fork(void)
{
	if (locked == gck_namespace.copy && gck_namespace_is_alive())
		gck_namespace.root->after_fork();
}

static int watch_forks(struct gck_error *err)
{
	static bool watched;

	if (!watched && pthread_atfork(before_fork, after_fork, after_fork))
		return gck_fail(err, ENOMEM, "no memory to handle forks of a program with the %s",
				gck_namespace.library->name);
	watched = true;
	return 0;
}

/* ---- loading -------------------------------------------------------------------------------- */

static void *no_op(void *unused)
{
	return unused;
}

/* Makes the program's libc use locks, by making a thread, if it has not made one yet: the copy's
 * threads enter the loader, which calls the program's malloc. */
static int make_threaded(struct gck_error *err)
{
	pthread_t thread;
	int r;

	if (!__libc_single_threaded)
		return 0;
	r = pthread_create(&thread, NULL, no_op, NULL);
	if (r)
		return gck_fail(err, r, "cannot make a thread before loading the %s: %s",
				gck_namespace.library->name, strerror(r));
	pthread_join(thread, NULL);
	return 0;
}

static int load_root(struct gck_error *err)
{
	struct link_map *map;
	char path[PATH_MAX];

	if (gck_namespace_beside(GCK_NS_ROOT_FILE, path, sizeof path, err) < 0)
		return -1;
	gck_namespace.root_handle = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
	if (!gck_namespace.root_handle)
		return gck_fail(err, ENOENT, "cannot load %s into a namespace of its own: %s: "
				"install gpuckpt again on this node", path, dlerror());
	gck_namespace.root = dlsym(gck_namespace.root_handle, GCK_NS_ROOT_SYMBOL);
	if (!gck_namespace.root || gck_namespace.root->version != GCK_NS_ROOT_VERSION ||
	    gck_namespace.root->size != sizeof *gck_namespace.root)
		return gck_fail(err, EINVAL, "%s is of another version than this library: install "
				"gpuckpt again on this node", path);
	if (dlinfo(gck_namespace.root_handle, RTLD_DI_LMID, &gck_namespace.id) < 0 ||
	    dlinfo(gck_namespace.root_handle, RTLD_DI_LINKMAP, &map) < 0)
		return gck_fail(err, EINVAL, "cannot find the namespace of %s: %s", path,
				dlerror());
	return gck_ns_scope_find(map, err);
}

static int load_library(struct gck_error *err)
{
	const struct gck_namespace_library *l = gck_namespace.library;
	struct link_map *root = gck_namespace_objects(), *library;
	char path[PATH_MAX];

	if (l->find(path, sizeof path, err) < 0)
		return -1;
	gck_namespace.handle = dlmopen(gck_namespace.id, path, RTLD_NOW | RTLD_LOCAL);
	if (!gck_namespace.handle)
		return gck_fail(err, ENOENT, "cannot load the real %s %s: %s: %s", l->name, path,
				dlerror(), l->remedy);
	if (dlinfo(gck_namespace.handle, RTLD_DI_LINKMAP, &library) < 0)
		return gck_fail(err, EINVAL, "cannot find %s in its namespace: %s", path,
				dlerror());
	if (gck_inside_is_own(library->l_name))
		return gck_fail(err, ENOENT, "the real %s was not found, only gpuckpt's own: %s",
				l->name, l->remedy);
	return gck_ns_scope_extend(root, library, err);
}

static int load_all(struct gck_ns_exclusions *owned, struct gck_error *err)
{
	if (watch_forks(err) < 0 || make_threaded(err) < 0 || load_root(err) < 0)
		return -1;
	gck_namespace.owned = gck_namespace.root->owned = owned;
	gck_namespace.root->host = &host;
	gck_namespace.root->start();
	note_tables();
	if (gck_namespace_load_environment(err) < 0)
		return -1;
	return load_library(err);
}

/* Closes a copy whose load failed. It has no thread and owns only its heap. */
static void unload(void)
{
	struct gck_ns_range heap = { 0 };

	gck_ns_scope_restore();
	if (gck_namespace.owned && gck_namespace.owned->nranges)
		heap = *(const struct gck_ns_range *)(uintptr_t)gck_namespace.owned->ranges;
	if (gck_namespace.owned)
		memset(gck_namespace.owned, 0, sizeof *gck_namespace.owned);
	if (gck_namespace.handle)
		dlclose(gck_namespace.handle);
	if (gck_namespace.root_handle)
		dlclose(gck_namespace.root_handle);
	if (heap.length)
		munmap((void *)(uintptr_t)heap.start, heap.length);
	gck_namespace_forget();
}

int gck_namespace_load(const struct gck_namespace_library *library,
		       struct gck_ns_exclusions *owned, struct gck_error *err)
{
	if (gck_namespace.root_handle)
		return gck_fail(err, EALREADY, "the real %s is loaded already: %s",
				gck_namespace.library->name, gck_namespace_library());
	gck_namespace.library = library;
	gck_namespace.restarts = gck_inside_restarts();
	gck_namespace.copy++;
	gck_ns_signals_note();
	if (load_all(owned, err) == 0)
		return 0;
	unload();
	return -1;
}

/* ---- the loaded library --------------------------------------------------------------------- */

const char *gck_namespace_library(void)
{
	struct link_map *map;

	if (!gck_namespace.handle || dlinfo(gck_namespace.handle, RTLD_DI_LINKMAP, &map) < 0)
		return NULL;
	return map->l_name;
}

/* Searches the library and what it needs, then what it has loaded at run time (PMIx comes with a
 * plugin). */
void *gck_namespace_symbol(const char *name)
{
	void *found;

	if (!gck_namespace.handle)
		return NULL;
	found = dlsym(gck_namespace.handle, name);
	for (struct link_map *m = gck_namespace_objects(); m && !found; m = m->l_next) {
		if (gck_ns_scope_is_searchable(m))
			found = dlsym(m, name);
	}
	return found;
}

void gck_namespace_free(void *p)
{
	if (gck_namespace.root)
		gck_namespace.root->free(p);
}

void gck_namespace_give_fd(int fd)
{
	if (gck_namespace.root)
		gck_namespace.root->give_fd(fd);
}

/* ---- holding -------------------------------------------------------------------------------- */

int gck_namespace_hold(int ms, struct gck_error *err)
{
	if (gck_namespace.root && gck_namespace.root->hold(ms) < 0)
		return gck_fail(err, ETIMEDOUT, "a thread of the %s %s was in the loader or made a "
				"mapping for more than %d ms: gpuckpt will try again",
				gck_namespace.library->name, gck_namespace_library(), ms);
	if (gck_namespace.root)
		gck_namespace_list_changes_only();
	return 0;
}

void gck_namespace_release(void)
{
	if (!gck_namespace.root)
		return;
	gck_namespace.owned->nchanges_only = 0;
	gck_namespace.root->release();
}

/* SPDX-License-Identifier: Apache-2.0
 * Discards a dead copy. Its code is still mapped but its data is gone, so no code of it may run: no
 * destructor, and only pthread_join of its libc. */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "shim/namespace/namespace.h"
#include "shim/preload/helper/raw.h"

#define PAGE 4096ul
#define SCAN_BYTES 1024

/* ---- destructors
 * ------------------------------------------------------------------------------- */

static void no_op(void)
{
}

static int make_writable(const void *p, size_t n)
{
	uintptr_t start = (uintptr_t)p & ~(PAGE - 1);

	return mprotect((void *)start, (uintptr_t)p + n - start, PROT_READ | PROT_WRITE);
}

/* Disables the destructors, whose entries the loader reads when it closes the object or at the
 * program's end. */
static int disarm(struct link_map *map, struct gck_error *err)
{
	for (ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag != DT_FINI_ARRAYSZ && d->d_tag != DT_FINI)
			continue;
		if (make_writable(d, sizeof *d) < 0)
			return gck_fail(err, errno, "cannot take the destructors out of %s: %s",
					map->l_name, strerror(errno));
		if (d->d_tag == DT_FINI_ARRAYSZ)
			d->d_un.d_val = 0;
		else
			d->d_un.d_ptr = (uintptr_t)no_op - map->l_addr;
	}
	return 0;
}

static int disarm_all(struct gck_error *err)
{
	for (struct link_map *m = gck_namespace_objects(); m; m = m->l_next) {
		if (!gck_namespace_is_loader(m) && disarm(m, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- threads -------------------------------------------------------------------------------- */

/* The address of a thread's TID, which libc has at the same offset in each control block. The
 * kernel clears it when a thread ends, but the dead copy's threads did not end. */
static int32_t *tid_of(pthread_t thread)
{
	char *own = NULL;

	gck_raw(SYS_prctl, PR_GET_TID_ADDRESS, &own);
	return own ? (int32_t *)(void *)((char *)thread + (own - (char *)pthread_self())) : NULL;
}

static int join_all(struct gck_error *err)
{
	for (uint32_t i = 0; i < gck_namespace.root->nthreads; i++) {
		struct gck_ns_root_thread *t = &gck_namespace.root->threads[i];
		int32_t *tid;
		int r;

		if (t->life == GCK_NS_ROOT_FREE)
			continue;
		gck_namespace_thread_gone(t->self);
		tid = tid_of(t->self);
		if (!tid)
			return gck_fail(err, ENOTSUP, "this kernel does not report the address of "
					"a thread's TID: the threads of the dead %s cannot "
					"be joined", gck_namespace.library->name);
		__atomic_store_n(tid, 0, __ATOMIC_RELEASE);
		r = gck_namespace.root->join(t->self, NULL);
		if (r)
			return gck_fail(err, r, "cannot join a dead thread of the %s: %s",
					gck_namespace.library->name, strerror(r));
		t->life = GCK_NS_ROOT_FREE;
	}
	return 0;
}

/* ---- unloading ---------------------------------------------------------------------------------
 *
 * Takes a dead copy's libraries out of the loader. dlclose is not enough: libraries that define
 * unique symbols (libstdc++), or that were built to stay, are never unloaded, and the unique
 * symbols of the others stay in the namespace's table as dangling pointers. The loader cleans that
 * table only after a load that failed. So each object is marked as unneeded in the private part of
 * its struct link_map, and then a library is opened that cannot be loaded. */

/* Offsets of two fields, found by what dlmopen changes when it opens the root object again. */
struct fields {
	size_t opened;          /* the count of opens, an int */
	size_t nodelete;            /* a byte, or bits of it: never unload */
	unsigned char nodelete_bits;
};

static const unsigned char *bytes(const struct link_map *map)
{
	return (const unsigned char *)map;
}

/* Finds the offsets of the n bytes in which two copies differ; false if it is not exactly n. */
static bool differ_at(const unsigned char *a, const unsigned char *b, size_t *at, size_t n)
{
	size_t found = 0;

	for (size_t i = 0; i < SCAN_BYTES; i++) {
		if (a[i] == b[i])
			continue;
		if (found == n)
			return false;
		at[found++] = i;
	}
	return found == n;
}

static void *open_again(const struct link_map *root, int mode, unsigned char *after)
{
	void *handle = dlmopen(gck_namespace.id, root->l_name, RTLD_NOW | RTLD_NOLOAD | mode);

	if (handle)
		memcpy(after, bytes(root), SCAN_BYTES);
	return handle;
}

static bool find_fields(struct link_map *root, struct fields *f)
{
	unsigned char before[SCAN_BYTES], after[SCAN_BYTES];
	size_t at[2];
	void *handle;

	memcpy(before, bytes(root), SCAN_BYTES);
	handle = open_again(root, 0, after);
	if (!handle || dlclose(handle) || !differ_at(before, after, at, 1))
		return false;
	f->opened = at[0];
	handle = open_again(root, RTLD_NODELETE, after);
	if (!handle || !differ_at(before, after, at, 2))
		return false;
	f->nodelete = at[0] == f->opened ? at[1] : at[0];
	f->nodelete_bits = before[f->nodelete] ^ after[f->nodelete];
	((unsigned char *)root)[f->nodelete] ^= f->nodelete_bits;
	dlclose(handle);
	return !memcmp(before, bytes(root), SCAN_BYTES);
}

static void mark(struct link_map *map, const struct fields *f)
{
	unsigned char *p = (unsigned char *)map;

	memset(p + f->opened, 0, sizeof(int));
	p[f->nodelete] &= ~f->nodelete_bits;
}

/* ---- check that the objects are gone -------------------------------------------------------- */

struct object {
	void *inside;           /* an address in it */
	char name[PATH_MAX];
};

static size_t list(struct object **objects)
{
	struct link_map *first = gck_namespace_objects();
	size_t n = 0;

	for (struct link_map *m = first; m; m = m->l_next)
		n++;
	*objects = calloc(n, sizeof **objects);
	if (!*objects)
		return 0;
	n = 0;
	for (struct link_map *m = first; m; m = m->l_next) {
		if (gck_namespace_is_loader(m))
			continue;
		(*objects)[n].inside = m->l_ld;
		strncpy((*objects)[n++].name, m->l_name, PATH_MAX - 1);
	}
	return n;
}

static int check_gone(const struct object *objects, size_t n, struct gck_error *err)
{
	Dl_info info;

	for (size_t i = 0; i < n; i++) {
		if (dladdr(objects[i].inside, &info))
			return gck_fail(err, EBUSY, "the loader does not unload %s of the dead %s: "
					"the step can be restarted at most a dozen times",
					objects[i].name, gck_namespace.library->name);
	}
	return 0;
}

/* Unloads all objects of the namespace without running their code. */
static int unload(struct gck_error *err)
{
	struct link_map *root = gck_namespace_objects();
	struct object *objects;
	char path[PATH_MAX];
	struct fields f;
	size_t n;
	int r;

	if (gck_namespace_beside(GCK_NAMESPACE_END_FILE, path, sizeof path, err) < 0)
		return -1;
	if (access(path, R_OK) < 0)
		return gck_fail(err, errno, "cannot read %s, which is needed to unload the dead "
				"%s: %s: install gpuckpt again on this node", path,
				gck_namespace.library->name, strerror(errno));
	if (!find_fields(root, &f))
		return gck_fail(err, ENOTSUP, "this libc's loader has its data about %s in an "
				"unknown place: the dead %s cannot be unloaded", root->l_name,
				gck_namespace.library->name);
	n = list(&objects);
	if (!n)
		return gck_fail(err, ENOMEM, "no memory for a list of the dead %s's objects",
				gck_namespace.library->name);
	gck_ns_scope_restore();
	for (struct link_map *m = root; m; m = m->l_next) {
		if (!gck_namespace_is_loader(m))
			mark(m, &f);
	}
	if (!dlmopen(gck_namespace.id, path, RTLD_NOW | RTLD_LOCAL))
		dlerror();
	gck_namespace_forget();
	r = check_gone(objects, n, err);
	free(objects);
	return r;
}

/* ---- the whole copy ------------------------------------------------------------------------- */

int gck_namespace_discard(struct gck_error *err)
{
	if (!gck_namespace.root_handle)
		return gck_fail(err, EINVAL, "no library is loaded that could be discarded");
	memset(gck_namespace.owned, 0, sizeof *gck_namespace.owned);
	if (disarm_all(err) < 0 || join_all(err) < 0)
		return -1;
	gck_ns_signals_put_back(gck_namespace_objects());
	return unload(err);
}

/* SPDX-License-Identifier: Apache-2.0
 * Discards a dead copy. Its code is still mapped but its data is gone, so no code of it may run: no
 * destructor, and only pthread_join of its libc. */
#include "config.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "shim/namespace/namespace.h"
#include "shim/preload/helper/raw.h"

#define PAGE 4096ul

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
	for (struct link_map *m = gck_mpi_ns_objects(); m; m = m->l_next) {
		if (!gck_mpi_ns_is_loader(m) && disarm(m, err) < 0)
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
	for (uint32_t i = 0; i < gck_mpi_ns.root->nthreads; i++) {
		struct gck_mpi_root_thread *t = &gck_mpi_ns.root->threads[i];
		int32_t *tid;
		int r;

		if (t->life == GCK_MPI_ROOT_FREE)
			continue;
		tid = tid_of(t->self);
		if (!tid)
			return gck_fail(err, ENOTSUP, "this kernel does not report the address of "
					"a thread's TID: the threads of the dead MPI library "
					"cannot be joined");
		__atomic_store_n(tid, 0, __ATOMIC_RELEASE);
		r = gck_mpi_ns.root->join(t->self, NULL);
		if (r)
			return gck_fail(err, r, "cannot join a dead thread of the MPI library: %s",
					strerror(r));
		t->life = GCK_MPI_ROOT_FREE;
	}
	return 0;
}

/* ---- the whole copy -------------------------------------------------------------------------- */

int gck_mpi_ns_discard(struct gck_error *err)
{
	if (!gck_mpi_ns.root_handle)
		return gck_fail(err, EINVAL, "no MPI library is loaded that could be discarded");
	memset(gck_mpi_ns.owned, 0, sizeof *gck_mpi_ns.owned);
	if (disarm_all(err) < 0 || join_all(err) < 0)
		return -1;
	gck_mpi_signals_put_back(gck_mpi_ns_objects());
	return gck_mpi_ns_unload(err);
}

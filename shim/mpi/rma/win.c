/* SPDX-License-Identifier: Apache-2.0
 * Windows: making, freeing and querying them. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/attribute.h"
#include "shim/mpi/handles/attribute_predefined.h"
#include "shim/mpi/rma/rma.h"
#include "shim/mpi/rma/shared.h"
#include "shim/mpi/types/info.h"

#define CACHE_LINE 64 /* alignment of allocated memory */

/* ---- making --------------------------------------------------------------------------------- */

static bool hint(MPI_Info info, const char *key)
{
	char value[8] = "";
	int found = 0;

	PMPI_Info_get(info, key, sizeof(value) - 1, value, &found);
	return found && !strcmp(value, "true");
}

/* Copies the hints for the real window without no_locks, because the stand-in locks it always. */
static int take_hints(struct gck_mpi_win *w, MPI_Info info)
{
	int rc = gck_mpi_private_info(info, &w->info);

	if (rc)
		return rc;
	w->no_locks = hint(w->info, "no_locks");
	return w->no_locks ? PMPI_Info_delete(w->info, "no_locks") : rc;
}

static void destroy(struct gck_mpi_win *w)
{
	if (w->shared)
		gck_mpi_shared_free(w);
	if (w->comm && w->comm != MPI_COMM_NULL)
		PMPI_Comm_free(&w->comm);
	if (w->info && w->info != MPI_INFO_NULL)
		PMPI_Info_free(&w->info);
	for (struct gck_mpi_region *r = w->regions, *next; r; r = next) {
		next = r->next;
		free(r);
	}
	free(w->memory);
	free(w->targets);
	free(w->words);
	pthread_mutex_destroy(&w->lock);
	gck_mpi_handle_free(w);
}

/* Collective. NULL: *rc is the error. */
static struct gck_mpi_win *new_win(int flavor, int disp_unit, MPI_Info info, MPI_Comm comm, int *rc)
{
	struct gck_mpi_win *w = gck_mpi_handle_new(GCK_MPI_WIN, sizeof(*w), NULL);

	*rc = MPI_ERR_NO_MEM;
	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	w->flavor = flavor;
	w->disp_unit = disp_unit;
	*rc = gck_mpi_private_comm(comm, &w->comm, "MPI_Win_create");
	if (!*rc)
		*rc = take_hints(w, info);
	if (!*rc) {
		w->rank = gck_mpi_comm_of(w->comm)->rank;
		w->nranks = gck_mpi_comm_of(w->comm)->size;
		w->targets = calloc((size_t)w->nranks, sizeof(*w->targets));
		w->words = calloc(1, sizeof(*w->words));
		*rc = w->targets && w->words ? MPI_SUCCESS : MPI_ERR_NO_MEM;
	}
	if (!*rc)
		return w;
	destroy(w);
	return NULL;
}

/* Makes shared memory, the real windows and the attributes. Collective. No checkpoint comes between
 * the first two. */
static int finish(struct gck_mpi_win *w, MPI_Win *win)
{
	int rc = MPI_SUCCESS;

	gck_mpi_enter_as("MPI_Win_create");
	gck_mpi_clock_tick(&gck_mpi_comm_of(w->comm)->clock);
	if (w->flavor == MPI_WIN_FLAVOR_SHARED)
		rc = gck_mpi_shared_make(w, hint(w->info, "alloc_shared_noncontig"));
	if (!rc)
		rc = gck_mpi_win_make_real(w);
	gck_mpi_leave();
	if (!rc)
		rc = gck_mpi_attributes_of_win(w, w->base, w->size, w->disp_unit, w->flavor,
					       MPI_WIN_UNIFIED);
	if (rc)
		destroy(w);
	else
		*win = (MPI_Win)w;
	return rc;
}

static int check(MPI_Aint size, int disp_unit, MPI_Comm comm, const MPI_Win *win)
{
	if (!gck_mpi_is(comm, GCK_MPI_COMM) || comm == MPI_COMM_NULL ||
	    gck_mpi_comm_of(comm)->inter)
		return MPI_ERR_COMM;
	if (!win)
		return MPI_ERR_WIN;
	if (size < 0)
		return MPI_ERR_SIZE;
	return disp_unit <= 0 ? MPI_ERR_DISP : MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Win_create, (void *base, MPI_Aint size, int disp_unit, MPI_Info info,
			      MPI_Comm comm, MPI_Win *win))
{
	int rc = check(size, disp_unit, comm, win);
	struct gck_mpi_win *w = rc ? NULL
				   : new_win(MPI_WIN_FLAVOR_CREATE, disp_unit, info, comm, &rc);

	if (w) {
		w->base = base;
		w->size = size;
		rc = finish(w, win);
	}
	return gck_mpi_error(comm, rc, "MPI_Win_create");
}

GCK_MPI_FUNCTION(Win_allocate, (MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm,
				void *baseptr, MPI_Win *win))
{
	int rc = check(size, disp_unit, comm, win);
	struct gck_mpi_win *w = rc ? NULL
				   : new_win(MPI_WIN_FLAVOR_ALLOCATE, disp_unit, info, comm, &rc);

	if (w && posix_memalign(&w->memory, CACHE_LINE, size ? (size_t)size : 1)) {
		w->memory = NULL;
		destroy(w);
		rc = MPI_ERR_NO_MEM;
	} else if (w) {
		w->base = w->memory;
		w->size = size;
		memset(w->memory, 0, size ? (size_t)size : 1);
		*(void **)baseptr = w->base;
		rc = finish(w, win);
	}
	return gck_mpi_error(comm, rc, "MPI_Win_allocate");
}

GCK_MPI_FUNCTION(Win_allocate_shared, (MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm,
				       void *baseptr, MPI_Win *win))
{
	int rc = check(size, disp_unit, comm, win);
	struct gck_mpi_win *w = rc ? NULL
				   : new_win(MPI_WIN_FLAVOR_SHARED, disp_unit, info, comm, &rc);

	if (w) {
		w->size = size;
		rc = finish(w, win);
		if (!rc)
			*(void **)baseptr = w->base;
	}
	return gck_mpi_error(comm, rc, "MPI_Win_allocate_shared");
}

GCK_MPI_FUNCTION(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win *win))
{
	int rc = check(0, 1, comm, win);
	struct gck_mpi_win *w = rc ? NULL : new_win(MPI_WIN_FLAVOR_DYNAMIC, 1, info, comm, &rc);

	if (w)
		rc = finish(w, win);
	return gck_mpi_error(comm, rc, "MPI_Win_create_dynamic");
}

/* ---- freeing -------------------------------------------------------------------------------- */

/* Collective. The real library returns in no rank before each has completed its operations. */
static int free_real(struct gck_mpi_win *w)
{
	MPI_Win real;
	int rc;

	gck_mpi_enter_as("MPI_Win_free");
	gck_mpi_clock_tick(&gck_mpi_comm_of(w->comm)->clock);
	real = GCK_MPI_REAL_WIN(w);
	rc = gck_mpi_real.Win_unlock_all(real);
	if (!rc)
		rc = gck_mpi_real.Win_free(&real);
	if (!rc && w->real_locks)
		rc = gck_mpi_real.Win_free(&w->real_locks);
	if (!rc) {
		gck_mpi_handle_set_real(w, NULL); /* so that a restart does not make it */
		w->dirty = false;
	}
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(Win_free, (MPI_Win *win))
{
	struct gck_mpi_win *w = win ? gck_mpi_win_of(*win) : NULL;
	int rc = w ? MPI_SUCCESS : MPI_ERR_WIN;

	if (w && (w->exposed || w->epoch > GCK_MPI_EPOCH_FENCE))
		rc = MPI_ERR_RMA_SYNC;
	if (!rc)
		rc = gck_mpi_attributes_delete(w);
	if (!rc)
		rc = free_real(w);
	if (rc)
		return gck_mpi_error(win ? *win : NULL, rc, "MPI_Win_free");
	destroy(w);
	*win = MPI_WIN_NULL;
	return MPI_SUCCESS;
}

/* ---- queries -------------------------------------------------------------------------------- */

GCK_MPI_FUNCTION(Win_get_group, (MPI_Win win, MPI_Group *group))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? PMPI_Comm_group(w->comm, group) : MPI_ERR_WIN,
			     "MPI_Win_get_group");
}

/* The hints that the real library uses, and no_locks, which it was not given. */
static int get_info(struct gck_mpi_win *w, MPI_Info *info)
{
	MPI_Info real;
	int rc;

	gck_mpi_enter_as("MPI_Win_get_info");
	rc = gck_mpi_real.Win_get_info(GCK_MPI_REAL_WIN(w), &real);
	if (!rc) {
		*info = gck_mpi_info_of_real(real);
		rc = *info ? MPI_SUCCESS : MPI_ERR_NO_MEM;
	}
	gck_mpi_leave();
	if (!rc && w->no_locks)
		rc = PMPI_Info_set(*info, "no_locks", "true");
	return rc;
}

GCK_MPI_FUNCTION(Win_get_info, (MPI_Win win, MPI_Info *info_used))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);
	int rc = !w ? MPI_ERR_WIN : !info_used ? MPI_ERR_ARG : get_info(w, info_used);

	return gck_mpi_error(win, rc, "MPI_Win_get_info");
}

/* Stores the hints for a restart. no_locks has effect only when a window is made. */
static int store_hints(struct gck_mpi_win *w, MPI_Info info)
{
	int rc = gck_mpi_private_info_merge(w->info, info);

	if (!rc && hint(w->info, "no_locks"))
		rc = PMPI_Info_delete(w->info, "no_locks");
	return rc;
}

GCK_MPI_FUNCTION(Win_set_info, (MPI_Win win, MPI_Info info))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);
	int rc = w ? store_hints(w, info) : MPI_ERR_WIN;

	if (!rc) {
		gck_mpi_enter();
		gck_mpi_clock_tick(&gck_mpi_comm_of(w->comm)->clock);
		rc = gck_mpi_real.Win_set_info(GCK_MPI_REAL_WIN(w),
					       gck_mpi_real_handle(w->info, GCK_MPI_INFO));
		gck_mpi_leave();
	}
	return gck_mpi_error(win, rc, "MPI_Win_set_info");
}

GCK_MPI_FUNCTION(Win_sync, (MPI_Win win))
{
	int rc = gck_mpi_win_of(win) ? MPI_SUCCESS : MPI_ERR_WIN;

	if (!rc) {
		gck_mpi_enter();
		rc = gck_mpi_real.Win_sync(GCK_MPI_REAL_WIN(win));
		gck_mpi_leave();
	}
	return gck_mpi_error(win, rc, "MPI_Win_sync");
}

/* Begins the epoch that lasts as long as the window. MPI_MODE_NOCHECK is right because the stand-in
 * takes no other lock of this window. */
static int begin_epoch(MPI_Win real)
{
	int rc = gck_mpi_real.Win_set_errhandler(real, gck_mpi_real_of(MPI_ERRORS_RETURN));

	return rc ? rc : gck_mpi_real.Win_lock_all(MPI_MODE_NOCHECK, real);
}

static int make_window(struct gck_mpi_win *w, MPI_Info info, MPI_Win *real)
{
	MPI_Comm comm = GCK_MPI_REAL_COMM(w->comm);
	int rc;

	if (w->flavor == MPI_WIN_FLAVOR_DYNAMIC)
		rc = gck_mpi_real.Win_create_dynamic(info, comm, real);
	else
		rc = gck_mpi_real.Win_create(w->base, w->size, w->disp_unit, info, comm, real);
	if (!rc)
		rc = begin_epoch(*real);
	for (struct gck_mpi_region *r = w->regions; r && !rc; r = r->next)
		rc = gck_mpi_real.Win_attach(*real, r->base, r->size);
	return rc;
}

/* Makes the real window of the locks. The program's hints are for its own window, not this one. */
static int make_locks(struct gck_mpi_win *w, MPI_Win *real)
{
	int rc = gck_mpi_real.Win_create(w->words, sizeof(*w->words), sizeof(w->words->next),
					 gck_mpi_real_of(MPI_INFO_NULL),
					 GCK_MPI_REAL_COMM(w->comm), real);

	if (rc)
		return rc;
	return gck_mpi_real.Win_set_errhandler(*real, gck_mpi_real_of(MPI_ERRORS_RETURN));
}

int gck_mpi_win_make_real(struct gck_mpi_win *w)
{
	MPI_Win real = NULL, locks = NULL;
	int rc = make_window(w, gck_mpi_real_handle(w->info, GCK_MPI_INFO), &real);

	if (!rc && !w->no_locks)
		rc = make_locks(w, &locks);
	if (rc)
		return rc;
	gck_mpi_handle_set_real(&w->h, real);
	w->real_locks = locks;
	return MPI_SUCCESS;
}

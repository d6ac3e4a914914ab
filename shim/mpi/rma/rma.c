/* SPDX-License-Identifier: Apache-2.0
 * One-sided operations. They go to the real window, which is always open to all targets, after a
 * check that the program is in an epoch for the target. */
#include "config.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/p2p/request.h"
#include "shim/mpi/p2p/request_pool.h"
#include "shim/mpi/rma/rma.h"

/* Checks the epoch and enters the gate for an operation; stays outside if it returns an error. */
static int begin(MPI_Win win, int target, const char *function)
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);
	int rc = w ? gck_mpi_epoch_check(w, target) : MPI_ERR_WIN;

	if (rc)
		return rc;
	gck_mpi_enter_as(function);
	atomic_store_explicit(&w->dirty, true, memory_order_relaxed);
	return MPI_SUCCESS;
}

/* Defines an operation: check, real call, end. */
#define OPERATION(name, parameters, target, ...) \
	GCK_MPI_FUNCTION(name, parameters) \
	{ \
		int rc = begin(win, target, __func__); \
\
		if (!rc) { \
			rc = gck_mpi_real.name(__VA_ARGS__, GCK_MPI_REAL_WIN(win)); \
			gck_mpi_leave(); \
		} \
		return gck_mpi_error(win, rc, "MPI_" #name); \
	}

OPERATION(Put, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
		int target_rank, MPI_Aint target_disp, int target_count,
		MPI_Datatype target_datatype, MPI_Win win),
	  target_rank, origin_addr, origin_count, GCK_MPI_REAL_TYPE(origin_datatype), target_rank,
	  target_disp, target_count, GCK_MPI_REAL_TYPE(target_datatype))

OPERATION(Get, (void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
		int target_rank, MPI_Aint target_disp, int target_count,
		MPI_Datatype target_datatype, MPI_Win win),
	  target_rank, origin_addr, origin_count, GCK_MPI_REAL_TYPE(origin_datatype), target_rank,
	  target_disp, target_count, GCK_MPI_REAL_TYPE(target_datatype))

OPERATION(Accumulate, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
		       int target_rank, MPI_Aint target_disp, int target_count,
		       MPI_Datatype target_datatype, MPI_Op op, MPI_Win win),
	  target_rank, origin_addr, origin_count, GCK_MPI_REAL_TYPE(origin_datatype), target_rank,
	  target_disp, target_count, GCK_MPI_REAL_TYPE(target_datatype), GCK_MPI_REAL_OP(op))

OPERATION(Get_accumulate, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
			   void *result_addr, int result_count, MPI_Datatype result_datatype,
			   int target_rank, MPI_Aint target_disp, int target_count,
			   MPI_Datatype target_datatype, MPI_Op op, MPI_Win win),
	  target_rank, origin_addr, origin_count, GCK_MPI_REAL_TYPE(origin_datatype), result_addr,
	  result_count, GCK_MPI_REAL_TYPE(result_datatype), target_rank, target_disp, target_count,
	  GCK_MPI_REAL_TYPE(target_datatype), GCK_MPI_REAL_OP(op))

OPERATION(Fetch_and_op, (const void *origin_addr, void *result_addr, MPI_Datatype datatype,
			 int target_rank, MPI_Aint target_disp, MPI_Op op, MPI_Win win),
	  target_rank, origin_addr, result_addr, GCK_MPI_REAL_TYPE(datatype), target_rank,
	  target_disp, GCK_MPI_REAL_OP(op))

OPERATION(Compare_and_swap, (const void *origin_addr, const void *compare_addr, void *result_addr,
			     MPI_Datatype datatype, int target_rank, MPI_Aint target_disp,
			     MPI_Win win),
	  target_rank, origin_addr, compare_addr, result_addr, GCK_MPI_REAL_TYPE(datatype),
	  target_rank, target_disp)

/* ---- with a request ------------------------------------------------------------------------- */

/* The operation completes without the target's program, so a quiesce waits for it. */
static const struct gck_mpi_request_class class = {.name = "one-sided operation",
						   .ends_alone = true};

static bool is_passive(const struct gck_mpi_win *w)
{
	return w && (w->epoch == GCK_MPI_EPOCH_LOCKED || w->epoch == GCK_MPI_EPOCH_LOCKED_ALL);
}

static struct gck_mpi_request *begin_request(MPI_Win win, int target, const char *function, int *rc)
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);
	struct gck_mpi_request *r;

	*rc = w && !is_passive(w) ? MPI_ERR_RMA_SYNC : begin(win, target, function);
	if (*rc)
		return NULL;
	r = gck_mpi_request_start(&class, w->comm, NULL);
	if (!r) {
		gck_mpi_leave();
		*rc = MPI_ERR_NO_MEM;
	}
	return r;
}

/* Leaves the gate. */
static int end_request(struct gck_mpi_request *r, int rc, MPI_Request *request)
{
	if (rc)
		gck_mpi_request_free(r);
	else
		*request = (MPI_Request)r;
	gck_mpi_leave();
	return rc;
}

#define REQUEST(name, parameters, target, ...) \
	GCK_MPI_FUNCTION(name, parameters) \
	{ \
		int rc; \
		struct gck_mpi_request *r = begin_request(win, target, __func__, &rc); \
\
		if (r) \
			rc = end_request(r, gck_mpi_real.name(__VA_ARGS__, GCK_MPI_REAL_WIN(win), \
							      (MPI_Request *)&r->h.real), \
					 request); \
		return gck_mpi_error(win, rc, "MPI_" #name); \
	}

REQUEST(Rput, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
	       int target_rank, MPI_Aint target_disp, int target_count,
	       MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request),
	target_rank, origin_addr, origin_count, GCK_MPI_REAL_TYPE(origin_datatype), target_rank,
	target_disp, target_count, GCK_MPI_REAL_TYPE(target_datatype))

REQUEST(Rget, (void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
	       MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win,
	       MPI_Request *request),
	target_rank, origin_addr, origin_count, GCK_MPI_REAL_TYPE(origin_datatype), target_rank,
	target_disp, target_count, GCK_MPI_REAL_TYPE(target_datatype))

REQUEST(Raccumulate, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
		      int target_rank, MPI_Aint target_disp, int target_count,
		      MPI_Datatype target_datatype, MPI_Op op, MPI_Win win, MPI_Request *request),
	target_rank, origin_addr, origin_count, GCK_MPI_REAL_TYPE(origin_datatype), target_rank,
	target_disp, target_count, GCK_MPI_REAL_TYPE(target_datatype), GCK_MPI_REAL_OP(op))

REQUEST(Rget_accumulate, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
			  void *result_addr, int result_count, MPI_Datatype result_datatype,
			  int target_rank, MPI_Aint target_disp, int target_count,
			  MPI_Datatype target_datatype, MPI_Op op, MPI_Win win,
			  MPI_Request *request),
	target_rank, origin_addr, origin_count, GCK_MPI_REAL_TYPE(origin_datatype), result_addr,
	result_count, GCK_MPI_REAL_TYPE(result_datatype), target_rank, target_disp, target_count,
	GCK_MPI_REAL_TYPE(target_datatype), GCK_MPI_REAL_OP(op))

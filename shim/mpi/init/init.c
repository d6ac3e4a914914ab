/* SPDX-License-Identifier: Apache-2.0
 * MPI_Init and MPI_Finalize, and initialisation again after a restart. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "shim/mpi/handles/bind.h"
#include "shim/mpi/base/allgather.h"
#include "shim/mpi/base/function.h"
#include "shim/mpi/base/pmix.h"
#include "shim/mpi/base/mpi_thread.h"
#include "shim/mpi/collective/dynamic.h"
#include "shim/mpi/comm/comm.h"
#include "shim/mpi/handles/attribute.h"
#include "shim/mpi/handles/attribute_predefined.h"
#include "shim/mpi/p2p/request_pool.h"
#include "shim/mpi/tool/tool.h"
#include "shim/namespace/namespace.h"

#define AGREE_S 60
#define AGREE_PAUSE_NS 50000

static struct {
	/* The level requested of the real library is the program's. The MPI thread calls it as
	 * well, but never while another thread is inside, and the gate orders memory between them.
	 * A higher level would only make Open MPI use locked instructions in every call. */
	int level;
	int provided_level;                  /* the level reported to the program */
	pthread_t main;                      /* the thread that called MPI_Init */
} state;

/* Makes the real library return errors to us; gck_mpi_error applies the program's handlers. */
static int return_errors(void)
{
	MPI_Errhandler errors_return = gck_mpi_real_of(MPI_ERRORS_RETURN);
	int rc = gck_mpi_real.Comm_set_errhandler(gck_mpi_real_of(MPI_COMM_WORLD), errors_return);

	if (!rc)
		rc = gck_mpi_real.Comm_set_errhandler(gck_mpi_real_of(MPI_COMM_SELF),
						      errors_return);
	return rc;
}

static int init_again(struct gck_error *err)
{
	int provided, rc = gck_mpi_real.Init_thread(NULL, NULL, state.level, &provided);

	if (!rc)
		rc = return_errors();
	if (!rc)
		rc = gck_mpi_tag_ub_take();
	if (rc)
		return gck_fail(err, EIO,
				"MPI_Init of %s failed with code %d after a restart; see its "
				"messages in the step's output",
				gck_namespace_library(), rc);
	if (provided < state.level)
		return gck_fail(err, ENOTSUP,
				"%s provides MPI thread level %d, but provided %d before the "
				"restart: it is another build; use the one that the job started "
				"with",
				gck_namespace_library(), provided, state.level);
	gck_mpi_pmix_bind();
	return 0;
}

static int init_real(int *argc, char ***argv, int required)
{
	struct gck_error err = {0};
	int rc, provided, rank, size;

	if (gck_namespace_take_environment(&err)) {
		fprintf(stderr, "gpuckpt: MPI_Init: %s\n", err.text);
		return MPI_ERR_OTHER;
	}
	state.level = required;
	rc = gck_mpi_real.Init_thread(argc, argv, state.level, &provided);
	if (rc)
		return rc;
	state.provided_level = provided < required ? provided : required;
	state.main = pthread_self();
	rc = return_errors();
	if (!rc)
		rc = gck_mpi_real.Comm_rank(gck_mpi_real_of(MPI_COMM_WORLD), &rank);
	if (!rc)
		rc = gck_mpi_real.Comm_size(gck_mpi_real_of(MPI_COMM_WORLD), &size);
	if (!rc)
		rc = gck_mpi_tag_ub_take();
	if (!rc && (gck_mpi_comm_init(&err) || gck_mpi_dynamic_init(&err))) {
		fprintf(stderr, "gpuckpt: MPI_Init: %s\n", err.text);
		rc = MPI_ERR_NO_MEM;
	}
	if (!rc && gck_mpi_request_init(size, state.provided_level == MPI_THREAD_MULTIPLE))
		rc = MPI_ERR_NO_MEM;
	if (rc)
		return rc;
	gck_mpi_pmix_bind();
	gck_mpi_set_initialized(init_again);
	gck_mpi_thread_initialized(rank, size);
	return MPI_SUCCESS;
}

static int init_first(int *argc, char ***argv, int required)
{
	int rc;

	gck_mpi_thread_initializing();
	rc = init_real(argc, argv, required);
	if (rc)
		gck_mpi_thread_uninitialized();
	return rc;
}

/* The real library reports a second MPI_Init. It cannot report one after MPI_Finalize, because a
 * restart may have loaded a fresh copy. */
static int init(int *argc, char ***argv, int required, const char *function)
{
	int rc, ignored;

	gck_mpi_enter_as(function);
	if (gck_mpi_finalized()) {
		fprintf(stderr, "gpuckpt: %s was called after MPI_Finalize\n", function);
		rc = MPI_ERR_OTHER;
	} else if (gck_mpi_initialized()) {
		rc = gck_mpi_real.Init_thread(argc, argv, required, &ignored);
	} else {
		rc = init_first(argc, argv, required);
	}
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, function);
}

GCK_MPI_FUNCTION(Init, (int *argc, char ***argv))
{
	const char *level = getenv("OMPI_MPI_THREAD_LEVEL"); /* like Open MPI's own MPI_Init */
	int required = level ? atoi(level) : MPI_THREAD_SINGLE;

	if (required < MPI_THREAD_SINGLE || required > MPI_THREAD_MULTIPLE)
		required = MPI_THREAD_MULTIPLE;
	return init(argc, argv, required, "MPI_Init");
}

GCK_MPI_FUNCTION(Init_thread, (int *argc, char ***argv, int required, int *provided))
{
	int rc = init(argc, argv, required, "MPI_Init_thread");

	if (!rc && provided)
		*provided = state.provided_level;
	return rc;
}

/* The largest fence in which a rank waits; 0: none, or not all ranks have this library and ask. The
 * others would wait in MPI_Finalize for a rank that waits here without a limit. */
static uint64_t find_pending_fence(uint64_t own_fence)
{
	static uint64_t own, pending; /* the real library may use them for longer */
	int64_t end = gck_mpi_now_ns() + AGREE_S * 1000000000ll;
	MPI_Request request;
	int done = 0, rc;

	own = own_fence;
	rc = gck_mpi_real.Iallreduce(&own, &pending, 1, gck_mpi_real_of(MPI_UINT64_T),
				     gck_mpi_real_of(MPI_MAX), gck_mpi_real_of(MPI_COMM_WORLD),
				     &request);
	while (!rc && !done && gck_mpi_now_ns() < end) {
		rc = gck_mpi_real.Test(&request, &done, MPI_STATUS_IGNORE);
		if (!done)
			nanosleep(&(struct timespec){.tv_nsec = AGREE_PAUSE_NS}, NULL);
	}
	return done && !rc ? pending : 0;
}

/* A quiesce that was called off may have left some ranks in a fence that others have not entered.
 * The next fence of each rank is MPI_Finalize's: some ranks would leave it early, some never. Ranks
 * outside a step with --gpu-ckpt enter no fence, and do not communicate here. */
static void end_fences(void)
{
	uint64_t own_fence = gck_mpi_pmix_leave(), pending_fence;

	pending_fence = gck_mpi_thread_in_step() ? find_pending_fence(own_fence) : 0;
	if (pending_fence)
		gck_mpi_pmix_join(pending_fence);
	gck_mpi_pmix_give_up();
}

GCK_MPI_FUNCTION(Finalize, (void))
{
	struct gck_error err = {0};
	int rc = 0;

	if (gck_mpi_running())
		rc = gck_mpi_attributes_delete(MPI_COMM_SELF);
	if (!rc && gck_mpi_running()) /* not required by MPI, but Open MPI does it */
		rc = gck_mpi_attributes_delete(MPI_COMM_WORLD);
	gck_mpi_enter();
	if (!rc && gck_mpi_running() && gck_mpi_t_finalizing(&err)) {
		fprintf(stderr, "gpuckpt: MPI_Finalize: %s\n", err.text);
		rc = MPI_ERR_NO_MEM;
	}
	if (!rc) {
		gck_mpi_set_leaving(true);
		if (gck_mpi_running())
			end_fences();
		rc = gck_mpi_real.Finalize();
		gck_mpi_set_leaving(!rc);
	}
	if (!rc) {
		gck_mpi_set_finalized();
		gck_mpi_thread_uninitialized();
	}
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Finalize");
}

GCK_MPI_FUNCTION(Initialized, (int *flag))
{
	*flag = gck_mpi_initialized();
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Finalized, (int *flag))
{
	*flag = gck_mpi_finalized();
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Query_thread, (int *provided))
{
	int ignored, rc = MPI_SUCCESS;

	if (!gck_mpi_running()) {
		gck_mpi_enter();
		rc = gck_mpi_real.Query_thread(&ignored);
		gck_mpi_leave();
	} else {
		*provided = state.provided_level;
	}
	return gck_mpi_error(NULL, rc, "MPI_Query_thread");
}

GCK_MPI_FUNCTION(Is_thread_main, (int *flag))
{
	int ignored, rc = MPI_SUCCESS;

	if (!gck_mpi_running()) {
		gck_mpi_enter();
		rc = gck_mpi_real.Is_thread_main(&ignored);
		gck_mpi_leave();
	} else {
		*flag = pthread_equal(pthread_self(), state.main) != 0;
	}
	return gck_mpi_error(NULL, rc, "MPI_Is_thread_main");
}

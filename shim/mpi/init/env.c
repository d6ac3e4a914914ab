/* SPDX-License-Identifier: Apache-2.0
 * Functions that need no communication: the clock, versions, addresses. */
#include <stdatomic.h>
#include <time.h>

#include "shim/mpi/base/function.h"

/* Nanoseconds. CLOCK_MONOTONIC has another origin on another node, and the program's clock must
 * never go back. A smaller step back than this comes from two threads that overtake each other. */
#define OVERTAKE_NS 1000000

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

GCK_MPI_FUNCTION_OF(double, Wtime, (void))
{
	static _Atomic int64_t last, offset; /* last value returned; offset added to the clock */
	int64_t own_offset = atomic_load_explicit(&offset, memory_order_relaxed);
	int64_t now = now_ns() + own_offset;
	int64_t before = atomic_load_explicit(&last, memory_order_relaxed);

	if (now < before - OVERTAKE_NS) {
		atomic_compare_exchange_strong(&offset, &own_offset, own_offset + (before - now));
		now = before;
	}
	atomic_store_explicit(&last, now, memory_order_relaxed);
	return (double)now * 1e-9;
}

GCK_MPI_FUNCTION_OF(double, Wtick, (void))
{
	struct timespec t;

	clock_getres(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

GCK_MPI_FUNCTION(Get_version, (int *version, int *subversion))
{
	if (!version || !subversion)
		return gck_mpi_error(NULL, MPI_ERR_ARG, "MPI_Get_version");
	*version = MPI_VERSION;
	*subversion = MPI_SUBVERSION;
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Get_library_version, (char *version, int *resultlen))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.Get_library_version(version, resultlen);
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Get_library_version");
}

GCK_MPI_FUNCTION(Get_address, (const void *location, MPI_Aint *address))
{
	if (!address)
		return gck_mpi_error(NULL, MPI_ERR_ARG, "MPI_Get_address");
	*address = (MPI_Aint)location;
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Address, (void *location, MPI_Aint *address))
{
	if (!address)
		return gck_mpi_error(NULL, MPI_ERR_ARG, "MPI_Address");
	*address = (MPI_Aint)location;
	return MPI_SUCCESS;
}

/* Tools may wrap it; Open MPI's does nothing either. */
GCK_MPI_FUNCTION(Pcontrol, (const int level, ...))
{
	(void)level;
	return MPI_SUCCESS;
}

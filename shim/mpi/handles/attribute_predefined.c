/* SPDX-License-Identifier: Apache-2.0
 * The attributes that MPI itself sets. Those of MPI_COMM_WORLD come from the library of the first
 * step. The program may have stored them, so a restart does not change them. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/handles/attribute.h"
#include "shim/mpi/handles/attribute_predefined.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool loaded;
static int seen_tag_ub; /* the value that the program may have seen */

int gck_mpi_tag_ub = INT_MAX / 2;

static int put_integer(void *handle, int number, int value)
{
	const struct gck_mpi_value v = {.language = GCK_MPI_FORTRAN, .integer = value};

	return gck_mpi_attribute_put(handle, number, &v);
}

/* Halves the range, so that each tag of the program from 0 on has a counterpart above all of them.
 * */
int gck_mpi_tag_ub_take(void)
{
	int *value, flag, rc;

	rc = gck_mpi_real.Comm_get_attr(GCK_MPI_REAL_COMM(MPI_COMM_WORLD), MPI_TAG_UB, &value,
					&flag);
	if (rc || !flag)
		return rc ? rc : MPI_ERR_INTERN;
	gck_mpi_tag_ub = (*value - 1) / 2;
	return MPI_SUCCESS;
}

int gck_mpi_own_tag(int tag)
{
	return tag < 0 || tag > gck_mpi_tag_ub ? tag : gck_mpi_tag_ub + 1 + tag;
}

static int load_one(int number)
{
	int *value, flag, rc;

	gck_mpi_enter();
	rc = gck_mpi_real.Comm_get_attr(GCK_MPI_REAL_COMM(MPI_COMM_WORLD), number, &value, &flag);
	gck_mpi_leave();
	if (rc != MPI_SUCCESS || !flag)
		return rc;
	if (number != MPI_TAG_UB)
		return put_integer(MPI_COMM_WORLD, number, *value);
	seen_tag_ub = gck_mpi_tag_ub;
	return put_integer(MPI_COMM_WORLD, number, seen_tag_ub);
}

int gck_mpi_attributes_of_world(void)
{
	int rc = MPI_SUCCESS;

	if (atomic_load(&loaded))
		return rc;
	pthread_mutex_lock(&lock);
	for (int number = MPI_TAG_UB; number <= MPI_UNIVERSE_SIZE && rc == MPI_SUCCESS; number++)
		if (!atomic_load(&loaded))
			rc = load_one(number);
	if (rc == MPI_SUCCESS)
		atomic_store(&loaded, true);
	pthread_mutex_unlock(&lock);
	return rc;
}

int gck_mpi_attributes_of_win(void *win, void *base, MPI_Aint size, int disp_unit, int flavor,
			      int model)
{
	const struct gck_mpi_value b = {.language = GCK_MPI_C, .pointer = base};
	const struct gck_mpi_value s = {.language = GCK_MPI_FORTRAN_AINT, .aint = size};
	int rc = gck_mpi_attribute_put(win, MPI_WIN_BASE, &b);

	if (rc == MPI_SUCCESS)
		rc = gck_mpi_attribute_put(win, MPI_WIN_SIZE, &s);
	if (rc == MPI_SUCCESS)
		rc = put_integer(win, MPI_WIN_DISP_UNIT, disp_unit);
	if (rc == MPI_SUCCESS)
		rc = put_integer(win, MPI_WIN_CREATE_FLAVOR, flavor);
	if (rc == MPI_SUCCESS)
		rc = put_integer(win, MPI_WIN_MODEL, model);
	return rc;
}

static int rebuild(struct gck_error *err)
{
	if (atomic_load(&loaded) && gck_mpi_tag_ub < seen_tag_ub)
		return gck_fail(err, ENOTSUP, "MPI_TAG_UB is %d here, but the program read %d "
					      "before the restart: restart where Open MPI uses the "
					      "same transport",
				gck_mpi_tag_ub, seen_tag_ub);
	return 0;
}

const struct gck_mpi_participant gck_mpi_attribute_participant = {"attribute", NULL, rebuild, NULL};

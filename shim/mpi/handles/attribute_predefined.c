/* SPDX-License-Identifier: Apache-2.0
 * The attributes that MPI itself sets. MPI_COMM_WORLD's are what the first step's library said: a
 * program may keep them, so a restart does not change them. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/handles/attribute.h"
#include "shim/mpi/handles/attribute_predefined.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool read_in;
static int told_tag_ub; /* as the program may have seen it */

int gck_mpi_tag_ub = INT_MAX / 2;

static int put_integer(void *handle, int number, int value)
{
	const struct gck_mpi_value v = {.language = GCK_MPI_FORTRAN, .integer = value};

	return gck_mpi_attribute_put(handle, number, &v);
}

/* For each of the program's tags, from 0 on, there is one above them all. */
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

static int take_over(int number)
{
	int *value, flag, rc;

	gck_mpi_enter();
	rc = gck_mpi_real.Comm_get_attr(GCK_MPI_REAL_COMM(MPI_COMM_WORLD), number, &value, &flag);
	gck_mpi_leave();
	if (rc != MPI_SUCCESS || !flag)
		return rc;
	if (number != MPI_TAG_UB)
		return put_integer(MPI_COMM_WORLD, number, *value);
	told_tag_ub = gck_mpi_tag_ub;
	return put_integer(MPI_COMM_WORLD, number, told_tag_ub);
}

int gck_mpi_attributes_of_world(void)
{
	int rc = MPI_SUCCESS;

	if (atomic_load(&read_in))
		return rc;
	pthread_mutex_lock(&lock);
	for (int number = MPI_TAG_UB; number <= MPI_UNIVERSE_SIZE && rc == MPI_SUCCESS; number++)
		if (!atomic_load(&read_in))
			rc = take_over(number);
	if (rc == MPI_SUCCESS)
		atomic_store(&read_in, true);
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
	if (atomic_load(&read_in) && gck_mpi_tag_ub < told_tag_ub)
		return gck_fail(err, ENOTSUP, "MPI_TAG_UB is %d here and was %d where the program "
				"asked for it: restart where Open MPI uses the same transport",
				gck_mpi_tag_ub, told_tag_ub);
	return 0;
}

const struct gck_mpi_participant gck_mpi_attribute_participant = {"attribute", NULL, rebuild, NULL};

/* SPDX-License-Identifier: Apache-2.0
 * Data representations that the program registers. The real library calls them with its own
 * datatypes, which are translated here. After a restart they are registered again. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/file/file.h"
#include "shim/mpi/types/datatype.h"

struct datarep {
	char name[MPI_MAX_DATAREP_STRING];
	MPI_Datarep_conversion_function *read, *write;
	MPI_Datarep_extent_function *extent;
	void *extra;
	struct datarep *next;
};

/* Only grows: MPI has no call to unregister. */
static struct {
	pthread_mutex_t lock;
	struct datarep *first;
} datareps = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int read_by(void *userbuf, MPI_Datatype type, int count, void *filebuf, MPI_Offset position,
		   void *extra)
{
	const struct datarep *d = extra;

	return d->read(userbuf, gck_mpi_type_of_real(type), count, filebuf, position, d->extra);
}

static int write_by(void *userbuf, MPI_Datatype type, int count, void *filebuf, MPI_Offset position,
		    void *extra)
{
	const struct datarep *d = extra;

	return d->write(userbuf, gck_mpi_type_of_real(type), count, filebuf, position, d->extra);
}

static int extent_by(MPI_Datatype type, MPI_Aint *extent, void *extra)
{
	const struct datarep *d = extra;

	return d->extent(gck_mpi_type_of_real(type), extent, d->extra);
}

static int register_real(struct datarep *d)
{
	return gck_mpi_real.Register_datarep(
		d->name, d->read ? read_by : MPI_CONVERSION_FN_NULL,
		d->write ? write_by : MPI_CONVERSION_FN_NULL, d->extent ? extent_by : NULL, d);
}

static int add(struct datarep *d)
{
	int rc;

	gck_mpi_enter_as("MPI_Register_datarep");
	rc = register_real(d);
	if (!rc) {
		pthread_mutex_lock(&datareps.lock);
		d->next = datareps.first;
		datareps.first = d;
		pthread_mutex_unlock(&datareps.lock);
	}
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(Register_datarep, (const char *datarep,
				    MPI_Datarep_conversion_function *read_conversion_fn,
				    MPI_Datarep_conversion_function *write_conversion_fn,
				    MPI_Datarep_extent_function *dtype_file_extent_fn,
				    void *extra_state))
{
	struct datarep *d = calloc(1, sizeof(*d));
	int rc = d ? MPI_SUCCESS : MPI_ERR_NO_MEM;

	if (!rc && (!datarep || strlen(datarep) >= sizeof(d->name)))
		rc = MPI_ERR_ARG;
	if (!rc) {
		strcpy(d->name, datarep);
		d->read = read_conversion_fn;
		d->write = write_conversion_fn;
		d->extent = dtype_file_extent_fn;
		d->extra = extra_state;
		rc = add(d);
	}
	if (rc)
		free(d);
	return gck_mpi_error(MPI_FILE_NULL, rc, "MPI_Register_datarep");
}

int gck_mpi_datarep_rebuild(struct gck_error *err)
{
	for (struct datarep *d = datareps.first; d; d = d->next)
		if (register_real(d))
			return gck_fail(err, EIO,
					"data representation %s cannot be registered again after a "
					"restart (MPI_Register_datarep)",
					d->name);
	return 0;
}

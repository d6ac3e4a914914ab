/* SPDX-License-Identifier: Apache-2.0
 * Split collectives of MPI-IO. The begin does all the work (MPI allows it, and ROMIO does so too);
 * the end returns the status. So nothing is in progress at a checkpoint between the two. */
#include "config.h"

#include <string.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/file/file.h"

/* Enters the gate and counts the collective; stays outside and returns an error class if the call
 * is wrong. */
static int begin(MPI_File fh, const char *split, const char *function)
{
	struct gck_mpi_file *f = gck_mpi_file_of(fh);

	if (!f)
		return MPI_ERR_FILE;
	if (f->split)
		return MPI_ERR_REQUEST; /* one at a time */
	gck_mpi_file_enter_all(fh, function);
	f->split = split;
	if (strstr(split, "ordered"))
		f->shared_used = true;
	return MPI_SUCCESS;
}

/* Leaves the gate. */
static int begun(MPI_File fh, int rc)
{
	if (rc)
		gck_mpi_file_of(fh)->split = NULL;
	gck_mpi_leave();
	return rc;
}

static int end(MPI_File fh, const char *split, MPI_Status *status)
{
	struct gck_mpi_file *f = gck_mpi_file_of(fh);

	if (!f)
		return MPI_ERR_FILE;
	if (!f->split || strcmp(f->split, split) != 0)
		return MPI_ERR_REQUEST;
	if (status != MPI_STATUS_IGNORE)
		*status = f->split_status;
	f->split = NULL;
	return MPI_SUCCESS;
}

#define STATUS (&gck_mpi_file_of(fh)->split_status)

#define SPLIT(name, constness, parameters, ...) \
	GCK_MPI_FUNCTION(name##_begin, parameters) \
	{ \
		int rc = begin(fh, #name, __func__); \
\
		if (!rc) \
			rc = begun(fh, gck_mpi_real.name(GCK_MPI_REAL_FILE(fh), __VA_ARGS__, \
							 STATUS)); \
		return gck_mpi_error(fh, rc, "MPI_" #name "_begin"); \
	} \
	GCK_MPI_FUNCTION(name##_end, (MPI_File fh, constness void *buf, MPI_Status *status)) \
	{ \
		(void)buf; \
		return gck_mpi_error(fh, end(fh, #name, status), "MPI_" #name "_end"); \
	}

SPLIT(File_read_all, , (MPI_File fh, void *buf, int count, MPI_Datatype datatype), buf, count,
      GCK_MPI_REAL_TYPE(datatype))
SPLIT(File_write_all, const, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype), buf,
      count, GCK_MPI_REAL_TYPE(datatype))
SPLIT(File_read_at_all, , (MPI_File fh, MPI_Offset offset, void *buf, int count,
			   MPI_Datatype datatype),
      offset, buf, count, GCK_MPI_REAL_TYPE(datatype))
SPLIT(File_write_at_all, const, (MPI_File fh, MPI_Offset offset, const void *buf, int count,
				 MPI_Datatype datatype),
      offset, buf, count, GCK_MPI_REAL_TYPE(datatype))
SPLIT(File_read_ordered, , (MPI_File fh, void *buf, int count, MPI_Datatype datatype), buf, count,
      GCK_MPI_REAL_TYPE(datatype))
SPLIT(File_write_ordered, const, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype),
      buf, count, GCK_MPI_REAL_TYPE(datatype))

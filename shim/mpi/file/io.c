/* SPDX-License-Identifier: Apache-2.0
 * MPI-IO: reading and writing. Calls of a single rank are generated (functions.tbl), except those
 * with a request or the shared file pointer. */
#include "config.h"

#include <string.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/file/file.h"
#include "shim/mpi/p2p/request.h"
#include "shim/mpi/p2p/request_pool.h"

/* Notes that the shared file pointer is used. A checkpoint asks for it only then, because asking
 * creates it. */
static void use_shared(MPI_File fh)
{
	struct gck_mpi_file *f = gck_mpi_file_of(fh);

	if (f)
		f->shared_used = true;
}

/* How a call enters the gate, for the macros below. */
#define ALONE(fh) gck_mpi_enter()
#define SHARED(fh) (gck_mpi_enter(), use_shared(fh))
#define ALL(fh) gck_mpi_file_enter_all(fh, __func__)
#define ORDERED(fh) (ALL(fh), use_shared(fh))

#define BLOCKING(enter, name, parameters, ...) \
	GCK_MPI_FUNCTION(name, parameters) \
	{ \
		int rc; \
\
		enter(fh); \
		rc = gck_mpi_real.name(GCK_MPI_REAL_FILE(fh), __VA_ARGS__); \
		gck_mpi_leave(); \
		return gck_mpi_error(fh, rc, "MPI_" #name); \
	}

/* ---- shared file pointer -------------------------------------------------------------------- */

BLOCKING(SHARED, File_get_position_shared, (MPI_File fh, MPI_Offset *offset), offset)
BLOCKING(ORDERED, File_seek_shared, (MPI_File fh, MPI_Offset offset, int whence), offset, whence)
BLOCKING(SHARED, File_read_shared,
	 (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
	 buf, count, GCK_MPI_REAL_TYPE(datatype), status)
BLOCKING(SHARED, File_write_shared,
	 (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
	 buf, count, GCK_MPI_REAL_TYPE(datatype), status)
BLOCKING(ORDERED, File_read_ordered,
	 (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
	 buf, count, GCK_MPI_REAL_TYPE(datatype), status)
BLOCKING(ORDERED, File_write_ordered,
	 (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
	 buf, count, GCK_MPI_REAL_TYPE(datatype), status)

/* ---- collective ----------------------------------------------------------------------------- */

BLOCKING(ALL, File_read_all,
	 (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
	 buf, count, GCK_MPI_REAL_TYPE(datatype), status)
BLOCKING(ALL, File_write_all,
	 (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
	 buf, count, GCK_MPI_REAL_TYPE(datatype), status)
BLOCKING(ALL, File_read_at_all,
	 (MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype,
	  MPI_Status *status),
	 offset, buf, count, GCK_MPI_REAL_TYPE(datatype), status)
BLOCKING(ALL, File_write_at_all,
	 (MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype,
	  MPI_Status *status),
	 offset, buf, count, GCK_MPI_REAL_TYPE(datatype), status)

/* ---- with a request ------------------------------------------------------------------------- */

/* It completes without other ranks, so a quiesce waits for it. */
static const struct gck_mpi_request_class class = {.name = "file access", .ends_alone = true};

/* Called in the gate. */
static struct gck_mpi_request *new_request(MPI_File fh)
{
	struct gck_mpi_file *f = gck_mpi_file_of(fh);

	return f ? gck_mpi_request_start(&class, f->comm, NULL) : NULL;
}

static int no_request(MPI_File fh)
{
	return gck_mpi_file_of(fh) ? MPI_ERR_NO_MEM : MPI_ERR_FILE;
}

static int end_request(struct gck_mpi_request *r, int rc, MPI_Request *request)
{
	if (rc)
		gck_mpi_request_free(r);
	else
		*request = (MPI_Request)r;
	return rc;
}

/* real_name: the real function. Collective calls use the function for a single rank, as Open MPI
 * itself does: the result is the same, and before a checkpoint no rank must wait for another's
 * program. */
#define REQUEST(enter, name, real_name, parameters, ...) \
	GCK_MPI_FUNCTION(name, parameters) \
	{ \
		struct gck_mpi_request *r; \
		int rc; \
\
		enter(fh); \
		r = new_request(fh); \
		if (r) \
			rc = end_request(r, \
					 gck_mpi_real.real_name(GCK_MPI_REAL_FILE(fh), \
								__VA_ARGS__, \
								(MPI_Request *)&r->h.real), \
					 request); \
		else \
			rc = no_request(fh); \
		gck_mpi_leave(); \
		return gck_mpi_error(fh, rc, "MPI_" #name); \
	}

#define HERE_READ \
	(MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Request *request)
#define HERE_WRITE \
	(MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Request *request)
#define AT_READ \
	(MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype, \
	 MPI_Request *request)
#define AT_WRITE \
	(MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype, \
	 MPI_Request *request)

REQUEST(ALONE, File_iread, File_iread, HERE_READ, buf, count, GCK_MPI_REAL_TYPE(datatype))
REQUEST(ALONE, File_iwrite, File_iwrite, HERE_WRITE, buf, count, GCK_MPI_REAL_TYPE(datatype))
REQUEST(ALONE, File_iread_all, File_iread, HERE_READ, buf, count, GCK_MPI_REAL_TYPE(datatype))
REQUEST(ALONE, File_iwrite_all, File_iwrite, HERE_WRITE, buf, count, GCK_MPI_REAL_TYPE(datatype))
REQUEST(SHARED, File_iread_shared, File_iread_shared, HERE_READ, buf, count,
	GCK_MPI_REAL_TYPE(datatype))
REQUEST(SHARED, File_iwrite_shared, File_iwrite_shared, HERE_WRITE, buf, count,
	GCK_MPI_REAL_TYPE(datatype))
REQUEST(ALONE, File_iread_at, File_iread_at, AT_READ, offset, buf, count,
	GCK_MPI_REAL_TYPE(datatype))
REQUEST(ALONE, File_iwrite_at, File_iwrite_at, AT_WRITE, offset, buf, count,
	GCK_MPI_REAL_TYPE(datatype))
REQUEST(ALONE, File_iread_at_all, File_iread_at, AT_READ, offset, buf, count,
	GCK_MPI_REAL_TYPE(datatype))
REQUEST(ALONE, File_iwrite_at_all, File_iwrite_at, AT_WRITE, offset, buf, count,
	GCK_MPI_REAL_TYPE(datatype))

/* ---- split collectives ---------------------------------------------------------------------- */

/* The begin does all the work (MPI allows it, and ROMIO does so too); the end returns the status.
 * So nothing is in progress at a checkpoint between the two. */

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

/* SPDX-License-Identifier: Apache-2.0
 * MPI-IO: opening and closing files, their views and properties. */
#include "config.h"

#include "shim/mpi/file/file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/errhandler.h"
#include "shim/mpi/types/datatype.h"

void gck_mpi_file_enter_all(MPI_File fh, const char *function)
{
	struct gck_mpi_file *f = gck_mpi_file_of(fh);

	gck_mpi_enter_as(function);
	if (f)
		gck_mpi_clock_tick(&gck_mpi_comm_of(f->comm)->clock);
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Skips a prefix that chooses a driver: "nfs:/a/b" has one, "/a/b:c" has none. */
static const char *without_driver(const char *name)
{
	const char *colon = strchr(name, ':'), *slash = strchr(name, '/');

	return colon && colon - name > 1 && (!slash || colon < slash) ? colon + 1 : name;
}

static char *absolute(const char *name)
{
	char cwd[PATH_MAX], *path;

	name = without_driver(name);
	if (*name == '/' || !getcwd(cwd, sizeof(cwd)))
		return strdup(name);
	path = malloc(strlen(cwd) + strlen(name) + 2);
	if (path)
		stpcpy(stpcpy(stpcpy(path, cwd), "/"), name);
	return path;
}

static void default_view(struct gck_mpi_file *f)
{
	f->disp = 0;
	f->etype = f->filetype = MPI_BYTE;
	strcpy(f->datarep, "native");
}

static void destroy(struct gck_mpi_file *f)
{
	if (f->comm && f->comm != MPI_COMM_NULL)
		PMPI_Comm_free(&f->comm);
	if (f->info && f->info != MPI_INFO_NULL)
		PMPI_Info_free(&f->info);
	free(f->name);
	free(f->path);
	free(f->found);
	gck_mpi_handle_free(f);
}

static struct gck_mpi_file *new_file(MPI_Comm comm, const char *name, int amode, MPI_Info info,
				     int *rc)
{
	struct gck_mpi_file *f = gck_mpi_handle_new(GCK_MPI_FILE, sizeof(*f), NULL);

	*rc = MPI_ERR_NO_MEM;
	if (!f)
		return NULL;
	*rc = gck_mpi_private_comm(comm, &f->comm, "MPI_File_open");
	if (!*rc)
		*rc = gck_mpi_private_info(info, &f->info);
	f->amode = amode;
	f->name = strdup(name);
	f->path = absolute(name);
	f->driver = without_driver(name) != name;
	if (!*rc && (!f->name || !f->path))
		*rc = MPI_ERR_NO_MEM;
	default_view(f);
	if (!*rc)
		return f;
	destroy(f);
	return NULL;
}

static int open_real(struct gck_mpi_file *f, MPI_Info info)
{
	MPI_File real;
	int rc;

	gck_mpi_file_enter_all((MPI_File)f, "MPI_File_open");
	rc = gck_mpi_real.File_open(GCK_MPI_REAL_COMM(f->comm), f->name,
				    f->amode & ~MPI_MODE_DELETE_ON_CLOSE,
				    gck_mpi_real_handle(info, GCK_MPI_INFO), &real);
	if (!rc)
		gck_mpi_handle_set_real(f, real);
	gck_mpi_leave();
	return rc;
}

static int check_open(MPI_Comm comm, const char *name, const MPI_File *fh)
{
	if (!gck_mpi_is(comm, GCK_MPI_COMM) || comm == MPI_COMM_NULL ||
	    gck_mpi_comm_of(comm)->inter)
		return MPI_ERR_COMM;
	return name && fh ? MPI_SUCCESS : MPI_ERR_ARG;
}

/* Errors go to the handler of MPI_FILE_NULL, since there is no file yet. */
GCK_MPI_FUNCTION(File_open, (MPI_Comm comm, const char *filename, int amode, MPI_Info info,
			     MPI_File *fh))
{
	int rc = check_open(comm, filename, fh);
	struct gck_mpi_file *f = rc ? NULL : new_file(comm, filename, amode, info, &rc);

	if (f) {
		rc = open_real(f, info);
		if (rc) {
			destroy(f);
		} else {
			gck_mpi_errhandler_inherit(f, MPI_FILE_NULL);
			*fh = (MPI_File)f;
		}
	}
	return gck_mpi_error(MPI_FILE_NULL, rc, "MPI_File_open");
}

/* Implements MPI_MODE_DELETE_ON_CLOSE. The real library does not know the mode, so that only the
 * program's close deletes the file, not the end of a library at a restart. */
static int delete_closed(struct gck_mpi_file *f)
{
	int rc = MPI_SUCCESS, rc2;

	if (gck_mpi_comm_of(f->comm)->rank == 0) {
		gck_mpi_enter_as("MPI_File_close");
		rc = gck_mpi_real.File_delete(f->name, gck_mpi_real_of(MPI_INFO_NULL));
		gck_mpi_leave();
	}
	rc2 = PMPI_Barrier(f->comm);
	return rc ? rc : rc2;
}

GCK_MPI_FUNCTION(File_close, (MPI_File *fh))
{
	struct gck_mpi_file *f = fh ? gck_mpi_file_of(*fh) : NULL;
	MPI_File real;
	int rc;

	if (!f)
		return gck_mpi_error(MPI_FILE_NULL, MPI_ERR_FILE, "MPI_File_close");
	gck_mpi_file_enter_all(*fh, __func__);
	real = GCK_MPI_REAL_FILE(f);
	rc = gck_mpi_real.File_close(&real);
	if (!rc) {
		gck_mpi_type_unref(f->etype);
		gck_mpi_type_unref(f->filetype);
		gck_mpi_handle_set_real(f, NULL); /* so that a restart does not open it */
	}
	gck_mpi_leave();
	if (!rc && f->amode & MPI_MODE_DELETE_ON_CLOSE)
		rc = delete_closed(f);
	if (rc)
		return gck_mpi_error(*fh, rc, "MPI_File_close");
	destroy(f);
	*fh = MPI_FILE_NULL;
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(File_delete, (const char *filename, MPI_Info info))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.File_delete(filename, gck_mpi_real_handle(info, GCK_MPI_INFO));
	gck_mpi_leave();
	return gck_mpi_error(MPI_FILE_NULL, rc, "MPI_File_delete");
}

/* ---- view ----------------------------------------------------------------------------------- */

/* Stores a view that the real library has accepted; it knows the displacement that
 * MPI_DISPLACEMENT_CURRENT meant. Called in the gate. */
static void store_view(struct gck_mpi_file *f, MPI_Offset disp, MPI_Datatype etype,
		      MPI_Datatype filetype, const char *datarep)
{
	if (disp == MPI_DISPLACEMENT_CURRENT) {
		MPI_Datatype real_etype, real_filetype;
		char name[MPI_MAX_DATAREP_STRING];

		gck_mpi_real.File_get_view(GCK_MPI_REAL_FILE(f), &disp, &real_etype,
					   &real_filetype, name);
	}
	gck_mpi_type_ref(etype);
	gck_mpi_type_ref(filetype);
	gck_mpi_type_unref(f->etype);
	gck_mpi_type_unref(f->filetype);
	f->disp = disp;
	f->etype = etype;
	f->filetype = filetype;
	strncpy(f->datarep, datarep, sizeof(f->datarep) - 1);
}

GCK_MPI_FUNCTION(File_set_view, (MPI_File fh, MPI_Offset disp, MPI_Datatype etype,
				 MPI_Datatype filetype, const char *datarep, MPI_Info info))
{
	struct gck_mpi_file *f = gck_mpi_file_of(fh);
	int rc = !f ? MPI_ERR_FILE : !datarep ? MPI_ERR_ARG : MPI_SUCCESS;

	if (!rc)
		rc = gck_mpi_private_info_merge(f->info, info);
	if (!rc) {
		gck_mpi_file_enter_all(fh, __func__);
		rc = gck_mpi_real.File_set_view(
		    GCK_MPI_REAL_FILE(fh), disp, GCK_MPI_REAL_TYPE(etype),
		    GCK_MPI_REAL_TYPE(filetype), datarep, gck_mpi_real_handle(info, GCK_MPI_INFO));
		if (!rc)
			store_view(f, disp, etype, filetype, datarep);
		gck_mpi_leave();
	}
	return gck_mpi_error(fh, rc, "MPI_File_set_view");
}

/* ---- properties ----------------------------------------------------------------------------- */

GCK_MPI_FUNCTION(File_get_group, (MPI_File fh, MPI_Group *group))
{
	struct gck_mpi_file *f = gck_mpi_file_of(fh);

	return gck_mpi_error(fh, f ? PMPI_Comm_group(f->comm, group) : MPI_ERR_FILE,
			     "MPI_File_get_group");
}

/* Does not ask the real library, because a restart opens files with another mode. */
GCK_MPI_FUNCTION(File_get_amode, (MPI_File fh, int *amode))
{
	struct gck_mpi_file *f = gck_mpi_file_of(fh);
	int rc = !f ? MPI_ERR_FILE : !amode ? MPI_ERR_ARG : MPI_SUCCESS;

	if (!rc)
		*amode = f->amode;
	return gck_mpi_error(fh, rc, "MPI_File_get_amode");
}

GCK_MPI_FUNCTION(File_set_info, (MPI_File fh, MPI_Info info))
{
	struct gck_mpi_file *f = gck_mpi_file_of(fh);
	int rc = f ? gck_mpi_private_info_merge(f->info, info) : MPI_ERR_FILE;

	if (!rc) {
		gck_mpi_file_enter_all(fh, __func__);
		rc = gck_mpi_real.File_set_info(GCK_MPI_REAL_FILE(fh),
						gck_mpi_real_handle(info, GCK_MPI_INFO));
		gck_mpi_leave();
	}
	return gck_mpi_error(fh, rc, "MPI_File_set_info");
}

GCK_MPI_FUNCTION(File_set_atomicity, (MPI_File fh, int flag))
{
	struct gck_mpi_file *f = gck_mpi_file_of(fh);
	int rc;

	gck_mpi_file_enter_all(fh, __func__);
	rc = gck_mpi_real.File_set_atomicity(GCK_MPI_REAL_FILE(fh), flag);
	if (!rc && f)
		f->atomic = flag;
	gck_mpi_leave();
	return gck_mpi_error(fh, rc, "MPI_File_set_atomicity");
}

/* Collective calls that change nothing in struct gck_mpi_file. */
#define COLLECTIVE(name, parameters, ...) \
	GCK_MPI_FUNCTION(name, parameters) \
	{ \
		int rc; \
\
		gck_mpi_file_enter_all(fh, __func__); \
		rc = gck_mpi_real.name(GCK_MPI_REAL_FILE(fh), ##__VA_ARGS__); \
		gck_mpi_leave(); \
		return gck_mpi_error(fh, rc, "MPI_" #name); \
	}

COLLECTIVE(File_set_size, (MPI_File fh, MPI_Offset size), size)
COLLECTIVE(File_preallocate, (MPI_File fh, MPI_Offset size), size)
COLLECTIVE(File_sync, (MPI_File fh))

/* SPDX-License-Identifier: Apache-2.0
 * Files of MPI-IO. The real library has them open. The stand-in stores the arguments of the open
 * and the view, and asks for the file pointers at a checkpoint, so that a restart can open the
 * files again. */
#ifndef GCK_MPI_FILE_H
#define GCK_MPI_FILE_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/place/place.h"
#include "shim/mpi/collective/private_comm.h"
#include "shim/mpi/handles/handle.h"

struct gck_mpi_file {
	struct gck_mpi_handle h;
	MPI_Comm comm;             /* private */
	char *name;                /* the program's name for it */
	char *path;                /* absolute, without a prefix that chooses a driver ("ufs:") */
	bool driver;               /* the name has such a prefix: the path may not be the file's */
	char *found;               /* at the checkpoint: the path without links, or NULL */
	struct gck_place_file was; /* and its file */
	int amode;
	bool atomic;
	bool shared_used;          /* this rank has used the shared file pointer */
	MPI_Info info;             /* the program's, with later changes; never NULL */
	/* the view */
	MPI_Offset disp;
	MPI_Datatype etype, filetype; /* references */
	char datarep[MPI_MAX_DATAREP_STRING];
	/* the split collective in progress (io.c) */
	const char *split;         /* its name without _begin; NULL: none */
	MPI_Status split_status;
	/* between save and rebuild */
	MPI_Offset size, position, shared_position; /* -1: unknown, or not used */
};

/* The file behind a program's handle; NULL: MPI_FILE_NULL or an invalid handle. */
static inline struct gck_mpi_file *gck_mpi_file_of(MPI_File fh)
{
	struct gck_mpi_handle *h = (void *)fh;

	if (!gck_mpi_is(h, GCK_MPI_FILE) || h->flags & GCK_MPI_NULL)
		return NULL;
	return (struct gck_mpi_file *)h;
}

/* Enters the gate for a collective call on the file, and counts it. */
void gck_mpi_file_enter_all(MPI_File fh, const char *function);

/* Registers the program's data representations with the fresh library after a restart. */
GCK_MUST_CHECK int gck_mpi_datarep_rebuild(struct gck_error *err);

/* Truncates a file to size bytes and moves the rest into a new file beside it. One rank calls it. A
 * shorter file is an error, and another one than it was. */
GCK_MUST_CHECK int gck_mpi_file_cut(const char *path, const struct gck_place_file *was,
				    long long size, struct gck_error *err);

/* An O_PATH descriptor of the file that was at this path; another one is an error. */
GCK_MUST_CHECK int gck_mpi_file_find(const char *path, const struct gck_place_file *was,
				     struct gck_error *err);

#endif

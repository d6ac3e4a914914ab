/* SPDX-License-Identifier: Apache-2.0
 * Files of MPI-IO. The real library has them open; what they were opened with, and the view, is
 * kept here, and file pointers are asked for at a checkpoint, so that a restart opens them again.
 */
#ifndef GCK_MPI_FILE_H
#define GCK_MPI_FILE_H

#include <stdbool.h>

#include "shim/mpi/collective/private_comm.h"
#include "shim/mpi/handles/handle.h"

struct gck_mpi_file {
	struct gck_mpi_handle h;
	MPI_Comm comm;             /* its own */
	char *name;                /* as the program gave it */
	char *path;                /* absolute, without a prefix that chooses a driver ("ufs:") */
	bool driver;               /* its name has such a prefix: the driver may look elsewhere */
	int amode;
	bool atomic;
	bool shared_used;          /* this rank has used the shared file pointer */
	MPI_Info info;             /* as given and set since; never NULL */
	/* the view */
	MPI_Offset disp;
	MPI_Datatype etype, filetype; /* held */
	char datarep[MPI_MAX_DATAREP_STRING];
	/* a split collective: done when it began, told when it ends */
	const char *split;         /* its name without _begin; NULL: none */
	MPI_Status split_status;
	/* between save and rebuild */
	MPI_Offset size, position, shared_position; /* -1: unknown, or not used */
};

/* The program's handle, or NULL if it is none (or MPI_FILE_NULL). */
static inline struct gck_mpi_file *gck_mpi_file_of(MPI_File fh)
{
	struct gck_mpi_handle *h = (void *)fh;

	if (!gck_mpi_is(h, GCK_MPI_FILE) || h->flags & GCK_MPI_NULL)
		return NULL;
	return (struct gck_mpi_file *)h;
}

/* Into the gate for a call that all ranks of the file make. */
void gck_mpi_file_enter_all(MPI_File fh, const char *function);

/* Representations that the program registered, for a fresh real library. */
int gck_mpi_datarep_rebuild(struct gck_error *err);

/* Cut a file back to size bytes, by one rank: what is cut off goes into a new file beside it. A
 * file that is shorter is an error. */
int gck_mpi_file_cut(const char *path, long long size, struct gck_error *err);

#endif

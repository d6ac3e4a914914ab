/* SPDX-License-Identifier: Apache-2.0
 * What a program hangs on its objects and the real library never sees: name, error handler,
 * attributes. It hangs on our handle (`attached`, NULL until there is any). */
#ifndef GCK_MPI_ATTACHMENT_H
#define GCK_MPI_ATTACHMENT_H

#include <pthread.h>

#include "shim/mpi/handles/handle.h"
#include "common/base/error.h"

struct gck_mpi_attribute;

struct gck_mpi_attached {
	MPI_Errhandler errhandler;            /* NULL: its kind's default; else a reference to it */
	struct gck_mpi_attribute *attributes; /* newest first */
	char *name;                           /* NULL: the real library's own */
	/* Set with what they give back. */
	void (*release_errhandler)(MPI_Errhandler errhandler);
	void (*drop_attributes)(struct gck_mpi_attribute *first);
};

/* Held while what is attached to any handle is looked at or changed; never while the program's code
 * or the real library runs. */
extern pthread_mutex_t gck_mpi_attached_lock;

/* The handle's, made if it has none; NULL: no memory. The lock is held. */
struct gck_mpi_attached *gck_mpi_attached(void *handle);

/* Gives all of it back without calling anybody; gck_mpi_handle_free does so. */
void gck_mpi_attached_free(struct gck_mpi_handle *h);

/* What messages call it; never fails. name: MPI_MAX_OBJECT_NAME bytes. Outside the gate. */
void gck_mpi_name_for_people(struct gck_mpi_handle *h, char *name);

#endif

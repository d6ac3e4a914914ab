/* SPDX-License-Identifier: Apache-2.0
 * What a program attaches to an object: name, error handler, attributes. The stand-in's handle
 * holds them (`attached`, NULL while the object has none); the real library never sees them. */
#ifndef GCK_MPI_ATTACHMENT_H
#define GCK_MPI_ATTACHMENT_H

#include <pthread.h>

#include "shim/mpi/handles/handle.h"
#include "common/base/error.h"

struct gck_mpi_attribute;

struct gck_mpi_attached {
	MPI_Errhandler errhandler;            /* a reference; NULL: the default of the kind */
	struct gck_mpi_attribute *attributes; /* newest first */
	char *name;                           /* NULL: the real library's name */
	/* Each is set together with what it releases. */
	void (*release_errhandler)(MPI_Errhandler errhandler);
	void (*drop_attributes)(struct gck_mpi_attribute *first);
};

/* Protects the attachments of all handles. Never held while the program's code or the real library
 * runs. */
extern pthread_mutex_t gck_mpi_attached_lock;

/* Returns the handle's attachments, allocated if it has none; NULL: no memory. The caller holds the
 * lock. */
GCK_MUST_CHECK struct gck_mpi_attached *gck_mpi_attached(void *handle);

/* Frees the attachments without calling callbacks. For gck_mpi_handle_free. */
void gck_mpi_attached_free(struct gck_mpi_handle *h);

/* Writes the object's name for messages; never fails. name has MPI_MAX_OBJECT_NAME bytes. Called
 * outside the gate. */
void gck_mpi_display_name(struct gck_mpi_handle *h, char *name);

#endif

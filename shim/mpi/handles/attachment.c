/* SPDX-License-Identifier: Apache-2.0
 * What hangs on a handle. */
#include <stdlib.h>

#include "shim/mpi/handles/attachment.h"

pthread_mutex_t gck_mpi_attached_lock = PTHREAD_MUTEX_INITIALIZER;

struct gck_mpi_attached *gck_mpi_attached(void *handle)
{
	struct gck_mpi_handle *h = handle;

	if (!h->attached)
		h->attached = calloc(1, sizeof(*h->attached));
	return h->attached;
}

void gck_mpi_attached_free(struct gck_mpi_handle *h)
{
	struct gck_mpi_attached *a = h->attached;

	if (!a)
		return;
	h->attached = NULL;
	if (a->errhandler)
		a->release_errhandler(a->errhandler);
	if (a->attributes)
		a->drop_attributes(a->attributes);
	free(a->name);
	free(a);
}

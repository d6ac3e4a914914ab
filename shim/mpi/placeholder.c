/* SPDX-License-Identifier: Apache-2.0
 * Weak definitions of what other parts bring, so that the library links until they do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "shim/mpi/attached.h"
#include "shim/mpi/attribute.h"
#include "shim/mpi/error.h"
#include "shim/mpi/namespace/namespace.h"
#include "shim/mpi/thread.h"
#include "shim/mpi/wrap.h"

#define WEAK __attribute__((weak))

WEAK struct gck_mpi_state gck_mpi_state;

static void *library;

WEAK int gck_mpi_ns_load(struct gck_mpi_left_out *owned, struct gck_error *err)
{
	const char *root = getenv("GCK_MPI_PLACEHOLDER_ROOT");

	(void)owned;
	library = dlmopen(LM_ID_NEWLM, root ? root : "/tmp/mpi/h2/libnsroot.so", RTLD_NOW | RTLD_LOCAL);
	return library ? 0 : gck_fail(err, ENOENT, "%s", dlerror());
}

WEAK const char *gck_mpi_ns_library(void)
{
	return "libmpi.so.40";
}

WEAK void *gck_mpi_ns_symbol(const char *name)
{
	return dlsym(library, name);
}

WEAK int gck_mpi_ns_take_environment(struct gck_error *err)
{
	(void)err;
	return 0;
}

WEAK void gck_mpi_ns_adopt(pthread_t thread)
{
	(void)thread;
}

WEAK int gck_mpi_thread_start(struct gck_error *err)
{
	(void)err;
	return 0;
}

WEAK void gck_mpi_thread_ready(int rank, int size)
{
	(void)rank;
	(void)size;
}

WEAK void gck_mpi_thread_stop(void)
{
}

WEAK int gck_mpi_error_raise(const void *handle, int rc, const char *function)
{
	(void)handle;
	fprintf(stderr, "gpuckpt: %s failed with code %d\n", function, rc);
	abort();
}

WEAK int gck_mpi_attributes_delete(void *handle)
{
	(void)handle;
	return 0;
}

WEAK void gck_mpi_attached_free(struct gck_mpi_handle *h)
{
	(void)h;
}

WEAK void gck_mpi_fortran_free(struct gck_mpi_handle *h);
WEAK void gck_mpi_fortran_free(struct gck_mpi_handle *h)
{
	(void)h;
}

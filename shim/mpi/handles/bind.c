/* SPDX-License-Identifier: Apache-2.0
 * Binding to the copy of the real library in the link namespace. */
#include <stdbool.h>
#include <string.h>

#include "shim/mpi/handles/bind.h"
#include "shim/mpi/handles/handle.h"
#include "shim/mpi/real.h"
#include "shim/namespace/namespace.h"

/* Replaces an optional function that this build of Open MPI does not have. */
static int not_there(void)
{
	return MPI_ERR_UNSUPPORTED_OPERATION;
}

bool gck_mpi_is_optional(const char *name)
{
	return !strncmp(name, "PMPIX_", 6) || !strncmp(name, "MPIX_", 5) ||
	       !strncmp(name, "OMPI_", 5);
}

static int bind_functions(struct gck_error *err)
{
	for (const struct gck_mpi_slot *s = gck_mpi_slots; s->name; s++) {
		void *address = gck_namespace_symbol(s->name);

		if (!address && !gck_mpi_is_optional(s->name))
			return gck_fail(
				err, ENOEXEC,
				"%s has no %s: it is not Open MPI 4.1, for which gpuckpt was "
				"built; install that, name it in GPUCKPT_MPI_LIBRARY, or submit "
				"with mpi=none to run without checkpoints of MPI",
				gck_namespace_library(), s->name);
		*s->at = address ? address : (void *)not_there;
	}
	return 0;
}

static int bind_predefined(struct gck_error *err)
{
	for (const struct gck_mpi_slot *s = gck_mpi_predefined; s->name; s++) {
		struct gck_mpi_handle *h = (void *)s->at;
		void *real = gck_namespace_symbol(s->name);

		if (!real)
			return gck_fail(err, ENOEXEC,
					"%s has no %s: it is not Open MPI 4.1, for which gpuckpt "
					"was built; install that, or name it in "
					"GPUCKPT_MPI_LIBRARY",
					gck_namespace_library(), s->name);
		gck_mpi_handle_set_real(h, real);
		if (h->flags & GCK_MPI_NULL)
			gck_mpi_real_null[h->kind] = real;
	}
	return 0;
}

/* Checked separately because Open MPI 5 has the same SONAME and most of the names. */
static int check_version(struct gck_error *err)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	int length;

	gck_mpi_real.Get_library_version(version, &length);
	if (!strncmp(version, "Open MPI v4.", 12))
		return 0;
	return gck_fail(
		err, ENOTSUP,
		"%s is \"%.30s\": it is not Open MPI 4.1, for which gpuckpt was built; install "
		"that, name it in GPUCKPT_MPI_LIBRARY, or submit with mpi=none to run without "
		"checkpoints of MPI",
		gck_namespace_library(), version);
}

int gck_mpi_bind(struct gck_error *err)
{
	return bind_functions(err) || check_version(err) || bind_predefined(err) ? -1 : 0;
}

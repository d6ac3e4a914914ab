/* SPDX-License-Identifier: Apache-2.0
 * MPI brought back in a restored process. */
#include <stdio.h>
#include <string.h>

#include "common/fault.h"
#include "common/launcher.h"
#include "shim/mpi/init.h"
#include "shim/mpi/namespace/namespace.h"
#include "shim/mpi/part.h"
#include "shim/mpi/pmix.h"
#include "shim/mpi/quiesce.h"
#include "shim/mpi/thread.h"

/* What the launcher of this start set, in place of what it set at the last. */
static int take_environment(const char *environment, size_t size, struct gck_error *err)
{
	for (size_t at = 0, n; at < size; at += n + 1) {
		const char *entry = environment + at, *equals;
		char name[256];

		n = strnlen(entry, size - at);
		equals = memchr(entry, '=', n);
		if (at + n >= size || !equals || equals - entry >= (long)sizeof name ||
		    !gck_launcher_sets(entry))
			continue;
		memcpy(name, entry, (size_t)(equals - entry));
		name[equals - entry] = '\0';
		if (gck_mpi_ns_setenv(name, equals + 1, err))
			return -1;
	}
	return 0;
}

static int rebuild_parts(struct gck_error *err)
{
	for (const struct gck_mpi_part *const *p = gck_mpi_parts; *p; p++)
		if ((*p)->rebuild && (*p)->rebuild(err))
			return gck_fail_in(err, "%s", (*p)->name);
	return 0;
}

int gck_mpi_rebuild(const char *environment, size_t size, struct gck_error *err)
{
	struct gck_error kept = {0};

	GCK_FAULT(GCK_FAULT_MPI_RESTORED);
	gck_mpi_pmix_restart();
	if (gck_mpi_ns_bury(&kept)) /* the load says so if that is one too many */
		fprintf(stderr, "gpuckpt: after a restart: %s\n", kept.text);
	if (gck_mpi_ns_load(&gck_mpi_state.left_out, err) ||
	    take_environment(environment, size, err))
		return -1;
	GCK_FAULT(GCK_FAULT_MPI_LOADED);
	if (gck_mpi_init_again(err))
		return -1;
	GCK_FAULT(GCK_FAULT_MPI_INITIALIZED);
	if (rebuild_parts(err))
		return -1;
	GCK_FAULT(GCK_FAULT_MPI_REBUILT);
	return 0;
}

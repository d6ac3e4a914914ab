/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/base/library.h"

#include <string.h>

#include "common/base/launcher_env.h"
#include "shim/inside/library.h"

static int find(char *path, size_t size, struct gck_error *err)
{
	static const struct gck_inside_library library = {
		.soname = GCK_MPI_LIBRARY, .prefix = "libmpi", .variable = "GPUCKPT_MPI_LIBRARY",
	};

	return gck_inside_find(&library, path, size, err);
}

/* Registration caches patch libc's munmap to learn what memory the program frees. In the namespace
 * they would patch the namespace's libc, which the program does not call: they would keep entries
 * of memory that is gone, and the list of the copy's mappings would be wrong. */
static const struct gck_namespace_variable forced[] = {
	{"OMPI_MCA_memory", "^patcher"},
	{"OMPI_MCA_mpi_leave_pinned", "0"},
	{"UCX_MEM_EVENTS", "n"},
	{"FI_MR_CACHE_MONITOR", "disabled"},
	{NULL, NULL},
};

static bool is_identity(const char *entry)
{
	return gck_launcher_owns(entry) &&
	       (!strncmp(entry, "PMIX_", 5) || !strncmp(entry, "PMI_", 4));
}

const struct gck_namespace_library gck_mpi_library = {
	.name = "MPI library",
	.remedy = "load its module, or set GPUCKPT_MPI_LIBRARY to its path",
	.without = "mpi=none",
	.find = find,
	.forced = forced,
	.is_identity = is_identity,
};

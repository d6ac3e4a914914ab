/* SPDX-License-Identifier: Apache-2.0
 * The copy's environment. Its libc begins with the program's own array of strings, which it would
 * rearrange in place: it must be given one of its own before anything is set in it. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shim/mpi/namespace/inside.h"

/* Registration caches hear of memory that the program gives back by writing jumps into libc's
 * munmap. Here they would write them into the namespace's libc, which the program does not call:
 * they would keep what is long gone, and the list of what the copy has mapped would be wrong. */
static const struct {
	const char *name, *value;
} forced[] = {
	{ "OMPI_MCA_memory", "^patcher" },
	{ "OMPI_MCA_mpi_leave_pinned", "0" },
	{ "UCX_MEM_EVENTS", "n" },
	{ "FI_MR_CACHE_MONITOR", "disabled" },
};

static int set(const char *name, const char *value, struct gck_error *err)
{
	if (gck_mpi_ns.root->setenv(name, value, 1) < 0)
		return gck_fail(err, ENOMEM, "cannot set %s in the environment of the MPI library: "
				"no memory", name);
	return 0;
}

static int set_text(const char *text, struct gck_error *err)
{
	const char *equals = strchr(text, '=');
	char name[256];

	if (!equals || equals == text || (size_t)(equals - text) >= sizeof name)
		return 0;
	memcpy(name, text, equals - text);
	name[equals - text] = '\0';
	return set(name, equals + 1, err);
}

int gck_mpi_ns_take_environment(struct gck_error *err)
{
	if (!gck_mpi_ns.root)
		return gck_fail(err, EINVAL, "the environment of the MPI library cannot be set: "
				"it is not loaded");
	gck_mpi_ns.root->clearenv();
	for (char **e = environ; e && *e; e++) {
		if (set_text(*e, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < sizeof forced / sizeof *forced; i++) {
		if (set(forced[i].name, forced[i].value, err) < 0)
			return -1;
	}
	return 0;
}

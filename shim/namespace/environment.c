/* SPDX-License-Identifier: Apache-2.0
 * The copy's environment. Its libc begins with the program's own array of strings, which it would
 * rearrange in place: it must be given one of its own before anything is set in it. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/base/environ_slots.h"
#include "common/base/launcher_env.h"
#include "shim/inside/rank.h"
#include "shim/namespace/namespace.h"

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

static int take(struct gck_error *err)
{
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

/* ---- what only the launcher tells ----------------------------------------------------------- */

/* MPI_Init found who it is; the program may have taken that out of its environment since. */
static bool launched;

static bool is_identity(const char *text)
{
	return gck_launcher_owns(text) && (!strncmp(text, "PMIX_", 5) || !strncmp(text, "PMI_", 4));
}

/* After a restart: the new task's. */
static int take_launchers(struct gck_error *err)
{
	size_t size, at = 0;
	const char *given = gck_inside_environment(&size), *entry;

	if (!launched || !given)
		return 0;
	while ((entry = gck_slots_next(given, size, &at, NULL))) {
		if (gck_launcher_owns(entry) && set_text(entry, err) < 0)
			return -1;
	}
	return 0;
}

int gck_mpi_ns_take_environment(struct gck_error *err)
{
	if (!gck_mpi_ns.root)
		return gck_fail(err, EINVAL, "the environment of the MPI library cannot be set: "
				"it is not loaded");
	launched = false;
	for (char **e = environ; e && *e; e++)
		launched |= is_identity(*e);
	return take(err);
}

int gck_mpi_ns_load_environment(struct gck_error *err)
{
	return take(err) || take_launchers(err) ? -1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * The copy's environment. Its libc begins with the program's array of strings, which it would
 * change in place, so it gets its own array before any variable is set. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/base/environ_slots.h"
#include "common/base/launcher_env.h"
#include "shim/inside/rank.h"
#include "shim/namespace/namespace.h"

static int set(const char *name, const char *value, struct gck_error *err)
{
	if (gck_namespace.root->setenv(name, value, 1) < 0)
		return gck_fail(err, ENOMEM, "cannot set %s in the environment of the %s: no "
				"memory", name, gck_namespace.library->name);
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

static int copy_environment(struct gck_error *err)
{
	const struct gck_namespace_variable *forced = gck_namespace.library->forced;

	gck_namespace.root->clearenv();
	for (char **e = environ; e && *e; e++) {
		if (set_text(*e, err) < 0)
			return -1;
	}
	for (; forced && forced->name; forced++) {
		if (set(forced->name, forced->value, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- the launcher's variables --------------------------------------------------------------- */

/* True: the environment that was taken had the task's identity, which the program may have unset
 * since. */
static bool launched;

/* After a restart, sets the launcher's variables of the new task. */
static int copy_launchers(struct gck_error *err)
{
	size_t size, at = 0;
	const char *slots = gck_inside_environment(&size), *entry;

	if (!launched || !slots)
		return 0;
	while ((entry = gck_slots_next(slots, size, &at, NULL))) {
		if (gck_launcher_owns(entry) && set_text(entry, err) < 0)
			return -1;
	}
	return 0;
}

int gck_namespace_take_environment(struct gck_error *err)
{
	bool (*is_identity)(const char *entry);

	if (!gck_namespace.root)
		return gck_fail(err, EINVAL, "no library is loaded that could get an environment");
	is_identity = gck_namespace.library->is_identity;
	launched = false;
	for (char **e = environ; is_identity && e && *e; e++)
		launched |= is_identity(*e);
	return copy_environment(err);
}

int gck_namespace_load_environment(struct gck_error *err)
{
	return copy_environment(err) || copy_launchers(err) ? -1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * The table of checks, in the order in which one depends on another. */
#include "config.h"

#include "coordinator/cli/check/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct {
	const char *name;
	void (*run)(struct checks *c);
} table[] = {
	{ "configuration", check_configuration },
	{ "munge", check_munge },
	{ "gpuckptd", check_coordinator },
	{ "clock", check_clock },
	{ "store", check_store },
	{ "slurm", check_slurm },
	{ "plugin", check_plugin },
	{ "pmix", check_pmix },
	{ "libraries", check_libraries },
	{ "ptrace", check_ptrace },
	{ "kernel", check_kernel },
	{ "mpi", check_mpi },
	{ "driver", check_driver },
};

__attribute__((format(printf, 4, 0)))
static void add(struct checks *c, const char *state, const char *remedy, const char *fmt,
		va_list ap)
{
	char text[sizeof ((struct gck_error *)0)->text];
	json_t *f;

	vsnprintf(text, sizeof text, fmt, ap);
	f = json_pack("{s:s, s:s, s:s, s:s}", "node", c->node, "check", c->name, "state", state,
		      "text", text);
	if (remedy)
		json_object_set_new(f, "remedy", json_string(remedy));
	json_array_append_new(c->findings, f);
}

void check_ok(struct checks *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(c, "ok", NULL, fmt, ap);
	va_end(ap);
}

void check_warn(struct checks *c, const char *remedy, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(c, "warning", remedy, fmt, ap);
	va_end(ap);
}

void check_error(struct checks *c, const char *remedy, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(c, "error", remedy, fmt, ap);
	va_end(ap);
}

/* As Slurm calls it, in a step. */
static void name_node(struct checks *c)
{
	const char *name = getenv("SLURMD_NODENAME");

	if (name)
		snprintf(c->node, sizeof c->node, "%s", name);
	else if (gethostname(c->node, sizeof c->node - 1))
		snprintf(c->node, sizeof c->node, "?");
}

json_t *checks_run(struct checks *c)
{
	name_node(c);
	c->findings = json_array();
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		c->name = table[i].name;
		table[i].run(c);
	}
	return c->findings;
}

/* SPDX-License-Identifier: Apache-2.0
 * The table of checks, in the order in which one depends on another. */
#include "config.h"

#include "coordinator/cli/check/check.h"

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
	{ "s3", check_s3 },
	{ "stage", check_stage },
	{ "log", check_log },
	{ "slurm", check_slurm },
	{ "plugin", check_plugin },
	{ "pmix", check_pmix },
	{ "libraries", check_libraries },
	{ "ptrace", check_ptrace },
	{ "kernel", check_kernel },
	{ "limits", check_limits },
	{ "mpi", check_mpi },
	{ "driver", check_driver },
};

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

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "spank/parent.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/program/program.h"

int gck_parent_path(const char *agent_path, char path[PATH_MAX])
{
	const char *slash = strrchr(agent_path, '/');
	int n = snprintf(path, PATH_MAX, "%.*s" GCK_PARENT,
			 slash ? (int)(slash + 1 - agent_path) : 0, agent_path);

	return n < PATH_MAX ? access(path, X_OK) : -1;
}

/* As slurmstepd, after the hook: a program sees this path in argv[0]. */
static int find(const char *name, const char *list, char program[PATH_MAX])
{
	size_t n;

	if (name[0] != '.')
		return gck_program_find(name, list, program, PATH_MAX);
	if (!getcwd(program, PATH_MAX))
		return -1;
	n = strlen(program);
	return snprintf(program + n, PATH_MAX - n, "/%s", name) < (int)(PATH_MAX - n) ? 0 : -1;
}

int gck_parent_needed(const char *name, const char *list, char program[PATH_MAX])
{
	return find(name, list, program) ||
	       !gck_program_file_takes_no_preload(program) ? -1 : 0;
}

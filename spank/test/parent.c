/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/parent.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/support/elf_file.h"
#include "test/support/tap.h"

static char directory[] = "/tmp/gpuckpt-parent-XXXXXX";

static void test(void)
{
	char agent[64], parent[64], program[64], found[PATH_MAX];

	snprintf(agent, sizeof agent, "%s/gpuckpt-agent", directory);
	snprintf(parent, sizeof parent, "%s/gpuckpt-parent", directory);
	snprintf(program, sizeof program, "%s/static", directory);
	elf_file(program, NULL, 0755);
	ok(gck_parent_path(agent, found) < 0, "gpuckpt-parent may not be installed");
	elf_file(parent, NULL, 0755);
	is_int(gck_parent_path(agent, found), 0, "it is");
	is_str(found, parent, "beside the agent");
	is_int(gck_parent_needed("static", directory, found), 0, "a static program needs it");
	is_str(found, program, "which is found in PATH");
	ok(gck_parent_needed("/bin/sh", directory, found) < 0,
	   "one that takes the preload does not");
	if (chdir(directory))
		exit(99);
	snprintf(program, sizeof program, "%s/./static", directory);
	is_int(gck_parent_needed("./static", "", found), 0, "nor need it be in PATH");
	is_str(found, program, "its path is absolute, as slurmstepd makes it");
	ok(gck_parent_needed("absent", directory, found) < 0, "nor does one that is not found");
}

int main(void)
{
	char command[64];

	if (!mkdtemp(directory))
		return 99;
	test();
	snprintf(command, sizeof command, "rm -rf %s", directory);
	return system(command) ? 1 : tap_done();
}

/* SPDX-License-Identifier: Apache-2.0
 * Real programs in a series of ten checkpoints and restarts at random moments: python3 and GROMACS
 * write the same files as when they run alone. `test_restore_real [SOURCE-TREE]`. */
#include "config.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "test/support/lineage.h"
#include "test/support/tap.h"

#define RESTARTS 10

static char directory[] = "/tmp/gpuckpt-real-XXXXXX";
static const char *source = GCK_TEST_SOURCE;

static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int shell(const char *format, ...)
{
	char command[2000];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof command, format, ap);
	va_end(ap);
	return system(command);
}

static void live_through(struct lineage *l, const char *name, int longest_ms)
{
	bool good = ok(!lineage_start(l), "%s: started", name);
	int i;

	for (i = 0; good && i < RESTARTS; i++) {
		pause_ms(10 + rand() % longest_ms);
		if (lineage_checkpoint(l))
			break;
		pause_ms(rand() % 40);
		lineage_kill(l);
		if (lineage_restore(l, l->seq))
			break;
	}
	is_int(i, RESTARTS, "checkpoints and restarts");
	is_int(good ? lineage_wait(l) : -1, 0, "it ends well");
}

/* Run argv in one directory alone, in the other with checkpoints and restarts; then compare the
 * files. */
static void compare(const char *name, char *const argv[], const char *files, int longest_ms)
{
	char path[300];
	struct lineage l;

	if (!ok(!lineage_begin(&l, "/tmp", argv), "%s: a store", name))
		return;
	snprintf(path, sizeof path, "%s/alone", directory);
	is_int(chdir(path) ? -1 : lineage_alone(&l), 0, "it runs alone");
	snprintf(path, sizeof path, "%s/again", directory);
	if (!chdir(path))
		live_through(&l, name, longest_ms);
	ok(!shell("cd %s/alone && for f in %s; do cmp $f ../again/$f || exit 1; done", directory,
		  files),
	   "%s: its files are the same, byte by byte", name);
	lineage_end(&l);
	if (chdir("/") || shell("rm -rf %s/alone/* %s/again/*", directory, directory))
		printf("# leftovers in %s\n", directory);
}

static void test_python(void)
{
	char script[500], python[] = "/usr/bin/python3", steps[] = "16000", out[] = "walk";
	char *argv[] = {python, script, steps, out, NULL};

	snprintf(script, sizeof script, "%s/test/programs/walk.py", source);
	if (access(python, X_OK) || access(script, R_OK)) {
		skip("python3", "it is not installed");
		return;
	}
	compare("python3", argv, "walk", 200);
}

static void test_gromacs(void)
{
	char line[] = "gmx mdrun -s topol.tpr -nsteps 3000 -ntmpi 1 -nt 2 -reprod -deffnm md";
	char *argv[20] = {0}, *save = NULL;

	if (shell("command -v gmx >/dev/null") ||
	    shell("%s/contrib/demo.d/water %s/water 1 && cp %s/water/rank0/topol.tpr %s/alone && "
		  "cp %s/water/rank0/topol.tpr %s/again",
		  source, directory, directory, directory, directory, directory)) {
		skip("gromacs", "it is not installed, or does not run on this processor");
		return;
	}
	for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		size_t n = 0;

		while (argv[n])
			n++;
		argv[n] = word;
	}
	compare("gromacs", argv, "md.gro md.trr md.edr", 200);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		source = argv[1];
	srand((unsigned)time(NULL));
	setenv("GMX_MAXBACKUP", "-1", 1);
	if (!mkdtemp(directory) || shell("mkdir %s/alone %s/again", directory, directory))
		return 1;
	test_python();
	test_gromacs();
	if (shell("rm -rf %s", directory))
		return 1;
	return tap_done();
}

/* SPDX-License-Identifier: Apache-2.0
 * How fast an image in memory is written and restored, compared with dd between memory file systems
 * in the same run; one core each. `bench_restore MIB` prints `name value unit`. */
#include "config.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/support/lineage.h"

#define BASE "/dev/shm"
#define REPEAT 3

/* Seconds for dd of a file of this many MiB, the best of a few. */
static double copy(const char *directory, long mib)
{
	char command[1000];
	double best = 0;

	snprintf(command, sizeof command,
		 "dd if=/dev/urandom of=%s/source bs=1M count=%ld status=none", directory, mib);
	if (system(command))
		return 0;
	snprintf(command, sizeof command,
		 "rm -f %s/copy; exec dd if=%s/source of=%s/copy bs=256K status=none", directory,
		 directory, directory);
	for (int i = 0; i < REPEAT; i++) {
		double start = seconds(), took;

		if (system(command))
			return 0;
		took = seconds() - start;
		best = i && best < took ? best : took;
	}
	snprintf(command, sizeof command, "rm -f %s/source %s/copy", directory, directory);
	return system(command) ? 0 : best;
}

static void touch(const char *directory, const char *name)
{
	char path[400];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	close(creat(path, 0600));
}

static int wait_for(const char *directory, const char *name)
{
	char path[400];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	for (int i = 0; i < 6000; i++, pause_ms(10))
		if (!access(path, F_OK))
			return 0;
	return -1;
}

int main(int argc, char **argv)
{
	char standard[] = "1024", *size = argc > 1 ? argv[1] : standard, directory[256];
	char *rank[] = {(char *)GCK_TEST_PROGRAM, (char *)"memory", size, directory, NULL};
	double dd, best = 0, wrote;
	struct lineage l;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof one, &one);
	if (lineage_begin(&l, BASE, rank))
		return 1;
	snprintf(directory, sizeof directory, "%s", l.directory);
	dd = copy(l.directory, atol(size));
	if (dd <= 0 || lineage_start(&l) || wait_for(directory, "ready") || lineage_checkpoint(&l))
		return lineage_end(&l), 1;
	wrote = l.wrote;
	for (int i = 0; i < REPEAT; i++) {
		lineage_kill(&l);
		if (lineage_restore(&l, l.seq))
			return lineage_end(&l), 1;
		best = i && best < l.restored ? best : l.restored;
	}
	touch(directory, "go");
	if (lineage_wait(&l))
		return lineage_end(&l), 1;
	printf("dd_gb_per_s %.2f GB/s\n", atof(size) * 1048576e-9 / dd);
	printf("write_gb_per_s %.2f GB/s\n", (double)l.bytes * 1e-9 / wrote);
	printf("restore_gb_per_s %.2f GB/s\n", (double)l.bytes * 1e-9 / best);
	printf("restore_against_dd %.2f ratio\n",
	       (double)l.bytes / best / (atof(size) * 1048576 / dd));
	lineage_end(&l);
	return 0;
}

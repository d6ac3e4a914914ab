/* SPDX-License-Identifier: Apache-2.0
 * objects FAMILY [ARGUMENT...]: see objects.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/test/objects.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} families[] = {
	{"types", test_types}, {"trees", test_trees}, {"operations", test_operations},
	{"info", test_info}, {"errors", test_errors}, {"attributes", test_attributes},
	{"handles", test_handles}, {"mpi1", test_mpi1}, {"fatal", test_fatal},
};

void say(const char *format, ...)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");
	va_list arguments;

	if (rank && strcmp(rank, "0"))
		return;
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

void cycle(void)
{
	int (*run)(void);

	*(void **)&run = dlsym(RTLD_DEFAULT, "gck_mpi_test_cycle");
	if (!run || !getenv("GPUCKPT_MPI_TEST"))
		return;
	if (run()) {
		say("the cycle failed");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	int rc = 2;

	/* the other components do not support a window of one rank */
	setenv("OMPI_MCA_osc", "pt2pt", 0);
	MPI_Init(&argc, &argv);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (argc > 1 && !strcmp(argv[1], families[i].name))
			rc = families[i].run(argc - 2, argv + 2);
	MPI_Finalize();
	if (rc == 2)
		fprintf(stderr, "usage: objects FAMILY [ARGUMENT...]\n");
	return rc;
}

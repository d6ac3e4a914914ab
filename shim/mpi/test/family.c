// SPDX-License-Identifier: Apache-2.0
#include "shim/mpi/test/family.h"

#include <dlfcn.h>

#include "test/support/tap.h"

int rank, size;
static int wrong;

void check_(long long got, long long want, const char *what, const char *file, int line)
{
	if (got == want)
		return;
	if (wrong++ < 10)
		fprintf(stderr, "# rank %d: %s:%d: %s is %lld, not %lld\n", rank, file, line, what,
			got, want);
}

static int (*find_cycle(void))(void)
{
	return (int (*)(void))dlsym(RTLD_DEFAULT, "gck_mpi_test_cycle");
}

bool is_standing_in(void)
{
	return find_cycle() != NULL;
}

bool restarts(void)
{
	return getenv("GPUCKPT_MPI_TEST") && !getenv("GPUCKPT_MPI_TEST_MS") &&
	       !getenv("GPUCKPT_MPI_TEST_KEEP") && !getenv("EVERY");
}

static bool has_cycles(void)
{
	return getenv("GPUCKPT_MPI_TEST") && !getenv("GPUCKPT_MPI_TEST_MS");
}

void cycle(void)
{
	const char *every = getenv("EVERY");
	int (*test_cycle)(void) = find_cycle();
	static int calls;

	if (has_cycles() && ++calls % (every ? atoi(every) : 1) == 0)
		CHECK(test_cycle && !test_cycle());
}

void no_cycle(void)
{
	int (*test_cycle)(void) = find_cycle();

	if (has_cycles())
		CHECK(test_cycle && test_cycle());
}

void family(const char *name, void (*test)(void))
{
	const char *only = getenv("ONLY");
	int all = 0;

	if (only && strcmp(only, name) != 0)
		return;
	wrong = 0;
	test();
	MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		ok(all == 0, "%s", name);
}

void begin(void)
{
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

int end(void)
{
	int failed = rank == 0 ? tap_done() : 0;

	MPI_Finalize();
	return failed;
}

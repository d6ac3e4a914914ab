/* SPDX-License-Identifier: Apache-2.0
 * The real library in its namespace: everything that it owns is listed, and a dead copy is
 * discarded. Runs alone, or as a rank of namespace.sh, which reads the exit status. */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/mpi/test/lists.h"
#include "shim/mpi/base/library.h"
#include "test/support/tap.h"

#define ROUNDS 40       /* with GPUCKPT_LONG=1 */
#define FEW_ROUNDS 14   /* by default */
#define SETTLED 8 /* rounds after which nothing may grow */

static struct gck_ns_exclusions owned;
static struct possessions before, after;
static struct gck_error err;

static int load(void)
{
	return gck_namespace_load(&gck_mpi_library, &owned, &err);
}

static void *nothing(void *arg)
{
	return arg;
}

/* Makes a stack in advance for the first thread that the loader makes. */
static void warm_up(void)
{
	pthread_t thread;

	lists_prepare();
	pthread_create(&thread, NULL, nothing, NULL);
	pthread_join(thread, NULL);
}

static int init(void)
{
	int (*init_)(int *, char ***) = gck_namespace_symbol("MPI_Init");

	return init_ ? init_(NULL, NULL) : -1;
}

/* The number of ranks, by a sum of 1 from each; -1: it failed. */
static int sum(void)
{
	int (*allreduce)(const void *, void *, int, void *, void *, void *) =
		gck_namespace_symbol("MPI_Allreduce");
	int mine = 1, all = 0;

	if (!allreduce || allreduce(&mine, &all, 1, gck_namespace_symbol("ompi_mpi_int"),
				    gck_namespace_symbol("ompi_mpi_op_sum"),
				    gck_namespace_symbol("ompi_mpi_comm_world")))
		return -1;
	return all;
}

static int compare(void)
{
	return lists_compare_fds(&before, &owned) + lists_compare_threads(&before, &owned) +
	       lists_compare_ranges(&before, &owned);
}

static void test_lists(void)
{
	lists_take(&before);
	ok(load() == 0, "the real library is loaded: %s", err.text);
	is_int(compare(), 0, "everything that the load made is listed");
	is_int(init(), 0, "MPI_Init");
	is_int(lists_compare_fds(&before, &owned), 0, "each descriptor of MPI_Init is listed");
	is_int(lists_compare_threads(&before, &owned), 0, "each thread of MPI_Init is listed");
	is_int(lists_compare_ranges(&before, &owned), 0,
	       "each mapping of MPI_Init is listed, except libraries");
	is_int(sum(), 1, "an allreduce of one rank works");
	is_int(compare(), 0, "the lists are right after an allreduce");
}

static bool handles_faults(void)
{
	struct sigaction action;

	return sigaction(SIGFPE, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
}

static void test_death(void)
{
	ok(handles_faults(), "the library handles SIGFPE");
	ok(gck_namespace_kill(&err) == 0, "the copy is killed: %s", err.text);
	ok(gck_namespace_discard(&err) == 0, "the dead copy is discarded: %s", err.text);
	ok(!handles_faults(), "the action of SIGFPE is restored");
	lists_take(&after);
	is_int(after.nfds, before.nfds, "no descriptor is left");
	is_int(after.ntids, before.ntids, "no thread is left");
	ok(after.nmappings <= before.nmappings + 4, "no mapping is left: %zu, were %zu",
	   after.nmappings, before.nmappings);
}

static bool one_round(int i)
{
	if (load() == 0 && init() == 0 && sum() == 1 &&
	    gck_namespace_kill(&err) == 0 && gck_namespace_discard(&err) == 0)
		return true;
	printf("# round %d: %s\n", i, err.text);
	return false;
}

static long resident_kib(void)
{
	char line[128];
	long n = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "VmRSS: %ld", &n) == 1)
			break;
	}
	if (f)
		fclose(f);
	return n;
}

static void test_rounds(void)
{
	const int rounds = tap_is_long() ? ROUNDS : FEW_ROUNDS;
	long early = 0, late;
	int i = 0;

	while (i < rounds && one_round(i)) {
		if (++i == SETTLED) {
			early = resident_kib();
			lists_take(&before);
		}
	}
	is_int(i, rounds, "many copies are killed and discarded in one process");
	late = resident_kib();
	lists_take(&after);
	ok(late < early + 1024, "discarded copies leave no memory: %ld KiB, then %ld KiB", early,
	   late);
	is_int(after.nmappings, before.nmappings, "discarded copies leave no mappings");
	is_int(after.nfds, before.nfds, "discarded copies leave no descriptors");
}

static int rank(int ranks)
{
	int faults;

	lists_take(&before);
	if (load() < 0 || init()) {
		printf("# %s\n", err.text);
		return 1;
	}
	faults = sum() != ranks;
	faults += compare();
	((int (*)(void))gck_namespace_symbol("MPI_Finalize"))();
	return faults != 0;
}

int main(int argc, char **argv)
{
	warm_up();
	if (argc > 1)
		return rank(atoi(argv[1]));
	test_lists();
	test_death();
	test_rounds();
	return tap_done();
}

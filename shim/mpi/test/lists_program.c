/* SPDX-License-Identifier: Apache-2.0
 * The real library in its namespace: what it owns is listed, a dead copy is given back. Alone; or
 * as one of the ranks of namespace.sh, which reads the exit status. */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/mpi/test/lists.h"
#include "shim/namespace/namespace.h"
#include "test/support/tap.h"

#define ROUNDS 40       /* with GPUCKPT_LONG=1 */
#define FEW_ROUNDS 14   /* by default */
#define SETTLED 8 /* rounds after which nothing may grow any more */

static struct gck_mpi_left_out owned;
static struct possessions before, after;
static struct gck_error err;

static void *nothing(void *arg)
{
	return arg;
}

/* So that its stack is there before, for the first thread that the loader makes. */
static void warm_up(void)
{
	pthread_t thread;

	lists_prepare();
	pthread_create(&thread, NULL, nothing, NULL);
	pthread_join(thread, NULL);
}

static int init(void)
{
	int (*init_)(int *, char ***) = gck_mpi_ns_symbol("MPI_Init");

	return init_ ? init_(NULL, NULL) : -1;
}

/* Everybody gives 1: the number of ranks, or -1. */
static int sum(void)
{
	int (*allreduce)(const void *, void *, int, void *, void *, void *) =
		gck_mpi_ns_symbol("MPI_Allreduce");
	int mine = 1, all = 0;

	if (!allreduce || allreduce(&mine, &all, 1, gck_mpi_ns_symbol("ompi_mpi_int"),
				    gck_mpi_ns_symbol("ompi_mpi_op_sum"),
				    gck_mpi_ns_symbol("ompi_mpi_comm_world")))
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
	ok(gck_mpi_ns_load(&owned, &err) == 0, "the real library is loaded: %s", err.text);
	is_int(compare(), 0, "what loading made is listed");
	is_int(init(), 0, "MPI_Init");
	is_int(lists_compare_fds(&before, &owned), 0, "every descriptor of MPI_Init is listed");
	is_int(lists_compare_threads(&before, &owned), 0, "every thread is");
	is_int(lists_compare_ranges(&before, &owned), 0, "every mapping is, but of libraries");
	is_int(sum(), 1, "an allreduce of one rank");
	is_int(compare(), 0, "the lists are right after it");
}

static bool handles_faults(void)
{
	struct sigaction action;

	return sigaction(SIGFPE, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
}

static void test_death(void)
{
	ok(handles_faults(), "the library handles SIGFPE");
	ok(gck_mpi_ns_kill(&err) == 0, "its death: %s", err.text);
	ok(gck_mpi_ns_discard(&err) == 0, "it is given back: %s", err.text);
	ok(!handles_faults(), "SIGFPE is as it was before");
	lists_take(&after);
	is_int(after.nfds, before.nfds, "no descriptor is left");
	is_int(after.ntids, before.ntids, "no thread is left");
	ok(after.nmappings <= before.nmappings + 4, "no mapping is left: %zu, were %zu",
	   after.nmappings, before.nmappings);
}

static bool one_round(int i)
{
	if (gck_mpi_ns_load(&owned, &err) == 0 && init() == 0 && sum() == 1 &&
	    gck_mpi_ns_kill(&err) == 0 && gck_mpi_ns_discard(&err) == 0)
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
	const int rounds = getenv("GPUCKPT_LONG") ? ROUNDS : FEW_ROUNDS;
	long early = 0, late;
	int i = 0;

	while (i < rounds && one_round(i)) {
		if (++i == SETTLED) {
			early = resident_kib();
			lists_take(&before);
		}
	}
	is_int(i, rounds, "many deaths in one process");
	late = resident_kib();
	lists_take(&after);
	ok(late < early + 1024, "they leave no memory: %ld KiB, then %ld KiB", early, late);
	is_int(after.nmappings, before.nmappings, "nor mappings");
	is_int(after.nfds, before.nfds, "nor descriptors");
}

static int rank(int ranks)
{
	int faults;

	lists_take(&before);
	if (gck_mpi_ns_load(&owned, &err) < 0 || init()) {
		printf("# %s\n", err.text);
		return 1;
	}
	faults = sum() != ranks;
	faults += compare();
	((int (*)(void))gck_mpi_ns_symbol("MPI_Finalize"))();
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

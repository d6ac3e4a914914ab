// SPDX-License-Identifier: Apache-2.0
/* Runs all families; TAP from rank 0. See pt2pt.sh. */
#include "shim/mpi/test/pt2pt.h"

#include <dlfcn.h>

#include "test/support/tap.h"

int rank, size;
static int wrong;

void check_(bool good, const char *what, const char *file, int line)
{
	if (good)
		return;
	wrong++;
	fprintf(stderr, "# rank %d: %s:%d: %s\n", rank, file, line, what);
}

void cycle(void)
{
	int (*test_cycle)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "gck_mpi_test_cycle");

	if (getenv("GPUCKPT_MPI_TEST") && !getenv("GPUCKPT_MPI_TEST_MS"))
		CHECK(test_cycle && !test_cycle());
}

void fill(unsigned char *buf, int n, int from, int tag)
{
	for (int i = 0; i < n; i++)
		buf[i] = expected(from, tag, i);
}

bool is_filled(const unsigned char *buf, int n, int from, int tag)
{
	for (int i = 0; i < n; i++)
		if (buf[i] != expected(from, tag, i))
			return false;
	return true;
}

static void family(const char *name, void (*test)(void), int times)
{
	const char *only = getenv("ONLY");
	int all = 0;

	if (only && strcmp(only, name))
		return;
	wrong = 0;
	for (int i = 0; i < times; i++)
		test();
	MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		ok(all == 0, "%s", name);
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1, failed;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	family("send modes", test_modes, times);
	family("a thousand unreceived messages for each pair", test_unreceived, 1);
	family("receives from any source", test_any_source, times);
	family("order of messages", test_order, times);
	family("messages to the rank itself", test_self, times);
	family("communicators", test_communicators, times);
	family("sendrecv", test_sendrecv, times);
	family("MPI_PROC_NULL", test_proc_null, times);
	family("buffered sends", test_bsend, times);
	family("probe", test_probe, times);
	family("matched probe", test_mprobe, times);
	family("truncation", test_truncation, times);
	family("derived types", test_types, times);
	family("persistent requests", test_persistent, times);
	family("waiting and testing for any and some", test_wait_some, times);
	family("errors in statuses", test_in_status, times);
	family("null and inactive requests", test_null_requests, times);
	family("cancel", test_cancel, times);
	family("requests freed early", test_request_free, times);
	family("request_get_status", test_get_status, times);
	family("generalized requests", test_general, times);
	family("wrong arguments", test_wrong_arguments, times);
	family("tags above MPI_TAG_UB", test_tag_too_high, times);
	family("a collective cannot be cancelled", test_cancel_collective, times);
	family("a matched message of a freed communicator", test_matched_freed, times);
	failed = rank == 0 ? tap_done() : 0;
	MPI_Finalize();
	return failed;
}

/* SPDX-License-Identifier: Apache-2.0
 * Info objects. */
#include <stdio.h>
#include <string.h>

#include "shim/mpi/test/objects.h"

static void show(const char *what, MPI_Info info)
{
	char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
	int n, length, there;

	MPI_Info_get_nkeys(info, &n);
	say("%s: %d keys", what, n);
	for (int i = 0; i < n; i++) {
		MPI_Info_get_nthkey(info, i, key);
		MPI_Info_get_valuelen(info, key, &length, &there);
		MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &there);
		say("  <%s> = <%s>, %d, %d", key, value, length, there);
	}
}

static void of_comm(void)
{
	MPI_Info info;
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
	MPI_Comm_set_info(comm, info);
	MPI_Info_free(&info);
	MPI_Comm_get_info(comm, &info);
	show("of a communicator", info);
	MPI_Info_free(&info);
	cycle();
	MPI_Comm_get_info(comm, &info);
	show("of a communicator, after a cycle", info);
	MPI_Info_free(&info);
	MPI_Comm_free(&comm);
}

int test_info(int argc, char **argv)
{
	char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 2];
	MPI_Info info, copy, empty, none = MPI_INFO_NULL;
	int there;

	(void)argc, (void)argv;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Info_create(&info);
	MPI_Info_create(&empty);
	MPI_Info_set(info, "b", "two words");
	MPI_Info_set(info, "a key", "  spaces around  ");
	MPI_Info_set(info, "b", "again");
	MPI_Info_set(info, "c", "");
	memset(value, 'v', MPI_MAX_INFO_VAL - 1);
	value[MPI_MAX_INFO_VAL - 1] = 0;
	say("longest value: %d", MPI_Info_set(info, "long", value));
	MPI_Info_dup(info, &copy);
	say("deleted: %d, again: %d", MPI_Info_delete(info, "c"), MPI_Info_delete(info, "c"));
	show("info", info);
	show("copy", copy);
	cycle();
	show("info after a cycle", info);
	show("copy after a cycle", copy);
	show("empty", empty);
	MPI_Info_get(info, "a key", 4, value, &there);
	say("cut off: <%s> %d", value, there);
	MPI_Info_get(info, "nobody", 4, value, &there);
	say("not there: %d", there);
	say("errors: %d %d %d %d", MPI_Info_set(info, "", "x"), MPI_Info_get_nthkey(info, 9, key),
	    MPI_Info_free(&none), MPI_Info_get_nkeys(none, &there));
	MPI_Info_free(&info);
	MPI_Info_free(&copy);
	cycle();
	say("freed: %d", info == MPI_INFO_NULL);
	show("empty still", empty);
	of_comm();
	MPI_Info_get(MPI_INFO_ENV, "maxprocs", MPI_MAX_INFO_VAL, value, &there);
	say("MPI_INFO_ENV: maxprocs %s %d", there ? value : "", there);
	return 0;
}

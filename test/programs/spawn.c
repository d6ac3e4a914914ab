/* SPDX-License-Identifier: Apache-2.0
 * spawn: prints the results of rank 0's calls to spawn and to join other worlds. Then it has a port
 * open until the file `close` exists, and all ranks continue until the file `end` exists. At the
 * end each must know the name of its node, which may have changed. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say(const char *what, int rc)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int class = 0, length;

	MPI_Error_class(rc, &class);
	MPI_Error_string(class, text, &length);
	printf("%s: %s\n", what, text);
	fflush(stdout);
}

static void until(const char *file)
{
	while (access(file, F_OK))
		usleep(50000);
}

static void ask(char *program)
{
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm children;

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	say("MPI_Comm_spawn", MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0,
					     MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE));
	say("MPI_Open_port", MPI_Open_port(MPI_INFO_NULL, port));
	say("MPI_Publish_name", MPI_Publish_name("gpuckpt-test", MPI_INFO_NULL, port));
	say("MPI_Lookup_name", MPI_Lookup_name("gpuckpt-test", MPI_INFO_NULL, port));
	until("close");
	say("MPI_Close_port", MPI_Close_port(port));
}

static int knows_its_node(void)
{
	char told[MPI_MAX_PROCESSOR_NAME] = "", name[MPI_MAX_PROCESSOR_NAME] = "";
	int length;

	MPI_Get_processor_name(told, &length);
	gethostname(name, sizeof name - 1);
	return !strcmp(told, name);
}

int main(int argc, char **argv)
{
	int rank, knows, know = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (!rank)
		ask(argv[0]);
	MPI_Barrier(MPI_COMM_WORLD);
	until("end");
	knows = knows_its_node();
	MPI_Allreduce(&knows, &know, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		printf("%d know their node\n", know);
	MPI_Finalize();
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* Processes of other worlds, from 2 ranks: spawned, connected, joined. In a run with cycles a
 * checkpoint is refused while they are connected, and succeeds when they are gone; a connection of
 * two parts of one world survives it. A spawned process is this program: `dynamic child WORD`. */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim/mpi/test/family.h"

#define CHILDREN 2

static char program[4096];

/* Children are another world and must not make cycles in this one's folder. */
static char env[] = "env", no_cycles[] = "-uGPUCKPT_MPI_TEST", not_only[] = "-uONLY",
	    role[] = "child";

/* ---- messages of both sides ----------------------------------------------------------------- */

static void talk(MPI_Comm inter, int low)
{
	int me, others, in = -1, sum = -1, out;
	MPI_Comm merged, dup;
	MPI_Request r;
	MPI_Status st;

	MPI_Comm_rank(inter, &me);
	IS(MPI_Comm_remote_size(inter, &others), MPI_SUCCESS);
	out = me * 10 + low;
	for (int i = 0; i < others; i++) {
		IS(MPI_Isend(&out, 1, MPI_INT, i, 3, inter, &r), MPI_SUCCESS);
		IS(MPI_Recv(&in, 1, MPI_INT, i, 3, inter, &st), MPI_SUCCESS);
		IS(in, i * 10 + !low);
		IS(st.MPI_SOURCE, i);
		IS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_SUCCESS);
	}
	IS(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, inter), MPI_SUCCESS);
	IS(sum, others * (others - 1) / 2);
	IS(MPI_Comm_dup(inter, &dup), MPI_SUCCESS);
	IS(MPI_Intercomm_merge(dup, !low, &merged), MPI_SUCCESS);
	in = 1;
	IS(MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, merged), MPI_SUCCESS);
	MPI_Comm_size(merged, &in);
	IS(sum, in);
	IS(MPI_Comm_free(&merged), MPI_SUCCESS);
	CHECK(merged == MPI_COMM_NULL);
	IS(MPI_Comm_free(&dup), MPI_SUCCESS);
}

static const char *word;

static void test_child(void)
{
	MPI_Comm parent = MPI_COMM_NULL;
	int *number, flag = 0;

	IS(MPI_Comm_get_parent(&parent), MPI_SUCCESS);
	CHECK(parent != MPI_COMM_NULL);
	IS(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag), MPI_SUCCESS);
	CHECK(flag);
	IS(MPI_Send(number, 1, MPI_INT, 0, 1, parent), MPI_SUCCESS);
	IS(MPI_Send(word, (int)strlen(word) + 1, MPI_CHAR, 0, 2, parent), MPI_SUCCESS);
	talk(parent, 1);
	IS(MPI_Comm_disconnect(&parent), MPI_SUCCESS);
	IS(MPI_Comm_get_parent(&parent), MPI_SUCCESS);
	CHECK(parent == MPI_COMM_NULL);
}

/* ---- spawn ---------------------------------------------------------------------------------- */

static void hear(MPI_Comm inter, int from, int number, const char *want)
{
	char got[16] = "";
	int n = -1;

	IS(MPI_Recv(&n, 1, MPI_INT, from, 1, inter, MPI_STATUS_IGNORE), MPI_SUCCESS);
	IS(n, number);
	IS(MPI_Recv(got, sizeof got, MPI_CHAR, from, 2, inter, MPI_STATUS_IGNORE), MPI_SUCCESS);
	CHECK(!strcmp(got, want));
}

static void test_spawn(void)
{
	char one[] = "one";
	char *argv[] = { no_cycles, not_only, program, role, one, NULL };
	MPI_Comm inter = MPI_COMM_NULL, parent;
	int codes[CHILDREN] = { -1, -1 }, flag = 0, n = 0;
	MPI_Request r;
	MPI_Info info;

	IS(MPI_Comm_get_parent(&parent), MPI_SUCCESS);
	CHECK(parent == MPI_COMM_NULL);
	MPI_Info_create(&info);
	MPI_Info_set(info, "wdir", "/");
	IS(MPI_Comm_spawn(env, argv, CHILDREN, rank ? MPI_INFO_NULL : info, 0,
			  MPI_COMM_WORLD, &inter, codes), MPI_SUCCESS);
	MPI_Info_free(&info);
	IS(codes[0], MPI_SUCCESS);
	IS(codes[1], MPI_SUCCESS);
	MPI_Comm_test_inter(inter, &flag);
	CHECK(flag);
	MPI_Comm_remote_size(inter, &n);
	IS(n, CHILDREN);
	for (int i = 0; i < CHILDREN && rank == 0; i++)
		hear(inter, i, 0, one);
	no_cycle();
	talk(inter, 0);
	/* its persistent request outlives it, and a restart could not make that again */
	IS(MPI_Send_init(&n, 1, MPI_INT, 0, 4, inter, &r), MPI_SUCCESS);
	IS(MPI_Comm_disconnect(&inter), MPI_SUCCESS);
	CHECK(inter == MPI_COMM_NULL);
	no_cycle();
	IS(MPI_Request_free(&r), MPI_SUCCESS);
	cycle();
}

static void test_spawn_multiple(void)
{
	char two[] = "two", three[] = "three";
	char *first[] = { no_cycles, not_only, program, role, two, NULL };
	char *second[] = { no_cycles, not_only, program, role, three, NULL };
	char *commands[] = { env, env }, **argvs[] = { first, second };
	int counts[] = { 1, 1 }, codes[CHILDREN] = { -1, -1 };
	MPI_Info infos[2] = { MPI_INFO_NULL, MPI_INFO_NULL };
	MPI_Comm inter = MPI_COMM_NULL;

	if (rank) /* significant only at the root */
		IS(MPI_Comm_spawn_multiple(0, NULL, NULL, NULL, NULL, 0, MPI_COMM_WORLD, &inter,
					   MPI_ERRCODES_IGNORE), MPI_SUCCESS);
	else
		IS(MPI_Comm_spawn_multiple(2, commands, argvs, counts, infos, 0, MPI_COMM_WORLD,
					   &inter, codes), MPI_SUCCESS);
	if (rank == 0) {
		IS(codes[1], MPI_SUCCESS);
		hear(inter, 0, 0, two);
		hear(inter, 1, 1, three);
	}
	talk(inter, 0);
	IS(MPI_Comm_disconnect(&inter), MPI_SUCCESS);
	cycle();
}

/* ---- connect and accept: two halves of one world -------------------------------------------- */

static MPI_Comm connected(const char *port)
{
	MPI_Comm inter = MPI_COMM_NULL;
	int n = 0;

	if (rank == 0)
		IS(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_SUCCESS);
	else
		IS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_SUCCESS);
	MPI_Comm_remote_size(inter, &n);
	IS(n, 1);
	return inter;
}

static void meet(const char *port)
{
	MPI_Comm inter = connected(port);

	talk(inter, rank);
	IS(MPI_Comm_disconnect(&inter), MPI_SUCCESS);
}

/* Each rank opens a port; checkpoints are refused until all are closed. */
static void test_connect(void)
{
	char mine[MPI_MAX_PORT_NAME] = "", port[MPI_MAX_PORT_NAME];
	MPI_Comm inter;

	IS(MPI_Open_port(MPI_INFO_NULL, mine), MPI_SUCCESS);
	CHECK(*mine);
	memcpy(port, mine, sizeof port);
	MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
	meet(port);
	no_cycle();
	meet(port);
	inter = connected(port);
	IS(MPI_Close_port(mine), MPI_SUCCESS);
	MPI_Barrier(MPI_COMM_WORLD);
	cycle();
	talk(inter, rank);
	IS(MPI_Comm_disconnect(&inter), MPI_SUCCESS);
	cycle();
}

static void test_names(void)
{
	char port[MPI_MAX_PORT_NAME] = "", name[64] = "";

	snprintf(name, sizeof name, "gpuckpt-test-%d", (int)getpid());
	MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		IS(MPI_Open_port(MPI_INFO_NULL, port), MPI_SUCCESS);
		IS(MPI_Publish_name(name, MPI_INFO_NULL, port), MPI_SUCCESS);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 1)
		IS(MPI_Lookup_name(name, MPI_INFO_NULL, port), MPI_SUCCESS);
	meet(port);
	if (rank == 0) {
		IS(MPI_Unpublish_name(name, MPI_INFO_NULL, port), MPI_SUCCESS);
		IS(MPI_Close_port(port), MPI_SUCCESS);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	cycle();
}

/* ---- join ----------------------------------------------------------------------------------- */

static int socket_between(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), got;

	snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "gpuckpt-test-%d", (int)getpid());
	MPI_Bcast(at.sun_path, sizeof at.sun_path, MPI_CHAR, 0, MPI_COMM_WORLD);
	if (rank == 0)
		CHECK(!bind(fd, (void *)&at, sizeof at) && !listen(fd, 1));
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 1) {
		CHECK(!connect(fd, (void *)&at, sizeof at));
		return fd;
	}
	got = accept(fd, NULL, NULL);
	close(fd);
	return got;
}

static void test_join(void)
{
	MPI_Comm inter = MPI_COMM_NULL;
	int fd = socket_between(), n = 0;

	IS(MPI_Comm_join(fd, &inter), MPI_SUCCESS);
	MPI_Comm_remote_size(inter, &n);
	IS(n, 1);
	talk(inter, rank);
	IS(MPI_Comm_disconnect(&inter), MPI_SUCCESS);
	close(fd);
	cycle();
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	begin();
	if (argc > 2) {
		word = argv[2];
		family("spawned processes", test_child);
		return end();
	}
	if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
		return 1;
	family("spawn", test_spawn);
	family("spawn multiple", test_spawn_multiple);
	family("connect and accept", test_connect);
	family("published names", test_names);
	family("join", test_join);
	return end();
}

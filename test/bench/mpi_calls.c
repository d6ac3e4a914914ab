/* SPDX-License-Identifier: Apache-2.0
 * mpi_calls BATCHES: on 2 ranks, the nanoseconds of a message and of an allreduce, the fastest of
 * BATCHES batches. If root calls it, it runs at real-time priority, so that other load has no
 * effect. */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *buffer;
static int rank;

static void ping_pong(int bytes)
{
	if (rank == 0) {
		MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
	}
}

static void allreduce(int bytes)
{
	double in = 1, out;

	(void)bytes;
	MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* calls: calls in a batch; parts: messages in a call. */
static const struct {
	const char *name;
	void (*run)(int bytes);
	int bytes, calls, parts;
} measures[] = {
	{"send_recv_8B", ping_pong, 8, 1000, 2},
	{"send_recv_1MiB", ping_pong, 1 << 20, 4, 2},
	{"allreduce_8B", allreduce, 8, 500, 1},
};

int main(int argc, char **argv)
{
	int batches = argc > 1 ? atoi(argv[1]) : 300, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	buffer = malloc(1 << 20);
	if (size != 2 || !buffer)
		MPI_Abort(MPI_COMM_WORLD, 2);
	memset(buffer, 1, 1 << 20);
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
	for (size_t m = 0; m < sizeof(measures) / sizeof(measures[0]); m++) {
		double best = 1e9;

		for (int b = 0; b < batches; b++) {
			double begin;

			MPI_Barrier(MPI_COMM_WORLD);
			begin = MPI_Wtime();
			for (int i = 0; i < measures[m].calls; i++)
				measures[m].run(measures[m].bytes);
			begin = MPI_Wtime() - begin;
			if (begin < best)
				best = begin;
		}
		if (rank == 0)
			printf("%s %.1f ns\n", measures[m].name,
			       best * 1e9 / measures[m].calls / measures[m].parts);
	}
	free(buffer);
	MPI_Finalize();
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * mpi_comms FILE MOST: on 2 ranks, the CPU time of rank 0's thread for each of N communicators, in
 * microseconds, for N up to MOST, each four times the one before:
 * kept: MPI_COMM_SELF is duplicated N times, then all are freed;
 * together: N times MPI_Comm_idup at once, then they are waited for and freed;
 * beside: duplicated and freed while N receives are pending;
 * ahead: N communicators of both ranks are freed while the other rank calls no MPI.
 * The other rank waits for FILE, which must not exist. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SMALLEST 50

static MPI_Comm *comms;
static MPI_Request *requests;
static int rank;
static const char *file;

static double cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void dup_all(MPI_Comm comm, int n)
{
	for (int i = 0; i < n; i++)
		MPI_Comm_dup(comm, &comms[i]);
}

static double free_all(int n)
{
	double begin = cpu_us();

	for (int i = 0; i < n; i++)
		MPI_Comm_free(&comms[i]);
	return cpu_us() - begin;
}

static double kept(int n)
{
	double begin = cpu_us();

	dup_all(MPI_COMM_SELF, n);
	free_all(n);
	return cpu_us() - begin;
}

static double together(int n)
{
	double begin = cpu_us();

	for (int i = 0; i < n; i++)
		MPI_Comm_idup(MPI_COMM_SELF, &comms[i], &requests[i]);
	MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
	free_all(n);
	return cpu_us() - begin;
}

static double beside(int n)
{
	static char byte;
	double took;

	for (int i = 0; i < n; i++)
		MPI_Irecv(&byte, 1, MPI_BYTE, 0, 7, MPI_COMM_SELF, &requests[i]);
	took = kept(n);
	for (int i = 0; i < n; i++)
		MPI_Send(&byte, 1, MPI_BYTE, 0, 7, MPI_COMM_SELF);
	MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
	return took;
}

static double ahead(int n)
{
	double took = 0;

	dup_all(MPI_COMM_WORLD, n);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		took = free_all(n);
		close(open(file, O_WRONLY | O_CREAT, 0666));
	} else {
		while (access(file, F_OK))
			usleep(1000);
		free_all(n);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	unlink(file);
	MPI_Barrier(MPI_COMM_WORLD);
	return took;
}

static const struct {
	const char *name;
	double (*run)(int n);
} measures[] = {
	{"kept", kept},
	{"together", together},
	{"beside", beside},
	{"ahead", ahead},
};

int main(int argc, char **argv)
{
	int most = argc > 2 ? atoi(argv[2]) : 0, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	comms = calloc((size_t)most, sizeof *comms);
	requests = calloc((size_t)most, sizeof *requests);
	if (size != 2 || most < SMALLEST || !comms || !requests)
		MPI_Abort(MPI_COMM_WORLD, 2);
	file = argv[1];
	for (size_t m = 0; m < sizeof measures / sizeof *measures; m++)
		for (int n = SMALLEST; n <= most; n *= 4) {
			double took = measures[m].run(n);

			if (rank == 0)
				printf("comms_%s_%d %.2f us\n", measures[m].name, n, took / n);
		}
	free(comms);
	free(requests);
	MPI_Finalize();
	return 0;
}

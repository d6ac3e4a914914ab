/* SPDX-License-Identifier: Apache-2.0
 * Conversion of Fortran's values to C's. */
#include "shim/mpi/fortran/fortran.h"

#include <stdio.h>
#include <string.h>

/* Defined in the program, in Open MPI's Fortran libraries and in libgpuckpt-mpi.so; the loader
 * binds all references to the first. */
extern int mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_status_ignore_,
	mpi_fortran_statuses_ignore_, mpi_fortran_unweighted_, mpi_fortran_weights_empty_;

void *gck_f_choice(char *buffer)
{
	if (buffer == (char *)&mpi_fortran_bottom_)
		return MPI_BOTTOM;
	return buffer == (char *)&mpi_fortran_in_place_ ? MPI_IN_PLACE : buffer;
}

/* INTEGER status(6) has the bytes of an MPI_Status. */
MPI_Status *gck_f_status(MPI_Fint *status)
{
	return status == &mpi_fortran_status_ignore_ ? MPI_STATUS_IGNORE
						     : (MPI_Status *)(void *)status;
}

MPI_Status *gck_f_statuses(MPI_Fint *statuses)
{
	return statuses == &mpi_fortran_statuses_ignore_ ? MPI_STATUSES_IGNORE :
							   (MPI_Status *)(void *)statuses;
}

int *gck_f_weights(MPI_Fint *weights)
{
	if (weights == &mpi_fortran_unweighted_)
		return MPI_UNWEIGHTED;
	return weights == &mpi_fortran_weights_empty_ ? MPI_WEIGHTS_EMPTY : weights;
}

char *gck_f_buffer(int bytes)
{
	char *buffer = calloc((size_t)bytes + 1, 1);

	if (buffer)
		return buffer;
	fprintf(stderr, "gpuckpt: no memory for an argument of %d bytes in a Fortran call of MPI\n",
		bytes);
	abort();
}

char *gck_f_string(const char *text, int length, bool both)
{
	char *string;

	while (length > 0 && text[length - 1] == ' ')
		length--;
	while (both && length > 0 && *text == ' ') {
		text++;
		length--;
	}
	string = gck_f_buffer(length);
	memcpy(string, text, (size_t)length);
	return string;
}

void gck_f_string_out(char *to, int length, const char *text)
{
	size_t n = strnlen(text, (size_t)length);

	memcpy(to, text, n);
	memset(to + n, ' ', (size_t)length - n);
}

#define ARRAY(name, type, convert) \
	type *name(const MPI_Fint *v, int n) \
	{ \
		type *c = (type *)(void *)gck_f_buffer((n > 0 ? n : 0) * (int)sizeof(type)); \
\
		for (int i = 0; i < n; i++) \
			c[i] = convert(v[i]); \
		return c; \
	}

ARRAY(gck_f_requests, MPI_Request, PMPI_Request_f2c)
ARRAY(gck_f_types, MPI_Datatype, PMPI_Type_f2c)
ARRAY(gck_f_aints, MPI_Aint, (MPI_Aint))

void gck_f_requests_back(MPI_Fint *v, const MPI_Request *c, int n)
{
	for (int i = 0; i < n; i++)
		v[i] = PMPI_Request_c2f(c[i]);
}

int gck_f_peers(MPI_Fint comm)
{
	MPI_Comm c = PMPI_Comm_f2c(comm);
	int inter, n = 0;

	if (PMPI_Comm_test_inter(c, &inter) != MPI_SUCCESS)
		return 0;
	if (inter)
		PMPI_Comm_remote_size(c, &n);
	else
		PMPI_Comm_size(c, &n);
	return n;
}

static int degree(MPI_Fint comm, bool in)
{
	MPI_Comm c = PMPI_Comm_f2c(comm);
	int kind, rank, n = 0, nin, weighted;

	if (PMPI_Topo_test(c, &kind) != MPI_SUCCESS)
		return 0;
	if (kind == MPI_CART) {
		PMPI_Cartdim_get(c, &n);
		return 2 * n;
	}
	if (kind == MPI_GRAPH) {
		PMPI_Comm_rank(c, &rank);
		PMPI_Graph_neighbors_count(c, rank, &n);
		return n;
	}
	if (kind != MPI_DIST_GRAPH)
		return 0;
	PMPI_Dist_graph_neighbors_count(c, &nin, &n, &weighted);
	return in ? nin : n;
}

int gck_f_indegree(MPI_Fint comm)
{
	return degree(comm, true);
}

int gck_f_outdegree(MPI_Fint comm)
{
	return degree(comm, false);
}

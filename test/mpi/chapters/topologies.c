/* SPDX-License-Identifier: Apache-2.0
 * Chapter 7, process topologies. */
#include "test/mpi/chapters/chapters.h"

static void cartesian(void)
{
	int dims[2] = {0, 0}, periods[2] = {1, 0}, at[2], from, to, kind, n, remain[2] = {0, 1};
	MPI_Comm grid, row;

	MPI_Dims_create(size, 2, dims);
	MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
	pending();
	MPI_Topo_test(grid, &kind);
	MPI_Cartdim_get(grid, &n);
	MPI_Cart_get(grid, 2, dims, periods, at);
	put(" %d %d", kind == MPI_CART, n);
	put_ints(2, dims);
	put_ints(2, periods);
	put_ints(2, at);
	for (int i = 0; i < 2; i++) {
		MPI_Cart_shift(grid, i, 1, &from, &to);
		put(" %d %d", from == MPI_PROC_NULL ? -1 : from, to == MPI_PROC_NULL ? -1 : to);
	}
	MPI_Cart_rank(grid, at, &n);
	MPI_Cart_sub(grid, remain, &row);
	MPI_Comm_size(row, &to);
	put(" %d %d", n, to);
	put_class(MPI_Cart_rank(grid, (int[]){0, dims[1]}, &n));
	MPI_Comm_free(&row);
	MPI_Comm_free(&grid);
}

static void graph(void)
{
	int *index = calloc((size_t)size, sizeof(int)), *edges = calloc((size_t)size, sizeof(int));
	int n[2], near[4], kind;
	MPI_Comm ring;

	for (int i = 0; i < size; i++) {
		index[i] = i + 1;
		edges[i] = (i + 1) % size;
	}
	MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &ring);
	pending();
	MPI_Topo_test(ring, &kind);
	MPI_Graphdims_get(ring, &n[0], &n[1]);
	put(" %d", kind == MPI_GRAPH);
	put_ints(2, n);
	MPI_Graph_neighbors_count(ring, rank, n);
	MPI_Graph_neighbors(ring, rank, n[0], near);
	put_ints(n[0], near);
	MPI_Comm_free(&ring);
	free(index);
	free(edges);
}

static void distributed(void)
{
	int n[3], from[2] = {-1, -1}, to[2], weights[2][2] = {{0}}, kind;
	MPI_Comm c;

	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, &(int){rank + 1}, 1, &right,
				       &(int){rank + 2}, MPI_INFO_NULL, 0, &c);
	pending();
	MPI_Topo_test(c, &kind);
	MPI_Dist_graph_neighbors_count(c, &n[0], &n[1], &n[2]);
	MPI_Dist_graph_neighbors(c, 1, from, weights[0], 1, to, weights[1]);
	put(" %d %d %d", kind == MPI_DIST_GRAPH, from[0], to[0]);
	put_ints(3, n);
	put(" %d %d", weights[0][0], weights[1][0]);
	MPI_Comm_free(&c);
	MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &(int){1}, &right, &size,
			      MPI_INFO_NULL, 0, &c);
	MPI_Dist_graph_neighbors_count(c, &n[0], &n[1], &n[2]);
	put_ints(3, n);
	MPI_Comm_free(&c);
}

const struct claim topologies[] = {
	{"Cartesian", cartesian},
	{"graphs", graph},
	{"distributed graphs", distributed},
	{NULL, NULL},
};

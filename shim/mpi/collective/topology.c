/* SPDX-License-Identifier: Apache-2.0
 * Topologies: Cartesian, graph, distributed graph. */
#include "config.h"

#include "shim/mpi/collective/collective.h"

#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/comm/comm.h"

GCK_MPI_FUNCTION(Cart_create, (MPI_Comm old_comm, int ndims, const int dims[], const int periods[],
			       int reorder, MPI_Comm *comm_cart))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, old_comm);
	b.with_topology = true;
	rc = gck_mpi_real.Cart_create(GCK_MPI_REAL_COMM(old_comm), ndims, dims, periods, reorder,
				      comm_cart ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, comm_cart, "MPI_Cart_create");
}

GCK_MPI_FUNCTION(Cart_sub, (MPI_Comm comm, const int remain_dims[], MPI_Comm *new_comm))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm);
	b.with_topology = true;
	rc = gck_mpi_real.Cart_sub(GCK_MPI_REAL_COMM(comm), remain_dims, new_comm ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, new_comm, "MPI_Cart_sub");
}

GCK_MPI_FUNCTION(Graph_create, (MPI_Comm comm_old, int nnodes, const int index[], const int edges[],
				int reorder, MPI_Comm *comm_graph))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm_old);
	b.with_topology = true;
	rc = gck_mpi_real.Graph_create(GCK_MPI_REAL_COMM(comm_old), nnodes, index, edges, reorder,
				       comm_graph ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, comm_graph, "MPI_Graph_create");
}

GCK_MPI_FUNCTION(Dist_graph_create, (MPI_Comm comm_old, int n, const int nodes[],
				     const int degrees[], const int targets[], const int weights[],
				     MPI_Info info, int reorder, MPI_Comm *newcomm))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm_old);
	b.with_topology = true;
	rc = gck_mpi_real.Dist_graph_create(GCK_MPI_REAL_COMM(comm_old), n, nodes, degrees, targets,
					    weights, gck_mpi_real_handle(info, GCK_MPI_INFO),
					    reorder, newcomm ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, newcomm, "MPI_Dist_graph_create");
}

GCK_MPI_FUNCTION(Dist_graph_create_adjacent,
		 (MPI_Comm comm_old, int indegree, const int sources[], const int sourceweights[],
		  int outdegree, const int destinations[], const int destweights[], MPI_Info info,
		  int reorder, MPI_Comm *comm_dist_graph))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm_old);
	b.with_topology = true;
	rc = gck_mpi_real.Dist_graph_create_adjacent(
		GCK_MPI_REAL_COMM(comm_old), indegree, sources, sourceweights, outdegree,
		destinations, destweights, gck_mpi_real_handle(info, GCK_MPI_INFO), reorder,
		comm_dist_graph ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, comm_dist_graph, "MPI_Dist_graph_create_adjacent");
}

/* ---- over a restart ------------------------------------------------------------------------- */

/* v holds: Cartesian: n dims, n periods, n coordinates; graph: n indices, m edges; distributed: n
 * sources, n weights, m destinations, m weights. */
struct gck_mpi_topology {
	int kind, n, m, weighted;
	int v[];
};

static struct gck_mpi_topology *new_topology(int kind, int n, int m, size_t length)
{
	struct gck_mpi_topology *t = calloc(1, sizeof *t + (length + 1) * sizeof t->v[0]);

	if (t) {
		t->kind = kind;
		t->n = n;
		t->m = m;
	}
	return t;
}

static int save_cart(MPI_Comm real, struct gck_mpi_topology **t)
{
	int n, rc = gck_mpi_real.Cartdim_get(real, &n);

	if (rc)
		return rc;
	*t = new_topology(MPI_CART, n, 0, 3 * (size_t)n);
	if (!*t)
		return MPI_ERR_NO_MEM;
	return gck_mpi_real.Cart_get(real, n, (*t)->v, (*t)->v + n, (*t)->v + 2 * n);
}

static int save_graph(MPI_Comm real, struct gck_mpi_topology **t)
{
	int n, m, rc = gck_mpi_real.Graphdims_get(real, &n, &m);

	if (rc)
		return rc;
	*t = new_topology(MPI_GRAPH, n, m, (size_t)n + m);
	if (!*t)
		return MPI_ERR_NO_MEM;
	return gck_mpi_real.Graph_get(real, n, m, (*t)->v, (*t)->v + n);
}

static int save_dist_graph(MPI_Comm real, struct gck_mpi_topology **t)
{
	int n, m, weighted, *v;
	int rc = gck_mpi_real.Dist_graph_neighbors_count(real, &n, &m, &weighted);

	if (rc)
		return rc;
	*t = new_topology(MPI_DIST_GRAPH, n, m, 2 * ((size_t)n + m));
	if (!*t)
		return MPI_ERR_NO_MEM;
	(*t)->weighted = weighted;
	v = (*t)->v;
	return gck_mpi_real.Dist_graph_neighbors(real, n, v, weighted ? v + n : MPI_UNWEIGHTED, m,
						 v + 2 * n,
						 weighted ? v + 2 * n + m : MPI_UNWEIGHTED);
}

int gck_mpi_topology_save(MPI_Comm real, struct gck_mpi_topology **t)
{
	int kind, rc = gck_mpi_real.Topo_test(real, &kind);

	*t = NULL;
	if (rc || kind == MPI_UNDEFINED)
		return rc;
	if (kind == MPI_CART)
		rc = save_cart(real, t);
	else if (kind == MPI_GRAPH)
		rc = save_graph(real, t);
	else
		rc = save_dist_graph(real, t);
	if (rc) {
		free(*t);
		*t = NULL;
	}
	return rc;
}

int gck_mpi_topology_make(const struct gck_mpi_topology *t, MPI_Comm plain, MPI_Comm *real)
{
	const int *v = t->v;
	int n = t->n, m = t->m;

	if (t->kind == MPI_CART)
		return gck_mpi_real.Cart_create(plain, n, v, v + n, 0, real);
	if (t->kind == MPI_GRAPH)
		return gck_mpi_real.Graph_create(plain, n, v, v + n, 0, real);
	return gck_mpi_real.Dist_graph_create_adjacent(
		plain, n, v, t->weighted ? v + n : MPI_UNWEIGHTED, m, v + 2 * n,
		t->weighted ? v + 2 * n + m : MPI_UNWEIGHTED,
		gck_mpi_real_handle(MPI_INFO_NULL, GCK_MPI_INFO), 0, real);
}

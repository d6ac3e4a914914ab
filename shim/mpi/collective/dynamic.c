/* SPDX-License-Identifier: Apache-2.0
 * MPI_Comm_spawn, connect and accept. */
#include "config.h"

#include "shim/mpi/collective/dynamic.h"

#include <stdatomic.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/collective/collective.h"
#include "shim/mpi/comm/comm.h"
#include "shim/mpi/handles/wrap.h"
#include "shim/mpi/types/info.h"

static atomic_int ports;

/* Only the communicator and the root are significant in all ranks; info is at the root. */
static MPI_Info info_at_root(MPI_Comm comm, int root, MPI_Info info)
{
	return GCK_MPI_REAL_INFO(gck_mpi_comm_of(comm)->rank == root ? info : MPI_INFO_NULL);
}

GCK_MPI_FUNCTION(Comm_spawn,
		 (const char *command, char *argv[], int maxprocs, MPI_Info info, int root,
		  MPI_Comm comm, MPI_Comm *intercomm, int array_of_errcodes[]))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm);
	rc = gck_mpi_real.Comm_spawn(command, argv, maxprocs, info_at_root(comm, root, info), root,
				     GCK_MPI_REAL_COMM(comm), intercomm ? &b.real : NULL,
				     array_of_errcodes);
	return gck_mpi_comm_end(&b, rc, intercomm, "MPI_Comm_spawn");
}

GCK_MPI_FUNCTION(Comm_spawn_multiple,
		 (int count, char *array_of_commands[], char **array_of_argv[],
		  const int array_of_maxprocs[], const MPI_Info array_of_info[], int root,
		  MPI_Comm comm, MPI_Comm *intercomm, int array_of_errcodes[]))
{
	struct gck_mpi_birth b;
	struct gck_mpi_array infos;
	const MPI_Info *real;
	int rc;

	gck_mpi_comm_begin(&b, comm);
	real = gck_mpi_array_in(&infos, array_of_info,
				gck_mpi_comm_of(comm)->rank == root ? count : 0, GCK_MPI_INFO);
	rc = gck_mpi_real.Comm_spawn_multiple(count, array_of_commands, array_of_argv,
					      array_of_maxprocs, real, root,
					      GCK_MPI_REAL_COMM(comm), intercomm ? &b.real : NULL,
					      array_of_errcodes);
	gck_mpi_array_free(&infos);
	return gck_mpi_comm_end(&b, rc, intercomm, "MPI_Comm_spawn_multiple");
}

/* Two parts of one world may connect as well: their intercommunicator is carried like any other. */
GCK_MPI_FUNCTION(Comm_accept, (const char *port_name, MPI_Info info, int root, MPI_Comm comm,
			       MPI_Comm *newcomm))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm);
	b.apart = true;
	rc = gck_mpi_real.Comm_accept(port_name, info_at_root(comm, root, info), root,
				      GCK_MPI_REAL_COMM(comm), newcomm ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, newcomm, "MPI_Comm_accept");
}

GCK_MPI_FUNCTION(Comm_connect, (const char *port_name, MPI_Info info, int root, MPI_Comm comm,
				MPI_Comm *newcomm))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm);
	b.apart = true;
	rc = gck_mpi_real.Comm_connect(port_name, info_at_root(comm, root, info), root,
				       GCK_MPI_REAL_COMM(comm), newcomm ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, newcomm, "MPI_Comm_connect");
}

GCK_MPI_FUNCTION(Comm_join, (int fd, MPI_Comm *intercomm))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, MPI_COMM_SELF);
	b.apart = true;
	rc = gck_mpi_real.Comm_join(fd, intercomm ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, intercomm, "MPI_Comm_join");
}

int gck_mpi_dynamic_init(struct gck_error *err)
{
	struct gck_mpi_birth b = { .parent = MPI_COMM_WORLD };
	MPI_Comm parent;

	if (gck_mpi_real.Comm_get_parent(&b.real))
		return 0;
	if (gck_mpi_comm_made(&b, NULL, &parent))
		return gck_fail(err, ENOMEM, "MPI_Comm_get_parent: no memory for the communicator");
	return 0;
}

/* MPI_Init made the handle if there is a parent. */
GCK_MPI_FUNCTION(Comm_get_parent, (MPI_Comm *parent))
{
	MPI_Comm real = NULL;
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.Comm_get_parent(parent ? &real : NULL);
	if (!rc) {
		*parent = gck_mpi_find(GCK_MPI_COMM, real);
		if (!*parent)
			*parent = MPI_COMM_NULL; /* disconnected */
	}
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Comm_get_parent");
}

GCK_MPI_FUNCTION(Open_port, (MPI_Info info, char *port_name))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.Open_port(GCK_MPI_REAL_INFO(info), port_name);
	if (!rc)
		atomic_fetch_add(&ports, 1);
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Open_port");
}

GCK_MPI_FUNCTION(Close_port, (const char *port_name))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.Close_port(port_name);
	if (!rc)
		atomic_fetch_sub(&ports, 1);
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Close_port");
}

void gck_mpi_dynamic_report_ports(gck_mpi_obstacle_fn *report, void *arg)
{
	if (atomic_load(&ports) > 0)
		report(arg, "an MPI port",
		       "its name (MPI_Open_port) refers to this process, which a restart replaces",
		       "close it (MPI_Close_port) before the checkpoint");
}

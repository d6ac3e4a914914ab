/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GCK_MPI_TODO_H
#define GCK_MPI_TODO_H

#include "shim/mpi/part.h"

/* Names the functions that were called although the table marks them `todo`. */
void gck_mpi_todo_able(gck_mpi_obstacle_fn *tell, void *arg);

#endif

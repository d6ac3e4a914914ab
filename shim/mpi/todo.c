/* SPDX-License-Identifier: Apache-2.0
 * Functions that the table marks `todo`: those that were called are told by `able`. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "shim/mpi/part.h"
#include "shim/mpi/wrap.h"

static struct {
	pthread_mutex_t lock;
	const char *names[512];
	size_t n;
} called = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool listed(const char *function)
{
	for (size_t i = 0; i < called.n; i++)
		if (!strcmp(called.names[i], function))
			return true;
	return false;
}

void gck_mpi_todo(const char *function)
{
	pthread_mutex_lock(&called.lock);
	if (!listed(function) && called.n < sizeof(called.names) / sizeof(called.names[0]))
		called.names[called.n++] = function;
	pthread_mutex_unlock(&called.lock);
}

static void able(gck_mpi_obstacle_fn *tell, void *arg)
{
	pthread_mutex_lock(&called.lock);
	for (size_t i = 0; i < called.n; i++)
		tell(arg, called.names[i], "was called, and cannot be carried over a restart yet",
		     "use a release of gpuckpt that can, or mpi=none");
	pthread_mutex_unlock(&called.lock);
}

const struct gck_mpi_part gck_mpi_todo_part = {.name = "functions", .able = able};

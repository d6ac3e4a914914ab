/* SPDX-License-Identifier: Apache-2.0
 * Loads the real library when the program first calls MPI, and starts the MPI thread. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "shim/mpi/base/gate.h"
#include "shim/mpi/base/library.h"
#include "shim/mpi/handles/bind.h"
#include "shim/mpi/thread/thread.h"

static bool is_test(void)
{
	return gck_mpi_test_folder() != NULL;
}

static void run(struct gck_mpi_thread_state *k)
{
	if (is_test())
		gck_mpi_test_serve(k);
	else
		gck_mpi_serve_agent(k);
}

static const struct gck_mpi_thread_work work = {.runs_without_step = is_test, .run = run};

static int load_once(struct gck_error *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool loaded;
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (!loaded) {
		gck_mpi_gate_guard();
		rc = gck_namespace_load(&gck_mpi_library, &gck_mpi_state.exclusions, err) ||
		     gck_mpi_bind(err) || gck_mpi_thread_start(&work, err) ? -1 : 0;
		loaded = !rc;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static void load(void)
{
	struct gck_error err = {0};

	if (load_once(&err) == 0)
		return;
	fprintf(stderr, "gpuckpt: MPI: %s\n", err.text);
	_exit(1);
}

GCK_MPI_LOADER(load);

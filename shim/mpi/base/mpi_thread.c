/* SPDX-License-Identifier: Apache-2.0
 * The MPI thread's start, end and state. */
#define _GNU_SOURCE
#include "shim/mpi/base/mpi_thread.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/mpi/base/gate.h"
#include "shim/namespace/namespace.h"
#include "shim/inside/rank.h"

#define STOP_MS 2000      /* limit for the thread to leave the real library at the program's end */

struct gck_mpi_state gck_mpi_state = {
	.magic = GCK_MPI_STATE_MAGIC, .version = GCK_MPI_STATE_VERSION,
	.size = sizeof gck_mpi_state, .link_fd = -1,
};

static struct gck_mpi_thread_state keeper = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .link = {.fd = -1},
};

static struct {
	_Atomic bool initialized, finalized, leaving;
	int (*init_again)(struct gck_error *err);
} lifetime;

/* ---- between MPI_Init and MPI_Finalize ------------------------------------------------------ */

bool gck_mpi_initialized(void)
{
	return atomic_load(&lifetime.initialized);
}

bool gck_mpi_finalized(void)
{
	return atomic_load(&lifetime.finalized);
}

bool gck_mpi_running(void)
{
	return gck_mpi_initialized() && !gck_mpi_finalized();
}

bool gck_mpi_leaving(void)
{
	return atomic_load(&lifetime.leaving);
}

void gck_mpi_set_initialized(int (*init_again)(struct gck_error *err))
{
	lifetime.init_again = init_again;
	atomic_store(&lifetime.initialized, true);
}

int gck_mpi_init_again(struct gck_error *err)
{
	return lifetime.init_again(err);
}

void gck_mpi_set_leaving(bool leaving)
{
	atomic_store(&lifetime.leaving, leaving);
}

void gck_mpi_set_finalized(void)
{
	atomic_store(&lifetime.finalized, true);
}

/* ---- fields under the lock ------------------------------------------------------------------ */

bool gck_mpi_thread_stopping(struct gck_mpi_thread_state *k)
{
	bool stopping;

	pthread_mutex_lock(&k->lock);
	stopping = k->stopping;
	pthread_mutex_unlock(&k->lock);
	return stopping;
}

static struct timespec after(int ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += ms / 1000;
	ts.tv_nsec += ms % 1000 * 1000000l;
	if (ts.tv_nsec >= 1000000000l) {
		ts.tv_sec++;
		ts.tv_nsec -= 1000000000l;
	}
	return ts;
}

enum gck_mpi_stage gck_mpi_thread_stage(struct gck_mpi_thread_state *k, int ms)
{
	struct timespec end = after(ms);
	enum gck_mpi_stage stage;

	pthread_mutex_lock(&k->lock);
	while (k->stage == GCK_MPI_STARTING && !k->stopping)
		if (pthread_cond_timedwait(&k->changed, &k->lock, &end))
			break;
	stage = k->stage;
	pthread_mutex_unlock(&k->lock);
	return stage;
}

bool gck_mpi_thread_told(struct gck_mpi_thread_state *k)
{
	bool told;

	pthread_mutex_lock(&k->lock);
	told = k->told;
	pthread_mutex_unlock(&k->lock);
	return told;
}

void gck_mpi_thread_tell(struct gck_mpi_thread_state *k, bool told)
{
	pthread_mutex_lock(&k->lock);
	k->told = told;
	pthread_mutex_unlock(&k->lock);
}

void gck_mpi_thread_pause(struct gck_mpi_thread_state *k, int ms)
{
	struct timespec end = after(ms);

	pthread_mutex_lock(&k->lock);
	while (!k->stopping)
		if (pthread_cond_timedwait(&k->changed, &k->lock, &end))
			break;
	pthread_mutex_unlock(&k->lock);
}

bool gck_mpi_thread_restored(const struct gck_mpi_thread_state *k)
{
	return gck_inside_restarts() != k->restarts;
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void *run(void *arg)
{
	struct gck_mpi_thread_state *k = arg;

	pthread_setname_np(pthread_self(), "gpuckpt-mpi");
	gck_mpi_thread_new()->passes = true;
	gck_mpi_state.tid = (int32_t)gettid();
	k->work->run(k);
	gck_mpi_state.tid = 0;
	return NULL;
}

/* In a forked child: the thread does not exist there, and the link is the parent's. */
static void leave_to_parent(void)
{
	if (keeper.link.fd >= 0)
		close(keeper.link.fd);
	keeper.link.fd = gck_mpi_state.link_fd = -1;
	keeper.runs = false;
	pthread_mutex_init(&keeper.lock, NULL);
}

static int start(struct gck_mpi_thread_state *k, struct gck_error *err)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&k->thread, NULL, run, k);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	k->runs = rc == 0;
	return rc ? gck_fail(err, rc, "no thread for checkpoints of MPI: %s", strerror(rc)) : 0;
}

int gck_mpi_thread_start(const struct gck_mpi_thread_work *work, struct gck_error *err)
{
	static bool hooked;

	if (keeper.runs || !(gck_inside_is_rank() || work->wanted()))
		return 0;
	if (!hooked && pthread_atfork(NULL, NULL, leave_to_parent))
		return gck_fail(err, ENOMEM, "no memory for checkpoints of MPI");
	hooked = true;
	keeper.work = work;
	keeper.restarts = gck_inside_restarts();
	gck_inside_uses_mpi(&gck_mpi_state);
	return start(&keeper, err);
}

/* ---- the program's side --------------------------------------------------------------------- */

static void enter_stage(enum gck_mpi_stage stage, int rank, int size)
{
	pthread_mutex_lock(&keeper.lock);
	keeper.stage = stage;
	keeper.rank = rank;
	keeper.size = size;
	keeper.told = false;
	pthread_cond_broadcast(&keeper.changed);
	pthread_mutex_unlock(&keeper.lock);
}

void gck_mpi_thread_starting(void)
{
	enter_stage(GCK_MPI_STARTING, keeper.rank, 0);
}

void gck_mpi_thread_ready(int rank, int size)
{
	enter_stage(GCK_MPI_INSIDE, rank, size);
}

void gck_mpi_thread_outside(void)
{
	enter_stage(GCK_MPI_OUTSIDE, keeper.rank, 0);
}

/* Stops the thread at exit. The published state stays: an image taken from now on would hold what
 * the real library still owns, so the capture refuses it as not at rest. */
static void stop(void)
{
	struct timespec limit = after(STOP_MS);

	if (!keeper.runs)
		return;
	pthread_mutex_lock(&keeper.lock);
	keeper.stopping = true;
	pthread_cond_broadcast(&keeper.changed);
	pthread_mutex_unlock(&keeper.lock);
	gck_inside_link_wake(&keeper.link);
	if (pthread_timedjoin_np(keeper.thread, NULL, &limit) == 0)
		keeper.runs = false;
}

int gck_mpi_thread_stops_at_exit(struct gck_error *err)
{
	static bool does;

	if (!does && atexit(stop))
		return gck_fail(err, ECANCELED, "the program is ending");
	does = true;
	return 0;
}

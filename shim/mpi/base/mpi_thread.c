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

static struct gck_mpi_thread_state mpi_thread = {
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
	while (k->stage == GCK_MPI_INITIALIZING && !k->stopping)
		if (pthread_cond_timedwait(&k->changed, &k->lock, &end))
			break;
	stage = k->stage;
	pthread_mutex_unlock(&k->lock);
	return stage;
}

bool gck_mpi_thread_stage_reported(struct gck_mpi_thread_state *k)
{
	bool stage_reported;

	pthread_mutex_lock(&k->lock);
	stage_reported = k->stage_reported;
	pthread_mutex_unlock(&k->lock);
	return stage_reported;
}

void gck_mpi_thread_set_reported(struct gck_mpi_thread_state *k, bool stage_reported)
{
	pthread_mutex_lock(&k->lock);
	k->stage_reported = stage_reported;
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
	gck_gate_own_thread(&gck_gate_owner);
	gck_mpi_state.tid = (int32_t)gettid();
	k->work->run(k);
	gck_mpi_state.tid = 0;
	return NULL;
}

static bool inherited; /* this process was forked from one with the thread, which has MPI */

/* In a forked child: the thread does not exist there, and the link is the parent's. */
static void forget_in_child(void)
{
	inherited = true;
	if (mpi_thread.link.fd >= 0)
		close(mpi_thread.link.fd);
	mpi_thread.link.fd = gck_mpi_state.link_fd = -1;
	mpi_thread.runs = false;
	pthread_mutex_init(&mpi_thread.lock, NULL);
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
	return rc ? gck_fail(err, rc, "the thread for checkpoints of MPI cannot be created: %s",
				      strerror(rc)) : 0;
}

int gck_mpi_thread_start(const struct gck_mpi_thread_work *work, struct gck_error *err)
{
	static bool fork_handled;

	if (mpi_thread.runs || inherited ||
	    !(gck_inside_has_agent() || work->runs_without_step()))
		return 0;
	if (!fork_handled && pthread_atfork(NULL, NULL, forget_in_child))
		return gck_fail(err, ENOMEM, "no memory to handle forks of an MPI program");
	fork_handled = true;
	mpi_thread.work = work;
	mpi_thread.restarts = gck_inside_restarts();
	gck_inside_uses_mpi(&gck_mpi_state);
	return start(&mpi_thread, err);
}

bool gck_mpi_thread_in_step(void)
{
	return mpi_thread.runs || *gck_inside_agent();
}

/* ---- the program's side --------------------------------------------------------------------- */

static void enter_stage(enum gck_mpi_stage stage, int rank, int size)
{
	pthread_mutex_lock(&mpi_thread.lock);
	mpi_thread.stage = stage;
	mpi_thread.rank = rank;
	mpi_thread.size = size;
	mpi_thread.stage_reported = false;
	pthread_cond_broadcast(&mpi_thread.changed);
	pthread_mutex_unlock(&mpi_thread.lock);
}

void gck_mpi_thread_initializing(void)
{
	enter_stage(GCK_MPI_INITIALIZING, mpi_thread.rank, 0);
}

void gck_mpi_thread_initialized(int rank, int size)
{
	enter_stage(GCK_MPI_INITIALIZED, rank, size);
}

void gck_mpi_thread_uninitialized(void)
{
	enter_stage(GCK_MPI_UNINITIALIZED, mpi_thread.rank, 0);
}

/* Stops the thread at exit. The published state stays: an image taken from now on would hold what
 * the real library still owns, so the capture refuses it as not at rest. */
static void stop(void)
{
	struct timespec limit = after(STOP_MS);

	if (!mpi_thread.runs)
		return;
	pthread_mutex_lock(&mpi_thread.lock);
	mpi_thread.stopping = true;
	pthread_cond_broadcast(&mpi_thread.changed);
	pthread_mutex_unlock(&mpi_thread.lock);
	gck_inside_link_wake(&mpi_thread.link);
	if (pthread_timedjoin_np(mpi_thread.thread, NULL, &limit) == 0)
		mpi_thread.runs = false;
}

int gck_mpi_thread_stops_at_exit(struct gck_error *err)
{
	static bool registered;

	if (!registered && atexit(stop))
		return gck_fail(err, ECANCELED, "the program is exiting");
	registered = true;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * The MPI thread: its start, its end, and the link that it keeps. */
#define _GNU_SOURCE
#include "shim/mpi/thread.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/mpi/clock.h"
#include "shim/mpi/gate.h"
#include "shim/mpi/namespace/namespace.h"
#include "shim/mpi/preload.h"

#define AGAIN_MS 100      /* between attempts to connect, doubled up to */
#define AGAIN_MOST_MS 2000

struct gck_mpi_state gck_mpi_state = {
	.magic = GCK_MPI_STATE_MAGIC, .version = GCK_MPI_STATE_VERSION,
	.size = sizeof gck_mpi_state, .link_fd = -1,
};

static struct gck_mpi_keeper keeper = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .link = {.fd = -1},
};

/* ---- what others change --------------------------------------------------------------------- */

bool gck_mpi_keeper_stopping(struct gck_mpi_keeper *k)
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

bool gck_mpi_keeper_ready(struct gck_mpi_keeper *k, int ms)
{
	struct timespec end = after(ms);
	bool ready;

	pthread_mutex_lock(&k->lock);
	while (!k->ready && !k->stopping)
		if (pthread_cond_timedwait(&k->changed, &k->lock, &end))
			break;
	ready = k->ready && !k->stopping;
	pthread_mutex_unlock(&k->lock);
	return ready;
}

void gck_mpi_keeper_pause(struct gck_mpi_keeper *k, int ms)
{
	struct timespec end = after(ms);

	pthread_mutex_lock(&k->lock);
	while (!k->stopping)
		if (pthread_cond_timedwait(&k->changed, &k->lock, &end))
			break;
	pthread_mutex_unlock(&k->lock);
}

bool gck_mpi_keeper_restored(const struct gck_mpi_keeper *k)
{
	return gck_mpi_preload_restarts() != k->restarts;
}

void gck_mpi_resume(void)
{
	__atomic_store_n(&gck_mpi_state.closed_for, 0, __ATOMIC_SEQ_CST);
	gck_mpi_clock_resume();
	gck_mpi_gate_open();
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* An agent that has died is started again. */
static void keep_link(struct gck_mpi_keeper *k)
{
	int ms = AGAIN_MS;

	while (!gck_mpi_keeper_stopping(k)) {
		if (gck_mpi_link_connect(&k->link, gck_mpi_preload_link(), NULL) == 0) {
			gck_mpi_state.link_fd = k->link.fd;
			if (gck_mpi_serve_hello(k) == 0) {
				ms = AGAIN_MS;
				gck_mpi_serve(k);
			}
			gck_mpi_state.link_fd = -1;
			gck_mpi_link_close(&k->link);
		}
		gck_mpi_keeper_pause(k, ms);
		ms = ms * 2 < AGAIN_MOST_MS ? ms * 2 : AGAIN_MOST_MS;
	}
}

static void *run(void *arg)
{
	struct gck_mpi_keeper *k = arg;

	pthread_setname_np(pthread_self(), "gpuckpt-mpi");
	gck_mpi_thread = gck_mpi_thread_new();
	gck_mpi_thread->passes = true;
	gck_mpi_state.tid = (int32_t)gettid();
	if (gck_mpi_cycle_wanted())
		gck_mpi_cycle_serve(k);
	else
		keep_link(k);
	gck_mpi_state.tid = 0;
	return NULL;
}

/* A child has neither the thread nor a part in the link. */
static void leave_to_parent(void)
{
	if (keeper.link.fd >= 0)
		close(keeper.link.fd);
	keeper.link.fd = gck_mpi_state.link_fd = -1;
	keeper.runs = false;
}

static int start(struct gck_mpi_keeper *k, struct gck_error *err)
{
	sigset_t all, before;
	int rc;

	gck_mpi_preload_uses(&gck_mpi_state);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&k->thread, NULL, run, k);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	k->runs = rc == 0;
	if (k->runs)
		return 0;
	gck_mpi_preload_uses(NULL);
	return gck_fail(err, rc, "no thread for checkpoints of MPI: %s", strerror(rc));
}

int gck_mpi_thread_start(struct gck_error *err)
{
	static bool hooked;

	if (keeper.runs || !(gck_mpi_preload_is_rank() || gck_mpi_cycle_wanted()))
		return 0;
	if (!hooked && pthread_atfork(NULL, NULL, leave_to_parent))
		return gck_fail(err, ENOMEM, "no memory for checkpoints of MPI");
	hooked = true;
	keeper.stopping = keeper.ready = keeper.told_ready = false;
	keeper.restarts = gck_mpi_preload_restarts();
	return start(&keeper, err);
}

void gck_mpi_thread_ready(int rank, int size)
{
	pthread_mutex_lock(&keeper.lock);
	keeper.rank = rank;
	keeper.size = size;
	keeper.ready = true;
	pthread_cond_broadcast(&keeper.changed);
	pthread_mutex_unlock(&keeper.lock);
}

void gck_mpi_thread_stop(void)
{
	if (!keeper.runs)
		return;
	pthread_mutex_lock(&keeper.lock);
	keeper.stopping = true;
	pthread_cond_broadcast(&keeper.changed);
	pthread_mutex_unlock(&keeper.lock);
	gck_mpi_link_wake(&keeper.link);
	pthread_join(keeper.thread, NULL);
	keeper.runs = false;
	gck_mpi_preload_uses(NULL);
}

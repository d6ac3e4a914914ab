/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/transfer/data_server.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/snapshot/device_copy.h"
#include "shim/cuda/transfer/data_requests.h"
#include "shim/inside/descriptor.h"

#define NAP_NS 20000     /* while copies are under way */
#define LOOK_MS 1000     /* between looks whether the socket is still there */

static struct {
	pthread_t thread;
	bool runs;
	int ring;
	struct gck_cuda_requests requests;
} server = {.requests.link.fd = -1, .ring = -1};

/* ---- the thread ----------------------------------------------------------------------------- */

/* Its number is forgotten first: a child that is made meanwhile would close what the program has put there. */
static void close_ring(void)
{
	int ring = server.ring;

	server.ring = gck_cuda_state.data_fd[1] = -1;
	if (ring >= 0)
		close(ring);
}

/* What cannot be opened stands no more, and what is asked is answered so. */
static void open_snapshot(void)
{
	struct gck_error why = {0};
	int rc = 1;

	while (rc > 0 && gck_cuda_standing_lock(&why)) {
		rc = gck_cuda_standing_open(server.ring, &why);
		gck_cuda_standing_unlock();
	}
	if (rc < 0)
		gck_cuda_standing_end(why.code, why.text);
	close_ring();
}

/* 1: taken on, 0: there was none; -1: the end. */
static int listen_once(int ms)
{
	struct gck_link_data m;
	int rc = gck_cuda_data_receive(&server.requests.link, &m, ms);

	return rc > 0 && gck_cuda_requests_take(&server.requests, &m) ? -1 : rc;
}

static void serve(void)
{
	const struct timespec nap = {0, NAP_NS};
	struct gck_cuda_requests *r = &server.requests;

	for (;;) {
		int rc = gck_cuda_requests_work(r), heard = 0;

		if (rc >= 0 && !r->now.type)
			heard = listen_once(r->n || rc ? 0 : LOOK_MS);
		if (rc < 0 || heard < 0)
			return;
		if (r->n && !rc && !heard)
			nanosleep(&nap, NULL);
	}
}

static void *run(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	pthread_setname_np(pthread_self(), "gpuckpt-data");
	gck_gate_thread_new(&gck_gate_owner)->passes = true;
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	open_snapshot();
	serve();
	gck_cuda_standing_end(ECANCELED, "nobody reads it any more");
	gck_cuda_data_shut(&server.requests.link);
	return arg;
}

static void forget(void)
{
	gck_cuda_data_close(&server.requests.link);
	gck_cuda_state.data_fd[0] = -1;
	close_ring();
	server.requests = (struct gck_cuda_requests){.link.fd = -1};
}

void gck_cuda_data_serve(const int fds[2])
{
	sigset_t all, before;

	gck_cuda_data_open(&server.requests.link, fds[0]);
	gck_cuda_state.data_fd[0] = server.requests.link.fd;
	server.ring = gck_cuda_state.data_fd[1] = gck_inside_move_away(fds[1]);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	server.runs = pthread_create(&server.thread, NULL, run, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!server.runs)
		gck_cuda_data_end();
}

void gck_cuda_data_end(void)
{
	gck_cuda_standing_end(ECANCELED, "the next checkpoint has begun");
	gck_cuda_data_shut(&server.requests.link);
	if (server.runs)
		pthread_join(server.thread, NULL);
	server.runs = false;
	forget();
}

void gck_cuda_data_forked(void)
{
	server.runs = false;
	gck_cuda_data_leave(&server.requests.link);
	forget();
}

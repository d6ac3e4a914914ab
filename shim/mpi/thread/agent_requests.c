/* SPDX-License-Identifier: Apache-2.0
 * The agent's requests to the MPI thread, and the thread's work after a restart. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shim/mpi/base/pmix.h"
#include "shim/inside/rank.h"
#include "shim/mpi/quiesce/quiesce.h"
#include "shim/mpi/thread/thread.h"

#define RECONNECT_MS 100      /* between attempts to connect; doubled up to RECONNECT_MAX_MS */
#define RECONNECT_MAX_MS 2000
#define CHECK_MS 200          /* between checks of the link and of a change to report */
#define RESTART_CONNECT_MS 50
#define RESTART_CONNECT_TRIES 200 /* after a restart, when the agent ran a moment ago */

static int send_failure(const struct gck_mpi_thread_state *k, struct gck_thread_msg m)
{
	m.value = (uint32_t)k->rebuild_error.code;
	return gck_inside_link_send(&k->link, &m, k->rebuild_error.text,
				    m.value ? strlen(k->rebuild_error.text) + 1 : 0);
}

static int send_rebuilt(const struct gck_mpi_thread_state *k)
{
	return send_failure(k, (struct gck_thread_msg){.type = GCK_LINK_MPI_REBUILT});
}

/* Sends HELLO for the current stage; the next change of stage is reported again. A failed rebuild
 * of MPI is reported on every link: this agent may not be the one that restored the rank. */
static int send_hello(struct gck_mpi_thread_state *k)
{
	struct gck_link_mpi_hello hello = {.version = GCK_LINK_VERSION, .restored = k->restoring,
					   .state = (uint64_t)(uintptr_t)&gck_mpi_state};
	enum gck_mpi_stage stage;

	gck_mpi_thread_set_reported(k, true);
	stage = gck_mpi_thread_stage(k, 0);
	hello.rank = (uint32_t)k->rank;
	hello.mpi_inactive = stage == GCK_MPI_UNINITIALIZED;
	if (stage == GCK_MPI_INITIALIZED) {
		hello.size = (uint32_t)k->size;
		hello.pmix = !k->restoring && gck_mpi_pmix_usable();
	}
	if (gck_inside_link_send(&k->link, &(struct gck_thread_msg){.type = GCK_LINK_MPI_HELLO},
				 &hello, sizeof hello))
		return -1;
	return k->rebuild_error.code ? send_rebuilt(k) : 0;
}

/* ---- obstacles to a checkpoint -------------------------------------------------------------- */

static void send_obstacle(void *arg, const char *object, const char *reason, const char *remedy)
{
	struct gck_mpi_thread_state *k = arg;
	char text[1024];
	const char *parts[] = {object, reason, remedy};
	size_t at = 0;

	for (int i = 0; i < 3; i++) {
		int n = snprintf(text + at, 340, "%s", parts[i]);

		at += (n < 340 ? (size_t)n : 339) + 1;
	}
	gck_inside_link_send(&k->link, &(struct gck_thread_msg){.type = GCK_LINK_MPI_OBSTACLE},
			     text, at);
}

static int send_obstacles(struct gck_mpi_thread_state *k)
{
	if (!gck_mpi_thread_stage_reported(k) && send_hello(k))
		return -1;
	if (gck_mpi_thread_stage(k, 0) == GCK_MPI_INITIALIZED)
		gck_mpi_report_obstacles(send_obstacle, k);
	return gck_inside_link_send(&k->link,
				    &(struct gck_thread_msg){.type = GCK_LINK_MPI_OBSTACLES_END},
				    NULL, 0);
}

/* ---- after a restart ------------------------------------------------------------------------ */

/* The old link's descriptor number is not valid in the restored process. */
static int connect_after_restart(struct gck_mpi_thread_state *k)
{
	k->link.fd = gck_mpi_state.link_fd = -1;
	for (int i = 0; i < RESTART_CONNECT_TRIES && !gck_mpi_thread_stopping(k); i++) {
		if (gck_inside_link_connect(&k->link, gck_inside_agent(), NULL) == 0) {
			gck_mpi_state.link_fd = k->link.fd;
			return send_hello(k);
		}
		gck_mpi_thread_pause(k, RESTART_CONNECT_MS);
	}
	return -1;
}

/* Rebuilds MPI, even without a link: the agent may be restarting. A rank whose rebuild fails never
 * runs again: this agent or its successor ends it. */
static void rebuild(struct gck_mpi_thread_state *k)
{
	k->restarts = gck_inside_restarts();
	k->restoring = true;
	connect_after_restart(k);
	if (gck_mpi_rebuild(gck_mpi_thread_stage(k, 0) == GCK_MPI_INITIALIZED, &k->rebuild_error)) {
		k->rebuild_error.code = k->rebuild_error.code ? k->rebuild_error.code : EIO;
		fprintf(stderr, "gpuckpt: rank %d: MPI cannot be rebuilt after the restart: %s\n",
			k->rank, k->rebuild_error.text);
		send_rebuilt(k);
		return;
	}
	k->restoring = false;
	send_hello(k);
	send_rebuilt(k);
	gck_mpi_resume();
}

/* ---- requests ------------------------------------------------------------------------------- */

/* After a failed rebuild; the gate stays closed. */
static int refuse_quiesce(const struct gck_mpi_thread_state *k, const struct gck_inside_message *m)
{
	if (m->head.type != GCK_LINK_MPI_QUIESCE)
		return 0;
	return send_failure(k, (struct gck_thread_msg){.type = GCK_LINK_MPI_QUIESCED,
						     .seq = m->head.seq});
}

static int handle_request(struct gck_mpi_thread_state *k, const struct gck_inside_message *m)
{
	if (k->rebuild_error.code)
		return refuse_quiesce(k, m);
	switch (m->head.type) {
	case GCK_LINK_MPI_QUIESCE:
		if (gck_mpi_serve_quiesce(k, m))
			rebuild(k);
		return 0;
	case GCK_LINK_MPI_LIST_OBSTACLES:
		return send_obstacles(k);
	case GCK_LINK_MPI_RESUME: /* the gate is open already */
	case GCK_LINK_MPI_HOLD:
	case GCK_LINK_MPI_GO:
		return 0;
	default:
		return -1;
	}
}

/* Serves requests until the link ends, the thread must stop, or the process was restored; MPI is
 * then rebuilt, or the rebuild failed for good. */
static void serve(struct gck_mpi_thread_state *k)
{
	int rc = 0;

	while (rc == 0 && !gck_mpi_thread_stopping(k)) {
		struct gck_inside_message m;

		if (!gck_mpi_thread_stage_reported(k) && send_hello(k))
			return;
		rc = gck_inside_link_receive(&k->link, &m, gck_mpi_peer_progress(k, CHECK_MS));
		if (rc == 0 && !gck_inside_link_is_ours(&k->link))
			return;
		if (rc > 0) {
			rc = handle_request(k, &m);
			gck_inside_link_drop(&m);
		}
	}
	if (!gck_mpi_thread_stopping(k))
		return;
	if (!gck_mpi_thread_stage_reported(k)) /* the program ends right after MPI_Finalize */
		send_hello(k);
	gck_inside_link_send(&k->link, &(struct gck_thread_msg){.type = GCK_LINK_MPI_BYE}, NULL, 0);
}

void gck_mpi_serve_agent(struct gck_mpi_thread_state *k)
{
	int ms = RECONNECT_MS;

	while (!gck_mpi_thread_stopping(k)) {
		if (gck_inside_link_connect(&k->link, gck_inside_agent(), NULL) == 0) {
			gck_mpi_state.link_fd = k->link.fd;
			if (send_hello(k) == 0) {
				ms = RECONNECT_MS;
				serve(k);
			}
			gck_mpi_state.link_fd = -1;
			gck_inside_link_close(&k->link);
		}
		gck_mpi_peer_progress_for(k, ms);
		ms = ms * 2 < RECONNECT_MAX_MS ? ms * 2 : RECONNECT_MAX_MS;
	}
}

/* SPDX-License-Identifier: Apache-2.0
 * Restored ranks that want what their devices had. */
#include "config.h"

#include "coordinator/agent/restart/device_feed.h"

#include <string.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/ranks/thread_link.h"
#include "coordinator/agent/worker/child.h"
#include "shim/process/gpu/device_channel.h"

#define TIMES_MAX 3 /* that the process is made anew for a rank, should something kill it */

static void on_message(void *data, const json_t *body)
{
	struct returning *one = data;
	uint64_t done = (uint64_t)packet_int(body, "done", 0);
	struct gck_error err = { 0 };

	if (!strcmp(packet_text(body, "op", ""), "progress")) {
		if (done > one->filled)
			ev_timer_again(one->r->agent->loop, &one->r->rebuild);
		one->filled = done > one->filled ? done : one->filled;
		return;
	}
	gck_fail(&err, (int)packet_int(body, "code", EIO), "what its devices had: %s",
		 packet_text(body, "error", "failed without a reason"));
	restart_fail(one->r, one->task, &err);
}

/* The rank knows by its socket, and asks again if it has not all. */
static void on_end(void *data, int status)
{
	struct returning *one = data;

	(void)status;
	one->filler = NULL;
}

static const struct child_ops ops = { filler_main, on_message, on_end };

void filling_end(struct returning *one)
{
	if (one->filler)
		child_forget(one->filler);
	one->filler = NULL;
}

static void refuse(struct thread_link *l, const struct gck_error *why)
{
	struct gck_link_mpi m = { .type = GCK_LINK_CUDA_FILL, .value = (uint32_t)why->code };

	thread_link_send(l, &m, why->text, strlen(why->text) + 1);
}

static int start(struct returning *one, struct gck_device_ends *e, struct gck_error *err)
{
	struct worker_task work = one->work;

	if (one->fills == TIMES_MAX)
		return gck_fail(err, EIO, "the process that brings what its devices had ended %d times",
				TIMES_MAX);
	if (gck_device_make(e, err) < 0)
		return -1;
	one->fills++;
	one->filled = 0; /* each begins anew */
	work.seq = one->r->seq;
	memcpy(work.hash, one->r->hash, sizeof work.hash);
	memcpy(work.device, e->own, sizeof work.device);
	one->filler = child_start(one->r->agent->loop, &ops, &work, e->own, GCK_LINK_DATA_FDS, one, err);
	gck_device_drop(e->own);
	if (one->filler)
		return 0;
	gck_device_drop(e->rank);
	return -1;
}

static void fill(struct returning *one)
{
	struct gck_link_mpi m = { .type = GCK_LINK_CUDA_FILL, .seq = one->r->seq };
	struct gck_device_ends e;
	struct gck_error err = { 0 };

	filling_end(one);
	if (start(one, &e, &err) == 0) {
		thread_link_give(one->task->cuda, &m, e.rank);
		return;
	}
	refuse(one->task->cuda, &err);
	restart_fail(one->r, one->task, &err);
}

/* An agent that was started in the restart knows nothing of it: what the coordinator asks next fails, and
 * the job is given back. */
void filling_wanted(struct agent *a, struct task *t)
{
	const struct restart *r = a->restart;
	struct gck_error err = { 0 };

	for (size_t i = 0; r && r->stage == STAGE_RUNNING && i < r->n; i++)
		if (r->ranks[i].task == t) {
			fill(&r->ranks[i]);
			return;
		}
	gck_fail(&err, ESRCH, "node %s: no restart is under way here that would bring what its devices "
		 "had", a->step->node);
	refuse(t->cuda, &err);
}

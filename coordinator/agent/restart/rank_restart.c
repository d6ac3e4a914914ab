/* SPDX-License-Identifier: Apache-2.0
 * One rank of this node in a restart: its restorer, and what that answers. */
#include "config.h"

#include "coordinator/agent/restart/rank_restart.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/ranks/thread_link.h"
#include "coordinator/agent/restart/common_restore.h"
#include "coordinator/agent/restart/stages.h"
#include "coordinator/agent/worker/child.h"
#include "shim/process/gpu/gpu.h"

static void take_failure(struct rank_restart *one, const json_t *body)
{
	struct gck_error err = { 0 };

	gck_fail(&err, (int)packet_int(body, "code", EIO), "%s",
		 packet_text(body, "error", "failed without a reason"));
	restart_fail(one->r, one->task, &err);
}

/* A build of another commit than the current one says nothing about the current one. */
static bool is_late(const struct rank_restart *one, const json_t *body)
{
	return !strcmp(packet_text(body, "phase", ""), "build") &&
	       packet_int(body, "seq", 0) != one->r->seq;
}

enum restart_part rank_restart_lacks(const struct rank_restart *one)
{
	if (one->has_mpi && !one->mpi_back)
		return RESTART_MPI;
	for (size_t i = 0; i < one->ngpus; i++)
		if (!one->gpus[i].back)
			return RESTART_CUDA;
	return RESTART_PARTS;
}

static void fail_ended(struct rank_restart *one)
{
	struct gck_error err = { 0 };

	gck_fail(&err, ESRCH, "it ended (status %d) before it was restored", one->task->status);
	restart_fail(one->r, one->task, &err);
}

/* Its threads, or its program, may be done before its restorer has reported that it runs. */
static void finish(struct rank_restart *one)
{
	const struct task *t = one->task;

	if (one->ran && (rank_restart_lacks(one) == RESTART_PARTS ||
			 (t->ended && WIFEXITED(t->status))))
		one->reached = STAGE_DONE;
	else if (one->ran && t->ended)
		fail_ended(one);
}

void rank_restart_ended(struct rank_restart *one)
{
	if (one->ran)
		finish(one);
	else if (one->r->stage != STAGE_RUNNING || !one->child)
		fail_ended(one); /* else its restorer still has to report */
}

/* The process with this number, if it must come back. */
static struct gpu_restart *find_gpu(const struct rank_restart *one, pid_t number)
{
	for (size_t i = 0; i < one->ngpus; i++)
		if (one->gpus[i].number == number)
			return &one->gpus[i];
	return NULL;
}

void rank_restart_back(struct rank_restart *one, enum restart_part part, pid_t number)
{
	struct gpu_restart *g = part == RESTART_CUDA ? find_gpu(one, number) : NULL;

	one->mpi_back |= part == RESTART_MPI;
	if (g)
		g->back = true;
	finish(one);
}

static void forget_gpus(struct rank_restart *one)
{
	for (size_t i = 0; i < one->ngpus; i++)
		if (one->gpus[i].child)
			child_forget(one->gpus[i].child);
	free(one->gpus);
	one->gpus = NULL;
	one->ngpus = 0;
}

static int take_gpus(struct rank_restart *one, const json_t *numbers, struct gck_error *err)
{
	const json_t *number;
	size_t i;

	forget_gpus(one);
	json_array_foreach(numbers, i, number) {
		struct gpu_restart *g = gck_grow(&one->gpus, &one->ngpus, sizeof *g, err);

		if (!g)
			return -1;
		g->one = one;
		g->number = (pid_t)json_integer_value(number);
	}
	return 0;
}

/* Its restorer has looked at the image, and at nothing else. */
static void go_apart(struct rank_restart *one, pid_t number, uint32_t above)
{
	struct gck_error err = { 0 };

	child_forget(one->child);
	one->child = NULL;
	if (one->task->link && link_tell(one->task->link, GCK_LINK_APART, number, above) == 0)
		return;
	gck_fail(&err, ESRCH, "it has no link to the agent");
	restart_fail(one->r, one->task, &err);
}

void rank_restart_moved(struct rank_restart *one, int code)
{
	struct gck_error err = { 0 };

	if (!code) {
		rank_restart_start(one);
		return;
	}
	gck_fail(&err, code == EINVAL ? EPROTO : EPERM, "its image has a static program, which "
		 "needs its old process numbers, and this node lets %s make no user and PID "
		 "namespace for them: %s (sysctl user.max_user_namespaces, "
		 "kernel.unprivileged_userns_clone, AppArmor)", getuid() ? "its user" : "root",
		 strerror(code));
	restart_fail(one->r, one->task, &err);
}

static void take_done(struct rank_restart *one, const json_t *body)
{
	const char *phase = packet_text(body, "phase", "");
	struct gck_error err = { 0 };

	if (is_late(one, body))
		return;
	if (!packet_bool(body, "ok")) {
		take_failure(one, body);
		return;
	}
	if (!strcmp(phase, "apart")) {
		go_apart(one, (pid_t)packet_int(body, "number", 0),
			 (uint32_t)packet_int(body, "above", 0));
	} else if (!strcmp(phase, "build")) {
		one->reached = STAGE_BUILT;
		one->sized = true;
		one->exit = packet_int(body, "exit", -1);
		one->has_mpi = packet_bool(body, "mpi");
		if (take_gpus(one, json_object_get(body, "cuda"), &err) < 0)
			restart_fail(one->r, one->task, &err);
	} else if (!strcmp(phase, "files")) {
		one->reached = STAGE_REOPENING;
	} else if (!strcmp(phase, "reopen")) {
		one->reached = STAGE_FILED;
	} else {
		one->ran = true;
		finish(one);
	}
	restart_advance(one->r);
}

static void on_message(void *data, const json_t *body)
{
	struct rank_restart *one = data;

	if (!strcmp(packet_text(body, "op", ""), "progress")) {
		one->sized = true;
		one->done = (uint64_t)packet_int(body, "done", 0);
		one->all = (uint64_t)packet_int(body, "all", 0);
	} else if (!strcmp(packet_text(body, "op", ""), "share")) {
		if (!is_late(one, body) && one->r->stage == STAGE_BUILDING)
			common_restore_share(one, body);
	} else {
		take_done(one, body);
	}
}

/* A rank that was emptied dies with its restorer. */
static void on_end(void *data, int status)
{
	struct rank_restart *one = data;
	struct gck_error err = { 0 };
	char text[64];

	one->child = NULL;
	link_return(one->task, false);
	if (one->ran || one->reached == STAGE_DONE)
		return;
	gck_fail(&err, EIO, "its restorer ended (%s), and the rank with it",
		 child_status_text(status, text, sizeof text));
	restart_fail(one->r, one->task, &err);
}

static const struct child_ops ops = { restorer_main, on_message, on_end };

void rank_restart_start(struct rank_restart *one)
{
	const struct restart *r = one->r;
	struct gck_error err = { 0 };

	one->work = (struct worker_task){
		.step = r->agent->step, .rank = one->task->rank, .pid = task_number(one->task),
		.link = -1, .seq = r->seq, .from_job = r->from_job, .from_step = r->from_step,
		.pool = r->pool,
	};
	memcpy(one->work.hash, r->hash, sizeof r->hash);
	one->reached = STAGE_BUILDING;
	one->exit = -1;
	one->ran = false;
	one->has_mpi = one->mpi_back = false;
	forget_gpus(one);
	one->child = child_start(r->agent->loop, &ops, &one->work,
				 task_beside(one->task), &r->pool, 1, one, &err);
	one->work.pool = -1; /* it is not kept open here */
	if (!one->child)
		restart_fail(one->r, one->task, &err);
}

/* Without a restorer the rank is dead, too. */
static void tell(struct rank_restart *one, json_t *body)
{
	struct gck_error err = { 0 };

	if (one->child) {
		child_tell(one->child, body);
		return;
	}
	json_decref(body);
	gck_fail(&err, ESRCH, "its restorer is gone, and the rank with it");
	restart_fail(one->r, one->task, &err);
}

void rank_restart_build(struct rank_restart *one)
{
	one->reached = STAGE_BUILDING;
	one->exit = -1;
	one->sized = false;
	one->done = one->all = 0;
	tell(one, json_pack("{s:s, s:I, s:s}", "op", "build", "seq", (json_int_t)one->r->seq,
			    "hash", one->r->hash));
}

void rank_restart_files(struct rank_restart *one)
{
	tell(one, json_pack("{s:s}", "op", "files"));
}

void rank_restart_reopen(struct rank_restart *one)
{
	tell(one, json_pack("{s:s}", "op", "reopen"));
}

void rank_restart_run(struct rank_restart *one)
{
	if (one->exit >= 0) {
		if (one->task->link)
			link_dismiss(one->task->link, exit_code((int)one->exit));
		one->reached = STAGE_DONE;
	}
	tell(one, json_pack("{s:s}", "op", "run"));
}

void rank_restart_end(struct rank_restart *one)
{
	if (one->child)
		child_kill(one->child);
	forget_gpus(one);
}

/* ---- device data --------------------------------------------------------------------------- */

#define TIMES_MAX 3 /* for each process, in case something kills the child */

static void on_restore_message(void *data, const json_t *body)
{
	struct gpu_restart *g = data;
	struct restart *r = g->one->r;
	uint64_t done = (uint64_t)packet_int(body, "done", 0);
	struct gck_error err = { 0 };

	if (!strcmp(packet_text(body, "op", ""), "progress")) {
		if (done > g->bytes)
			ev_timer_again(r->agent->loop, &r->rebuild);
		g->bytes = done > g->bytes ? done : g->bytes;
		return;
	}
	gck_fail(&err, (int)packet_int(body, "code", EIO), "the data of its devices: %s",
		 packet_text(body, "error", "failed without a reason"));
	restart_fail(r, g->one->task, &err);
}

/* The rank sees the end of its socket, and asks again if it lacks data. */
static void on_restore_end(void *data, int status)
{
	struct gpu_restart *g = data;

	(void)status;
	g->child = NULL;
}

static const struct child_ops device_restore_ops = { device_restore_main, on_restore_message,
					     on_restore_end };

static void refuse(struct thread_link *l, const struct gck_error *why)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_RESTORE, .value = (uint32_t)why->code };

	thread_link_send(l, &m, why->text, strlen(why->text) + 1);
}

static int start_device_restore(struct gpu_restart *g, pid_t number,
				struct gck_device_channel_ends *e, struct gck_error *err)
{
	const struct restart *r = g->one->r;
	struct worker_task work = g->one->work;
	struct worker_device device = { .pid = number };

	if (g->children == TIMES_MAX)
		return gck_fail(err, EIO,
				"the process that sends its devices' data ended %d times",
				TIMES_MAX);
	if (gck_device_channel_make(e, err) < 0)
		return -1;
	g->children++;
	g->bytes = 0; /* each starts over */
	memcpy(device.fds, e->own, sizeof device.fds);
	work.seq = r->seq;
	memcpy(work.hash, r->hash, sizeof work.hash);
	work.devices = &device;
	work.ndevices = 1;
	g->child = child_start(r->agent->loop, &device_restore_ops, &work, 0, e->own,
			       GCK_LINK_DATA_FDS, g, err);
	gck_device_channel_drop(e->own);
	if (g->child)
		return 0;
	gck_device_channel_drop(e->rank);
	return -1;
}

static void fill(struct gpu_restart *g, struct thread_link *l)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_RESTORE, .seq = g->one->r->seq };
	struct gck_device_channel_ends e;
	struct gck_error err = { 0 };

	if (g->child)
		child_forget(g->child);
	g->child = NULL;
	if (start_device_restore(g, l->number, &e, &err) == 0) {
		thread_link_give(l, &m, e.rank);
		return;
	}
	refuse(l, &err);
	restart_fail(g->one->r, g->one->task, &err);
}

static struct gpu_restart *gpu_of(const struct restart *r, const struct thread_link *l)
{
	for (size_t i = 0; r && r->stage == STAGE_RUNNING && i < r->n; i++)
		if (r->ranks[i].task == l->task)
			return find_gpu(&r->ranks[i], l->number);
	return NULL;
}

/* An agent that was started during the restart knows nothing of it: the coordinator's next
 * command fails, and the job is requeued. */
void device_restore_wanted(struct thread_link *l)
{
	struct gpu_restart *g = gpu_of(l->agent->restart, l);
	struct gck_error err = { 0 };

	if (g) {
		fill(g, l);
		return;
	}
	gck_fail(&err, ESRCH,
		 "node %s: no restart is in progress here that could send its "
		 "devices' data", l->agent->step->node);
	refuse(l, &err);
}

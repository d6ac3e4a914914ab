/* SPDX-License-Identifier: Apache-2.0
 * Messages of our threads in the ranks: each goes to the checkpoint or the restart that waits for
 * it. */
#include "config.h"

#include "coordinator/agent/node/node.h"

#include <string.h>

#include "common/base/log.h"
#include "coordinator/agent/checkpoint/gpu.h"
#include "coordinator/agent/checkpoint/quiesce.h"
#include "coordinator/agent/checkpoint/rank_request.h"
#include "coordinator/agent/checkpoint/reclaim.h"
#include "coordinator/agent/restart/rank_restart.h"
#include "coordinator/agent/restart/restart.h"

/* ---- MPI threads --------------------------------------------------------------------------- */

/* A rank whose MPI is not back yet, or could not be brought back, says `restored` in every
 * HELLO. */
static void take_mpi_hello(struct thread_link *l)
{
	if (l->head.total != sizeof l->hello) {
		gck_warn("rank %u: its MPI thread is of another release", l->task->rank);
		thread_link_lost(l);
		return;
	}
	memcpy(&l->hello, l->data, sizeof l->hello);
	l->task->mpi_pid = l->pid;
	l->task->mpi_state = l->hello.state;
	l->task->in_mpi = !l->hello.mpi_inactive && l->hello.size != 1;
	if (!l->hello.restored)
		restart_back(l, RESTART_MPI, NULL);
}

/* May free what l points at. */
static void take_mpi(struct thread_link *l)
{
	struct gck_error err = { 0 };

	if (l->head.value)
		thread_link_failure(l, &err);
	switch (l->head.type) {
	case GCK_LINK_MPI_HELLO:
		take_mpi_hello(l);
		break;
	case GCK_LINK_MPI_READY:
		quiesce_ready(l->agent, l->task, &l->head, l->data);
		break;
	case GCK_LINK_MPI_QUIESCED:
		quiesce_answered(l->agent, l->task, l->head.seq, l->head.value ? &err : NULL);
		break;
	case GCK_LINK_MPI_OBSTACLE:
		thread_link_item(l);
		break;
	case GCK_LINK_MPI_OBSTACLES_END:
		l->looked = true;
		break;
	case GCK_LINK_MPI_REBUILT:
		restart_back(l, RESTART_MPI, l->head.value ? &err : NULL);
		break;
	case GCK_LINK_MPI_BYE:
		thread_link_lost(l);
		break;
	default:
		gck_warn("rank %u: its MPI thread sent an unknown message", l->task->rank);
		thread_link_lost(l);
	}
}

static void lose_mpi(const struct thread_link *l)
{
	quiesce_lost(l->agent, l->task);
}

static struct thread_link **mpi_slot(struct task *t)
{
	return &t->mpi;
}

static const struct thread_kind mpi = { "MPI", true, mpi_slot, take_mpi, lose_mpi };

/* ---- CUDA threads -------------------------------------------------------------------------- */

/* A rank whose GPU is not back yet, or could not be brought back, says `restored` in every
 * HELLO. */
static void take_cuda_hello(struct thread_link *l)
{
	struct gck_link_cuda_hello hello;

	if (l->head.total == sizeof hello)
		memcpy(&hello, l->data, sizeof hello);
	if (l->head.total != sizeof hello || hello.version != GCK_LINK_VERSION) {
		gck_warn("rank %u: its CUDA thread is of another release", l->task->rank);
		thread_link_lost(l);
		return;
	}
	l->number = (pid_t)hello.pid;
	if (!hello.restored)
		restart_back(l, RESTART_CUDA, NULL);
	else if (hello.data_missing)
		device_restore_wanted(l);
}

/* Comes after a checkpoint, even an earlier one, after a restart, and when the rank's watchdog
 * lets it resume. A rank whose GPU does not come back waits at the gate for ever: the step
 * cannot go on. */
static void resumed(const struct thread_link *l, const struct gck_error *why)
{
	restart_back(l, RESTART_CUDA, why);
	if (!why)
		gpu_resumed(l);
}

static void take_cuda(struct thread_link *l)
{
	struct gck_error err = { 0 };

	if (l->head.value)
		thread_link_failure(l, &err);
	switch (l->head.type) {
	case GCK_LINK_CUDA_HELLO:
		take_cuda_hello(l);
		break;
	case GCK_LINK_CUDA_DRAINED:
		gpu_drained(l, l->head.round, l->head.value ? &err : NULL);
		break;
	case GCK_LINK_CUDA_RESUMED:
		resumed(l, l->head.value ? &err : NULL);
		break;
	case GCK_LINK_CUDA_PREPARED:
		gpu_prepared(l, l->head.value ? &err : NULL);
		break;
	case GCK_LINK_CUDA_YIELDED:
		reclaim_answered(l, l->head.round);
		break;
	case GCK_LINK_CUDA_OBSTACLE:
		thread_link_item(l);
		break;
	case GCK_LINK_CUDA_OBSTACLES_END:
		l->queued_ms = l->head.round;
		l->looked = true;
		break;
	default:
		gck_warn("rank %u: its CUDA thread sent an unknown message", l->task->rank);
		thread_link_lost(l);
	}
}

static void lose_cuda(const struct thread_link *l)
{
	reclaim_lost(l->agent, l->pid);
	gpu_lost(l);
}

static struct thread_link **cuda_slot(struct task *t)
{
	return &t->cuda;
}

static const struct thread_kind cuda = { "CUDA", false, cuda_slot, take_cuda, lose_cuda };

/* ---- connections --------------------------------------------------------------------------- */

static void adopt(struct agent *a, int fd, pid_t pid, const struct gck_thread_msg *m, size_t size)
{
	if (m->type == GCK_LINK_CUDA_RECLAIM)
		reclaim_take(a, fd, pid, m, size);
	else if (m->type == GCK_LINK_MPI_HELLO)
		thread_link_adopt(a, fd, pid, &mpi, m, size);
	else
		thread_link_adopt(a, fd, pid, &cuda, m, size);
}

const struct links_ops thread_messages = { rank_request_take, restart_moved, adopt };

/* SPDX-License-Identifier: Apache-2.0
 * What the ranks' MPI threads say. */
#include "config.h"

#include "coordinator/agent/node/thread_messages.h"

#include <string.h>

#include "common/base/log.h"
#include "coordinator/agent/checkpoint/gpu.h"
#include "coordinator/agent/checkpoint/quiesce.h"
#include "coordinator/agent/checkpoint/rank_request.h"
#include "coordinator/agent/checkpoint/reclaim.h"
#include "coordinator/agent/restart/restart.h"

/* A rank whose MPI is not back yet, or could not be brought back, says `restored` in every HELLO. */
static void take_hello(struct thread_link *l)
{
	if (l->head.total != sizeof l->hello) {
		gck_warn("rank %u: its MPI thread is of another release", l->task->rank);
		thread_link_lost(l);
		return;
	}
	memcpy(&l->hello, l->data, sizeof l->hello);
	l->task->in_mpi = !l->hello.outside && l->hello.size != 1;
	if (!l->hello.restored)
		restart_back(l->agent, l->task, RESTART_MPI, NULL);
}

/* What l points at may be gone afterwards. */
static void take_message(struct thread_link *l)
{
	struct gck_error err = { 0 };

	if (l->head.value)
		thread_link_failure(l, &err);
	switch (l->head.type) {
	case GCK_LINK_MPI_HELLO:
		take_hello(l);
		break;
	case GCK_LINK_MPI_READY:
		quiesce_ready(l->agent, l->task, &l->head, l->data);
		break;
	case GCK_LINK_MPI_QUIESCED:
		quiesce_answered(l->agent, l->task, l->head.seq, l->head.value ? &err : NULL);
		break;
	case GCK_LINK_MPI_ITEM:
		thread_link_item(l);
		break;
	case GCK_LINK_MPI_LOOKED:
		l->looked = true;
		break;
	case GCK_LINK_MPI_REBUILT:
		restart_back(l->agent, l->task, RESTART_MPI, l->head.value ? &err : NULL);
		break;
	case GCK_LINK_MPI_BYE:
		thread_link_lost(l);
		break;
	default:
		gck_warn("rank %u: its MPI thread said what is not known", l->task->rank);
		thread_link_lost(l);
	}
}

static struct thread_link **slot(struct task *t)
{
	return &t->mpi;
}

/* Whoever waits for it has to know. */
static const struct thread_kind mpi = { "MPI", slot, take_message, quiesce_lost };

void mpi_adopt(struct agent *a, int fd, pid_t pid, const struct gck_link_mpi *m, size_t size)
{
	thread_link_adopt(a, fd, pid, &mpi, m, size);
}

unsigned mpi_count(const struct agent *a, bool *pmix)
{
	unsigned n = 0;

	*pmix = true;
	for (size_t i = 0; i < a->tasks.n; i++) {
		const struct task *t = a->tasks.v[i];

		if (t->ended || !t->mpi)
			continue;
		n++;
		if (!t->mpi->hello.pmix || t->mpi->hello.size != a->step->ntasks)
			*pmix = false;
	}
	return n;
}

void mpi_look(struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		if (a->tasks.v[i]->mpi)
			thread_link_look(a->tasks.v[i]->mpi, GCK_LINK_MPI_LOOK);
}

bool mpi_looked(const struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		if (a->tasks.v[i]->mpi && !a->tasks.v[i]->ended && !a->tasks.v[i]->mpi->looked)
			return false;
	return true;
}

/* ---- connections --------------------------------------------------------------------------- */

static void adopt(struct agent *a, int fd, pid_t pid, const struct gck_link_mpi *m, size_t size)
{
	if (m->type == GCK_LINK_CUDA_NEED)
		needs_take(a, fd, pid, m, size);
	else if (m->type == GCK_LINK_MPI_HELLO)
		mpi_adopt(a, fd, pid, m, size);
	else
		cuda_adopt(a, fd, pid, m, size);
}

const struct links_ops thread_messages = { asks_take, adopt };

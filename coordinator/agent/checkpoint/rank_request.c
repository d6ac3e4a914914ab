/* SPDX-License-Identifier: Apache-2.0
 * Ranks that ask for a checkpoint themselves. */
#include "config.h"

#include "coordinator/agent/checkpoint/rank_request.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/upstream/upstream.h"

#define AWAY_S 15. /* for a coordinator that is started anew */

static bool waits(const struct task_asks *s, int asker)
{
	return s->asked[asker] > s->committed[asker] && s->asked[asker] > s->failed[asker];
}

/* Also over a link that is lent to a worker: it is not answered, and a packet is whole. One that is
 * lost is made up for when the rank asks again. */
static void tell(const struct task *t, int asker)
{
	const struct task_asks *s = &t->asks;
	struct gck_link_msg m = { .type = GCK_LINK_TOLD, .told = { .asker = (uint32_t)asker,
		.committed = s->committed[asker], .failed = s->failed[asker],
		.code = (uint32_t)s->code } };

	memcpy(m.told.why, s->why, sizeof m.told.why);
	if (t->link)
		send(t->link->fd, &m, offsetof(struct gck_link_msg, told) + sizeof m.told,
		     MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void fail(struct task *t, int code, const char *why)
{
	struct task_asks *s = &t->asks;

	s->code = code;
	snprintf(s->why, sizeof s->why, "%s", why);
	for (int i = 0; i < GCK_ASKERS; i++) {
		if (!waits(s, i))
			continue;
		s->failed[i] = s->asked[i];
		tell(t, i);
	}
}

static void commit(struct task *t, int asker, uint32_t call)
{
	if (call <= t->asks.committed[asker])
		return;
	t->asks.committed[asker] = call;
	tell(t, asker);
}

/* ---- the rank's word ----------------------------------------------------------------------- */

static void note(struct agent *a, struct task_asks *s, const struct gck_link_ask *m)
{
	bool news = false;

	for (int i = 0; i < GCK_ASKERS; i++) {
		news = news || m->asked[i] > s->asked[i];
		s->asked[i] = m->asked[i];
	}
	if (!news)
		return;
	s->id = ++a->ask_id;
	s->since = ev_now(a->loop);
	s->away = 0;
}

/* What keeps the coordinator from taking one, or from saying so. */
static bool hopeless(const struct agent *a, struct task *t)
{
	double now = ev_now(a->loop), limit = a->step->options.timeout_ms / 1000.;
	struct task_asks *s = &t->asks;

	if (a->refused) {
		fail(t, EPERM, "the coordinator refuses this step: it runs without checkpoints");
		return true;
	}
	if (!upstream_welcomed(a->upstream)) {
		if (!s->away)
			s->away = now;
		if (now - s->away >= AWAY_S)
			fail(t, ENOTCONN, "the coordinator (gpuckptd) cannot be reached");
		return true;
	}
	s->away = 0;
	if (a->transaction || now - s->since < limit)
		return false;
	fail(t, ETIMEDOUT, "the coordinator (gpuckptd) began no checkpoint within timeout=");
	return true;
}

void asks_take(struct agent *a, struct task *t, const struct gck_link_ask *m)
{
	struct task_asks *s = &t->asks;
	bool one, all;

	note(a, s, m);
	one = waits(s, GCK_ASKER_ONE);
	all = waits(s, GCK_ASKER_ALL);
	for (int i = 0; i < GCK_ASKERS; i++)
		if (s->committed[i] || s->failed[i])
			tell(t, i);
	if ((!one && !all) || hopeless(a, t))
		return;
	upstream_send(a, json_pack("{s:s, s:I, s:I, s:b, s:I}", "op", "ask", "id",
		      (json_int_t)s->id, "rank", (json_int_t)t->rank, "one", one, "all",
		      (json_int_t)(all ? s->asked[GCK_ASKER_ALL] : 0)));
}

/* ---- what comes of it ---------------------------------------------------------------------- */

void asks_answered(struct agent *a, const json_t *body)
{
	json_int_t all = packet_int(body, "all", 0), id = packet_int(body, "id", 0);
	json_int_t rank = packet_int(body, "rank", -1);
	int code = (int)packet_int(body, "code", ECANCELED);

	for (size_t i = 0; i < a->tasks.n; i++) {
		struct task *t = a->tasks.v[i];

		commit(t, GCK_ASKER_ALL, (uint32_t)all);
		if (!all && t->asks.id <= (uint64_t)id && (rank < 0 || rank == t->rank))
			fail(t, code > 0 ? code : ECANCELED, packet_text(body, "error", "no reason given"));
	}
}

static void commit_one(const struct member *m)
{
	commit(m->task, GCK_ASKER_ONE,
	       (uint32_t)packet_int(m->answer[PHASE_FREEZE], "asked_one", 0));
}

void asks_committed(struct agent *a, const struct transaction *t, uint32_t all)
{
	for (size_t i = 0; t && i < t->n; i++)
		commit_one(&t->members[i]);
	for (size_t i = 0; i < a->tasks.n; i++)
		commit(a->tasks.v[i], GCK_ASKER_ALL, all);
}

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

#define AWAY_S 15. /* for a coordinator that restarts */

static bool waits(const struct task_requests *s, int kind)
{
	return s->asked[kind] > s->committed[kind] && s->asked[kind] > s->failed[kind];
}

/* A link that is lent to a worker can be used too: this message has no answer, and packets are
 * whole. If it is lost, the rank asks again. */
static void tell(const struct task *t, int kind)
{
	const struct task_requests *s = &t->requests;
	struct gck_link_msg m = { .type = GCK_LINK_OUTCOME, .outcome = { .kind = (uint32_t)kind,
		.committed = s->committed[kind], .failed = s->failed[kind],
		.code = (uint32_t)s->code } };

	memcpy(m.outcome.why, s->why, sizeof m.outcome.why);
	if (t->link)
		send(t->link->fd, &m, offsetof(struct gck_link_msg, outcome) + sizeof m.outcome,
		     MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void fail(struct task *t, int code, const char *why)
{
	struct task_requests *s = &t->requests;

	s->code = code;
	snprintf(s->why, sizeof s->why, "%s", why);
	for (int i = 0; i < GCK_REQUEST_KINDS; i++) {
		if (!waits(s, i))
			continue;
		s->failed[i] = s->asked[i];
		tell(t, i);
	}
}

static void commit(struct task *t, int kind, uint32_t call)
{
	if (call <= t->requests.committed[kind])
		return;
	t->requests.committed[kind] = call;
	tell(t, kind);
}

/* ---- requests ------------------------------------------------------------------------------ */

static void note(struct agent *a, struct task_requests *s, const struct gck_link_ask *m)
{
	bool news = false;

	for (int i = 0; i < GCK_REQUEST_KINDS; i++) {
		news = news || m->asked[i] > s->asked[i];
		s->asked[i] = m->asked[i];
	}
	if (!news)
		return;
	s->id = ++a->request_id;
	s->since = ev_now(a->loop);
	s->away = 0;
}

/* Is there a reason why the coordinator will take no checkpoint, or cannot tell? Then the rank's
 * calls fail. */
static bool hopeless(const struct agent *a, struct task *t)
{
	double now = ev_now(a->loop), limit = a->step->options.timeout_ms / 1000.;
	struct task_requests *s = &t->requests;

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

void rank_request_take(struct agent *a, struct task *t, const struct gck_link_ask *m)
{
	struct task_requests *s = &t->requests;
	bool one, all;

	note(a, s, m);
	one = waits(s, GCK_REQUEST_ONE);
	all = waits(s, GCK_REQUEST_ALL);
	for (int i = 0; i < GCK_REQUEST_KINDS; i++)
		if (s->committed[i] || s->failed[i])
			tell(t, i);
	if ((!one && !all) || hopeless(a, t))
		return;
	upstream_send(a, json_pack("{s:s, s:I, s:I, s:b, s:I}", "op", "ask", "id",
		      (json_int_t)s->id, "rank", (json_int_t)t->rank, "one", one, "all",
		      (json_int_t)(all ? s->asked[GCK_REQUEST_ALL] : 0)));
}

/* ---- answers ------------------------------------------------------------------------------- */

void rank_request_answered(struct agent *a, const json_t *body)
{
	json_int_t all = packet_int(body, "all", 0), id = packet_int(body, "id", 0);
	json_int_t rank = packet_int(body, "rank", -1);
	int code = (int)packet_int(body, "code", ECANCELED);

	for (size_t i = 0; i < a->tasks.n; i++) {
		struct task *t = a->tasks.v[i];

		commit(t, GCK_REQUEST_ALL, (uint32_t)all);
		if (!all && t->requests.id <= (uint64_t)id && (rank < 0 || rank == t->rank))
			fail(t, code > 0 ? code : ECANCELED,
			     packet_text(body, "error", "no reason given"));
	}
}

static void commit_one(const struct rank_checkpoint *m)
{
	commit(m->task, GCK_REQUEST_ONE,
	       (uint32_t)packet_int(m->answer[PHASE_FREEZE], "asked_one", 0));
}

void rank_request_committed(struct agent *a, const struct transaction *t, uint32_t all)
{
	for (size_t i = 0; t && i < t->n; i++)
		commit_one(&t->ranks[i]);
	for (size_t i = 0; i < a->tasks.n; i++)
		commit(a->tasks.v[i], GCK_REQUEST_ALL, all);
}

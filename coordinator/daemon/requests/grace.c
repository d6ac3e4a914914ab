/* SPDX-License-Identifier: Apache-2.0
 * Requests that wait for agents after a start. */
#include "coordinator/daemon/requests/requests.h"

#include <stdlib.h>

#include "coordinator/core/operations/operation.h"

/* The agents' longest back-off, and as much again for a name look-up, the list of a store's
 * commits, and a question to Slurm. */
#define GRACE_S (2. * GCK_WIRE_RETRY_MAX_S)

/* The period is counted in parts, and a late timer counts as one part: while the machine was
 * suspended no agent could connect. */
#define PARTS 10

struct gck_waiting_request {
	struct gck_waiting_request *next;
	struct gck_peer *peer;
	gck_grace_fn *resume;
	uint32_t job, step;
	json_t *body;
};

/* ---- what has been heard ------------------------------------------------------------------- */

/* Did all its agents say bye? */
static bool is_over(const struct gck_step *step)
{
	for (uint32_t i = 0; i < step->nodes; i++)
		if (!step->over || !step->over[i])
			return false;
	return true;
}

/* A step that nothing is known of may run. If its job waits in Slurm's queue or has ended, no agent
 * comes, and requests are answered when the period is over. */
static bool is_heard_of(const struct gck_step *step)
{
	if (step->live)
		return !gck_live_missing(step->live);
	return step->finished || is_over(step);
}

static bool are_heard_of(const struct gck_daemon *d, uid_t uid, uint32_t job, uint32_t step)
{
	for (const struct gck_job *j = d->core.state.jobs; j; j = j->next) {
		if (j->gone || (job && j->id != job) || !gck_may_see(d, uid, j->uid))
			continue;
		for (const struct gck_step *s = j->steps; s; s = s->next)
			if ((step == GCK_EVERY_STEP || s->id == step) && !is_heard_of(s))
				return false;
	}
	return true;
}

static bool must_wait(const struct gck_peer *peer, uint32_t job, uint32_t step)
{
	const struct gck_daemon *d = peer->daemon;

	return ev_is_active(&d->grace) && !are_heard_of(d, peer->uid, job, step);
}

bool gck_grace_awaits(const struct gck_daemon *d, const struct gck_step *step)
{
	return ev_is_active(&d->grace) && !is_heard_of(step);
}

/* ---- what waits for it --------------------------------------------------------------------- */

bool gck_grace_keeps(struct gck_peer *peer, uint32_t job, uint32_t step, const json_t *body,
		     gck_grace_fn *resume)
{
	struct gck_waiting_request **p = &peer->daemon->waiting_requests;
	struct gck_waiting_request *k = must_wait(peer, job, step) ? malloc(sizeof *k) : NULL;

	if (!k)
		return false;
	*k = (struct gck_waiting_request){NULL, peer, resume, job, step,
					  json_incref((json_t *)body)};
	while (*p)
		p = &(*p)->next;
	*p = k;
	return true;
}

static void drop(struct gck_waiting_request **p)
{
	struct gck_waiting_request *k = *p;

	*p = k->next;
	json_decref(k->body);
	free(k);
}

static void take_up(struct gck_waiting_request **p)
{
	struct gck_peer *peer = (*p)->peer;
	gck_grace_fn *resume = (*p)->resume;
	json_t *body = json_incref((*p)->body);

	drop(p);
	peer->busy = false;
	resume(peer, body);
	json_decref(body);
}

/* Start over after each request: it may close connections and so change the list. */
void gck_grace_check(struct gck_daemon *d)
{
	struct gck_waiting_request **p = &d->waiting_requests;

	while (*p)
		if (must_wait((*p)->peer, (*p)->job, (*p)->step)) {
			p = &(*p)->next;
		} else {
			take_up(p);
			p = &d->waiting_requests;
		}
}

void gck_grace_leave(struct gck_peer *peer)
{
	struct gck_waiting_request **p = &peer->daemon->waiting_requests;

	while (*p && (*p)->peer != peer)
		p = &(*p)->next;
	if (*p)
		drop(p);
}

static void on_part(struct ev_loop *loop, ev_timer *w, int events)
{
	struct gck_daemon *d = w->data;

	(void)events;
	if (--d->grace_parts) {
		ev_timer_again(loop, w);
		return;
	}
	ev_timer_stop(loop, w);
	gck_grace_check(d);
}

void gck_grace_begin(struct gck_daemon *d)
{
	d->grace_parts = PARTS;
	ev_timer_init(&d->grace, on_part, 0., GRACE_S / PARTS);
	d->grace.data = d;
	ev_timer_again(d->loop, &d->grace);
}

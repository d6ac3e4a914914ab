/* SPDX-License-Identifier: Apache-2.0
 * The grace period after a start. What the steps of the journal do is not known until their agents
 * have connected anew, so a request about one that has not been heard of waits: until all agents of
 * the steps it means are here, or the period is over. Then it is taken up with what is known. */
#ifndef GCK_GRACE_H
#define GCK_GRACE_H

#include "coordinator/daemon/peer/peer.h"

/* It begins. */
void gck_grace_begin(struct gck_daemon *d);

/* Must the peer's request wait? It is about a step, a job (GCK_EVERY_STEP) or all that its user may see
 * (job 0). If so it is kept, with a reference to body, and given to resume later. */
typedef void gck_grace_fn(struct gck_peer *peer, const json_t *body);
bool gck_grace_keeps(struct gck_peer *peer, uint32_t job, uint32_t step, const json_t *body,
		     gck_grace_fn *resume);

/* Are agents of the step still to come? */
bool gck_grace_awaits(const struct gck_daemon *d, const struct gck_step *step);

/* An agent has joined: take up what need not wait any more. */
void gck_grace_check(struct gck_daemon *d);

/* The peer is gone, and so is what it asked. */
void gck_grace_leave(struct gck_peer *peer);

#endif

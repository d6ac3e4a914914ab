/* SPDX-License-Identifier: Apache-2.0
 * "unwrap": jobs' data keys for their owners. */
#ifndef GCK_DAEMON_UNWRAP_H
#define GCK_DAEMON_UNWRAP_H

#include "coordinator/daemon/peer/peer.h"

/* Answered at once, to the owner of the job alone: not to root, and to no other user who may see it. */
void gck_unwrap_message(struct gck_peer *peer, const json_t *body);

#endif

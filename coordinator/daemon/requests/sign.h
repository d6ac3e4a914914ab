/* SPDX-License-Identifier: Apache-2.0
 * "sign": URLs for agents and the CLI. */
#ifndef GCK_DAEMON_SIGN_H
#define GCK_DAEMON_SIGN_H

#include "coordinator/daemon/peer/peer.h"

/* Answered at once, or when Slurm has said whose job it is. */
void gck_sign_message(struct gck_peer *peer, const json_t *body);

#endif

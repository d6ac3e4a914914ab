/* SPDX-License-Identifier: Apache-2.0
 * Which function takes a message of a connection, and what the end of a connection means. */
#include <string.h>

#include "coordinator/core/operations/operation.h"
#include "coordinator/daemon/requests/requests.h"

static void on_message(struct gck_peer *peer, const char *op, const json_t *body)
{
	if (!strcmp(op, "sign"))
		gck_sign_message(peer, body);
	else if (!strcmp(op, "unwrap"))
		gck_unwrap_message(peer, body);
	else if (peer->agent || !strcmp(op, "register"))
		gck_agent_message(peer, body);
	else
		gck_request_message(peer, body);
}

static void on_closed(struct gck_peer *peer)
{
	gck_grace_leave(peer);
	gck_operation_leave(&peer->daemon->core, peer);
	if (peer->agent)
		gck_agent_closed(peer->agent);
	if (peer->importer)
		gck_importer_closed(peer->importer);
}

const struct gck_peer_ops gck_request_ops = {.message = on_message, .closed = on_closed};

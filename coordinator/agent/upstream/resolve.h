/* SPDX-License-Identifier: Apache-2.0
 * Where the coordinator is and as whom it runs: both from name services, which may be slow. */
#ifndef AGENT_RESOLVE_H
#define AGENT_RESOLVE_H

#include <jansson.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "common/base/error.h"

struct resolved {
	struct sockaddr_storage address;
	socklen_t len;
	uid_t uid;
};

/* For job.h; arg is a struct gck_conf: {"uid","port","addresses":[..]}. */
json_t *resolve(const void *conf, struct gck_error *err);

/* The address for an attempt, in turn. -1 if there is none. */
int resolve_take(const json_t *result, unsigned attempt, struct resolved *out);

#endif

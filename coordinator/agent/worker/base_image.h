/* SPDX-License-Identifier: Apache-2.0
 * The image of the commit before that a rank's image builds on. */
#ifndef AGENT_BASE_IMAGE_H
#define AGENT_BASE_IMAGE_H

#include <jansson.h>

#include "coordinator/agent/worker/worker.h"
#include "storage/store/store.h"

/* The rank's manifest there, and its hash: chunks that it has are not written again. NULL without a
 * readable one: everything is written. */
json_t *base_manifest(const struct worker_task *t, struct gck_store *store, char hash[GCK_HASH_TEXT]);

#endif

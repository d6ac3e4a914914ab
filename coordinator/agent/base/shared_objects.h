/* SPDX-License-Identifier: Apache-2.0
 * What ranks of this node share and write. Memory, if one of those that have it mapped writes: a
 * restart would give each its own copy. Files that they have open for writing: each rank's image
 * brings the whole file back, over what the others' had brought, unless it has a name and all of them
 * only append, or it is the step's output. */
#ifndef AGENT_SHARED_OBJECTS_H
#define AGENT_SHARED_OBJECTS_H

#include <jansson.h>

#include "common/base/error.h"
#include "coordinator/agent/base/tasks.h"

/* [{"rank","object","reason","remedy","refuse":true}], one entry per object (empty: none). Ranks
 * that have ended and maps that cannot be read are left out. */
json_t *shared_find(const struct tasks *t);

/* -1 and the first entry as a text if there is one. */
int shared_refuse(const struct tasks *t, struct gck_error *err);

#endif
